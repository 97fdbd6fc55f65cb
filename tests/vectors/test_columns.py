"""The columns path reads the same vectors, and Java reads what it writes."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from semel.protocol.columns import SCHEMA_WITH_HEADERS, decode_columns, encode_columns
from semel.protocol.compression import Codec
from semel.protocol.record_batch import iter_headers
from tests.support.java import JavaProgram
from tests.vectors.cases import HEADERS, MANY, MIXED, NULLS, SPANNING, TIMES, Json, b64
from tests.vectors.observed import spelled_out

DATA = Path(__file__).resolve().parent / "data"
NAMES = sorted(path.stem for path in DATA.glob("*.bin"))
JAVA_NAMES = [name for name in NAMES if name.startswith("java_")]
TIMESTAMP_TYPES = {"create_time": 0, "log_append_time": 1}
RECORDS = {"headers": HEADERS, "many": MANY, "mixed": MIXED, "nulls": NULLS, "spanning": SPANNING, "times": TIMES}
COMPARED = ("key", "value", "headers", "timestamp_ms", "offset")


def expected_rows(batches: list[Json]) -> list[Json]:
    """Say in Spark's columns what the expected values say; markers are no rows."""
    return [
        {
            "key": record["key"],
            "value": record["value"],
            "topic": "vectors",
            "partition": 3,
            "offset": record["offset"],
            "timestamp": record["timestamp_ms"] * 1000,
            "timestampType": TIMESTAMP_TYPES[batch["timestamp_type"]],
            "headers": [{"key": name, "value": content} for name, content in record["headers"]] or None,
        }
        for batch in batches
        if not batch["is_control"]
        for record in batch["records"]
    ]


def observed_rows(buffer: bytes) -> tuple[list[Json], int]:
    """Decode to rows and the next offset; times as microseconds, which Python's own times cannot all hold."""
    decoded = decode_columns(buffer, topic="vectors", partition=3, include_headers=True)
    assert decoded.rows.schema == SCHEMA_WITH_HEADERS
    times = decoded.rows.column("timestamp").cast(pa.int64())
    position = decoded.rows.schema.get_field_index("timestamp")
    return decoded.rows.set_column(position, "timestamp", times).to_pylist(), decoded.offset_next


def expected_batches(name: str) -> list[Json]:
    return spelled_out(json.loads((DATA / f"{name}.json").read_text())["batches"])


@pytest.mark.parametrize("name", NAMES)
def test_columns_of_each_batch(name: str) -> None:
    buffer, batches = (DATA / f"{name}.bin").read_bytes(), expected_batches(name)
    found = list(iter_headers(buffer))
    assert len(found) == len(batches)
    for (position, header), batch in zip(found, batches, strict=True):
        one = buffer[position : position + header.size_bytes]
        assert observed_rows(one) == (expected_rows([batch]), batch["offset_next"])


@pytest.mark.parametrize("name", JAVA_NAMES)
def test_columns_of_the_whole_buffer(name: str) -> None:
    """Only Java's buffers are one log: librdkafka numbers each batch from zero."""
    batches = expected_batches(name)
    observed = observed_rows((DATA / f"{name}.bin").read_bytes())
    assert observed == (expected_rows(batches), batches[-1]["offset_next"])


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("name", RECORDS)
def test_java_reads_what_columns_wrote(java: JavaProgram, name: str, codec: Codec) -> None:
    (wanted,) = spelled_out([{"records": RECORDS[name]}])
    records = wanted["records"]
    encoded = encode_columns(
        pa.array([one["key"] for one in records], pa.binary()),
        pa.array([one["value"] for one in records], pa.binary()),
        timestamps_ms=pa.array([one["timestamp_ms"] for one in records], pa.int64()),
        headers=pa.array([_header_cells(one) for one in records], SCHEMA_WITH_HEADERS.field("headers").type),
        codec=codec,
        producer_id=7,
        producer_epoch=2,
        base_sequence=2**31 - 1,
        transactional=True,
    )
    answer = java.ask("read", bytes=b64(bytes(encoded.buffer)))
    (batch,) = spelled_out(answer["batches"])
    assert answer["unread_bytes"] == 0
    numbered = [{**one, "offset": offset} for offset, one in enumerate(records)]
    assert [{field: one[field] for field in COMPARED} for one in batch["records"]] == numbered
    times = [one["timestamp_ms"] for one in records]
    fields = ("producer_id", "producer_epoch", "base_sequence", "is_transactional", "max_timestamp_ms", "last_sequence")
    assert [batch[field] for field in fields] == [7, 2, 2**31 - 1, True, max(times), len(records) - 2]


def _header_cells(record: Json) -> list[Json] | None:
    return [{"key": name, "value": content} for name, content in record["headers"]] or None

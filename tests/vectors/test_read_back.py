"""Kafka's Java classes read what semel wrote, and semel reads what they wrote, over the whole domain."""

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.java import JavaError, JavaProgram
from tests.vectors.cases import CODECS, Json, b64, java_cases
from tests.vectors.drafts import encode_case
from tests.vectors.observed import observed_batches, spelled_out

DATA = Path(__file__).resolve().parent / "data"
CASES = java_cases()
UNCOMPRESSED = [name for name, batches in CASES.items() if all(one.get("codec", "none") == "none" for one in batches)]
OFFSET_MAX = 2**62
DELTA_MAX = 2**31 - 1

payloads = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3)


@st.composite
def record_lists(draw: st.DrawFn, base_offset: int, time_ms_min: int) -> list[Json]:
    """Draw records with any times, and offsets that rise with or without holes."""
    deltas = sorted(draw(st.sets(st.integers(0, DELTA_MAX), min_size=1, max_size=8)))
    return [
        {
            "offset": base_offset + delta,
            "timestamp_ms": draw(st.integers(time_ms_min, 2**50)),
            "key": b64(draw(payloads)),
            "value": b64(draw(payloads)),
            "headers": [[name, b64(content)] for name, content in draw(headers)],
        }
        for delta in deltas
    ]


@st.composite
def batch_cases(draw: st.DrawFn, time_ms_min: int) -> Json:
    """Draw one batch: any codec, plain, idempotent or transactional, either kind of timestamp."""
    base_offset = draw(st.integers(0, OFFSET_MAX))
    batch: Json = {
        "base_offset": base_offset,
        "leader_epoch": draw(st.integers(-1, DELTA_MAX)),
        "codec": draw(st.sampled_from(CODECS)),
        "records": draw(record_lists(base_offset, time_ms_min)),
    }
    if draw(st.booleans()):
        producer = {"producer_id": draw(st.integers(0, OFFSET_MAX)), "producer_epoch": draw(st.integers(0, 2**15 - 1))}
        sequence = {"base_sequence": draw(st.integers(0, DELTA_MAX)), "is_transactional": draw(st.booleans())}
        batch |= producer | sequence
    if draw(st.booleans()):
        batch |= {"timestamp_type": "log_append_time", "max_timestamp_ms": draw(st.integers(0, 2**50))}
    return batch


def java_reads(java: JavaProgram, written: bytes) -> list[Json]:
    answer = java.ask("read", bytes=b64(written))
    assert answer["unread_bytes"] == 0
    return spelled_out(answer["batches"])


@pytest.mark.parametrize("name", CASES)
def test_java_reads_each_case(java: JavaProgram, name: str) -> None:
    written = b"".join(encode_case(batch) for batch in CASES[name])
    by_java = java_reads(java, written)
    assert by_java == observed_batches(written)
    wanted = observed_batches((DATA / f"java_{name}.bin").read_bytes())
    assert [_without_sizes(batch) for batch in by_java] == [_without_sizes(batch) for batch in wanted]


def _without_sizes(batch: Json) -> Json:
    """Leave out what depends on how hard a compressor tried."""
    return {name: value for name, value in batch.items() if name not in ("size_bytes", "crc")}


@pytest.mark.parametrize("name", UNCOMPRESSED)
def test_uncompressed_bytes_are_the_same_as_java_s(name: str) -> None:
    assert b"".join(encode_case(batch) for batch in CASES[name]) == (DATA / f"java_{name}.bin").read_bytes()


@given(batches=st.lists(batch_cases(time_ms_min=-(2**50)), min_size=1, max_size=3))
def test_java_and_semel_read_the_same_in_what_semel_wrote(java: JavaProgram, batches: list[Json]) -> None:
    written = b"".join(encode_case(batch) for batch in batches)
    by_java = java_reads(java, written)
    assert by_java == observed_batches(written)
    for read, batch in zip(by_java, spelled_out(batches), strict=True):
        assert_as_drawn(read, batch)


@given(batches=st.lists(batch_cases(time_ms_min=0), min_size=1, max_size=3))
def test_semel_reads_what_java_wrote(java: JavaProgram, batches: list[Json]) -> None:
    written = base64.b64decode(java.ask("write", batches=batches)["bytes"])
    for read, batch in zip(observed_batches(written), spelled_out(batches), strict=True):
        assert_as_drawn(read, batch)


def assert_as_drawn(read: Json, batch: Json) -> None:
    """Compare every drawn field; the log's own time overrides that of the records."""
    if batch.get("timestamp_type") == "log_append_time":
        batch = {**batch, "records": [{**one, "timestamp_ms": batch["max_timestamp_ms"]} for one in batch["records"]]}
    assert {name: read[name] for name in batch} == batch


def test_java_refuses_a_damaged_batch(java: JavaProgram) -> None:
    """The differential tests above mean something only if Java does check what it reads."""
    written = bytearray(encode_case(CASES["none"][0]))
    written[-1] ^= 1
    with pytest.raises(JavaError, match="corrupt"):
        java.ask("read", bytes=b64(bytes(written)))

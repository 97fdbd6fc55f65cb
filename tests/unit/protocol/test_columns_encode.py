"""Columns as record batches: what goes in comes out, in order, in batches of the wanted size; P2."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ConfigError
from semel.protocol.columns import SCHEMA_WITH_HEADERS, EncodedBatches, encode_columns, stamp_producer
from semel.protocol.record_batch import Codec, DraftRecord, Record, check_batch, decode_records, read_header
from tests.unit.protocol.strategies import DRAFTS

HEADERS_TYPE = SCHEMA_WITH_HEADERS.field("headers").type
VALUES = pa.array([b"a", b"bb", None, b"dddd"], pa.binary())


def header_cells(drafts: list[DraftRecord]) -> Any:
    cells = [[{"key": name, "value": value} for name, value in draft.headers] or None for draft in drafts]
    return pa.array(cells, HEADERS_TYPE)


def encode(drafts: list[DraftRecord], **options: Any) -> EncodedBatches:
    return encode_columns(
        pa.array([draft.key for draft in drafts], pa.binary()),
        pa.array([draft.value for draft in drafts], pa.binary()),
        timestamps_ms=np.array([draft.timestamp_ms for draft in drafts], dtype=np.int64),
        headers=header_cells(drafts),
        **options,
    )


def read(encoded: EncodedBatches) -> list[Record]:
    records: list[Record] = []
    for batch, count in zip(encoded, encoded.record_counts, strict=True):
        header = read_header(batch)
        check_batch(batch, header)
        found = decode_records(batch, header)
        assert len(found) == count == header.last_offset_delta + 1
        assert header.max_timestamp_ms == max(record.timestamp_ms for record in found)
        assert header.base_timestamp_ms == found[0].timestamp_ms
        records += found
    return records


def contents(records: list[Record] | list[DraftRecord]) -> list[tuple[object, ...]]:
    return [(record.key, record.value, record.timestamp_ms, record.headers) for record in records]


def values_of(encoded: EncodedBatches) -> list[bytes | None]:
    return [record.value for record in read(encoded)]


@given(DRAFTS, st.sampled_from(Codec), st.sampled_from([62, 200, 500, 1_000_000]))
def test_round_trip(drafts: list[DraftRecord], codec: Codec, batch_bytes_max: int) -> None:
    """P2."""
    encoded = encode(drafts, codec=codec, batch_bytes_max=batch_bytes_max)
    assert contents(read(encoded)) == contents(drafts)
    for batch, count in zip(encoded, encoded.record_counts, strict=True):
        assert len(batch) <= batch_bytes_max or count == 1


@given(DRAFTS, st.data())
def test_chosen_rows_in_their_order(drafts: list[DraftRecord], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(drafts) - 1), max_size=20))
    encoded = encode(drafts, rows=np.array(rows, dtype=np.int64), batch_bytes_max=300)
    assert contents(read(encoded)) == contents([drafts[row] for row in rows])


@given(DRAFTS, st.data())
def test_sliced_columns(drafts: list[DraftRecord], data: st.DataObject) -> None:
    """Validity bits and offsets of a slice start in the middle of their buffers."""
    start = data.draw(st.integers(0, len(drafts)))
    keys = pa.array([draft.key for draft in drafts], pa.binary()).slice(start)
    values = pa.array([draft.value for draft in drafts], pa.large_binary()).slice(start)
    times = pa.array([draft.timestamp_ms for draft in drafts], pa.int64()).slice(start)
    encoded = encode_columns(keys, values, timestamps_ms=times, headers=header_cells(drafts).slice(start))
    assert contents(read(encoded)) == contents(drafts[start:])


@pytest.mark.parametrize(
    "convert",
    [
        lambda: pa.array(["a", "bb", None, "dddd"]),
        lambda: pa.array(["a", "bb", None, "dddd"], pa.large_string()),
        lambda: VALUES.cast(pa.large_binary()),
        lambda: VALUES.cast(pa.binary_view()),
        lambda: pa.chunked_array([VALUES[:1], VALUES[1:]]),
        lambda: pa.chunked_array([VALUES]),
    ],
)
def test_input_types(convert: Callable[[], Any]) -> None:
    assert values_of(encode_columns(None, convert(), timestamps_ms=0)) == [b"a", b"bb", None, b"dddd"]


def test_fixed_size_and_null_types() -> None:
    fixed = pa.array([b"ab", None, b"cd"], pa.binary(2))
    encoded = encode_columns(pa.nulls(3), fixed, timestamps_ms=0)
    assert [(record.key, record.value) for record in read(encoded)] == [(None, b"ab"), (None, None), (None, b"cd")]


def test_timestamps_of_arrow() -> None:
    times = pa.array([1_700_000_000_123_456, -1_000], pa.timestamp("us", tz="UTC"))
    assert [record.timestamp_ms for record in read(encode_columns(None, VALUES[:2], timestamps_ms=times))] == [
        1_700_000_000_123,
        -1,
    ]


def test_no_rows_no_batches() -> None:
    encoded = encode_columns(None, VALUES[:0], timestamps_ms=0)
    assert (len(encoded), list(encoded), bytes(encoded.buffer)) == (0, [], b"")


def test_sequences_go_on_and_wrap() -> None:
    encoded = encode_columns(
        None,
        VALUES,
        timestamps_ms=0,
        batch_bytes_max=62,
        producer_id=5,
        producer_epoch=6,
        base_sequence=2**31 - 2,
        transactional=True,
    )
    headers = [read_header(batch) for batch in encoded]
    assert [header.base_sequence for header in headers] == [2**31 - 2, 2**31 - 1, 0, 1]
    assert {(header.producer_id, header.producer_epoch, header.is_transactional) for header in headers} == {
        (5, 6, True)
    }


@pytest.mark.parametrize("codec", Codec)
def test_producer_stamped_later(codec: Codec) -> None:
    values = pa.array([b"same" * 50] * 10)
    early = encode_columns(
        None, values, timestamps_ms=9, codec=codec, producer_id=1, producer_epoch=2, base_sequence=3, transactional=True
    )
    late = encode_columns(None, values, timestamps_ms=9, codec=codec, transactional=True)
    assert {read_header(batch).base_sequence for batch in late} == {-1}
    for batch in late:
        stamp_producer(batch, producer_id=1, producer_epoch=2, base_sequence=3)
    assert bytes(late.buffer) == bytes(early.buffer)


def test_what_compression_would_enlarge_goes_as_it_is() -> None:
    noise = pa.array([np.random.default_rng(1).bytes(500)])
    (batch,) = encode_columns(None, noise, timestamps_ms=0, codec=Codec.ZSTD)
    assert read_header(batch).codec is Codec.NONE
    (batch,) = encode_columns(None, pa.array([bytes(500)]), timestamps_ms=0, codec=Codec.ZSTD)
    assert read_header(batch).codec is Codec.ZSTD


def test_batches_as_arrow_cells() -> None:
    encoded = encode_columns(None, VALUES, timestamps_ms=0, batch_bytes_max=62)
    assert encoded.to_arrow().to_pylist() == [bytes(batch) for batch in encoded]


def bad_headers(*cells: Any, kind: Any = HEADERS_TYPE) -> Any:
    return pa.array([list(cells)] + [None] * 3, kind)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rows": np.array([4])}, "row numbers"),
        ({"rows": np.array([-1])}, "row numbers"),
        ({"timestamps_ms": np.array([1])}, "1 timestamps for 4 rows"),
        ({"timestamps_ms": pa.array([1, None, 2, 3])}, "timestamp is null"),
        ({"batch_bytes_max": 61}, "no room"),
        ({"headers": pa.array([1, 2, 3, 4])}, "list of"),
        ({"headers": bad_headers({"key": None, "value": b""})}, "no name"),
        ({"headers": bad_headers(kind=HEADERS_TYPE).slice(1)}, "'headers' has 3 rows"),
        ({"headers": pa.array([[{"k": b"", "v": b""}]] * 4)}, "must be strings"),
    ],
)
def test_bad_input(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        encode_columns(None, VALUES, **{"timestamps_ms": 0, **options})


def test_bad_columns() -> None:
    with pytest.raises(ConfigError, match="'key' has 1 rows"):
        encode_columns(VALUES[:1], VALUES, timestamps_ms=0)
    with pytest.raises(ConfigError, match="'value' must be binary or string, not int64"):
        encode_columns(None, pa.array([1]), timestamps_ms=0)


def test_batch_of_exactly_the_limit() -> None:
    whole = len(encode_columns(None, VALUES, timestamps_ms=7).buffer)
    assert encode_columns(None, VALUES, timestamps_ms=7, batch_bytes_max=whole).record_counts == (4,)
    assert encode_columns(None, VALUES, timestamps_ms=7, batch_bytes_max=whole - 1).record_counts == (3, 1)

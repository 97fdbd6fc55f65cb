"""Record batches as columns: the same records as the slow path, whatever the batches; P1, P2, P3, P4."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import CorruptBatchError, ProtocolError, UnsupportedVersionError
from semel.protocol.batch_header import write_crc
from semel.protocol.columns import SCHEMA, SCHEMA_WITH_HEADERS, DecodedColumns, decode_columns
from semel.protocol.record_batch import (
    Codec,
    DraftRecord,
    Marker,
    TimestampType,
    encode_batch,
    encode_marker,
    iter_headers,
)
from tests.unit.protocol.rows import read_fast, read_slow, records_of
from tests.unit.protocol.strategies import Sample, logs


def drafts(*values: bytes) -> list[DraftRecord]:
    return [DraftRecord(key=None, value=value, timestamp_ms=1000 + index) for index, value in enumerate(values)]


def decode(buffer: bytes, *, read_committed: bool = True, aborted: tuple[tuple[int, int], ...] = ()) -> DecodedColumns:
    return decode_columns(buffer, topic="orders", partition=3, read_committed=read_committed, aborted=aborted)


def values_of(decoded: DecodedColumns) -> list[object]:
    return decoded.rows.column("value").to_pylist()


@given(logs())
def test_same_as_the_slow_path(batches: list[Sample]) -> None:
    """P2."""
    buffer = b"".join(batch.encoded for batch in batches)
    decoded = decode_columns(buffer, topic="orders", partition=3, include_headers=True)
    assert records_of(decoded) == read_slow(buffer) == [record for batch in batches for record in batch.records]
    assert decoded.offset_next == (batches[-1].offset_next if batches else 0)
    assert decoded.rows.column("timestampType").to_pylist() == [
        int(batch.timestamp_type) for batch in batches for _ in batch.records
    ]


@given(logs(), st.data())
def test_window(batches: list[Sample], data: st.DataObject) -> None:
    """P4 the window cuts inside batches, and offset_next stays within it."""
    buffer = b"".join(batch.encoded for batch in batches)
    records = [record for batch in batches for record in batch.records]
    near = [record.offset for record in records] + [batch.offset_next for batch in batches] + [0]
    start, end = sorted(data.draw(st.tuples(st.sampled_from(near), st.sampled_from(near))))
    decoded = decode_columns(
        buffer, topic="orders", partition=3, include_headers=True, offset_start=start, offset_end=end
    )
    assert records_of(decoded) == [record for record in records if start <= record.offset < end]
    assert start <= decoded.offset_next <= end
    assert all(record.offset < decoded.offset_next for record in records if record.offset < end)


@given(logs(), st.data())
def test_truncated_buffer(batches: list[Sample], data: st.DataObject) -> None:
    """P4 a cut buffer gives its whole batches, and says when there is none."""
    buffer = b"".join(batch.encoded for batch in batches)
    cut = buffer[: data.draw(st.integers(0, len(buffer)))]
    whole = sum(1 for _ in iter_headers(cut))
    decoded = decode_columns(cut, topic="orders", partition=3, include_headers=True)
    assert records_of(decoded) == [record for batch in batches[:whole] for record in batch.records]
    assert decoded.batches == whole
    assert decoded.offset_next == (batches[whole - 1].offset_next if whole else 0)
    assert decoded.truncated == (whole == 0 and len(cut) > 0)


def test_nothing_whole_leaves_the_offset() -> None:
    batch = encode_batch(drafts(b"a"), base_offset=50)
    decoded = decode_columns(batch[:40], topic="orders", partition=3, offset_start=50)
    assert (decoded.offset_next, decoded.truncated, decoded.rows.num_rows) == (50, True, 0)


def test_columns_are_those_of_spark() -> None:
    batch = encode_batch([DraftRecord(key=b"k", value=None, timestamp_ms=-1, headers=(("h", None),))], base_offset=7)
    decoded = decode_columns(batch, topic="orders", partition=3, include_headers=True)
    assert decoded.rows.schema == SCHEMA_WITH_HEADERS
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert decoded.rows.schema.names == names
    times = decoded.rows.column("timestamp").cast(pa.int64()).to_pylist()
    row = {**decoded.rows.to_pylist()[0], "timestamp": times[0]}
    assert row == {
        "key": b"k",
        "value": None,
        "topic": "orders",
        "partition": 3,
        "offset": 7,
        "timestamp": -1000,
        "timestampType": 0,
        "headers": [{"key": "h", "value": None}],
    }
    assert decode(batch).rows.schema == SCHEMA


def test_empty_buffer() -> None:
    decoded = decode(b"")
    assert (decoded.rows.num_rows, decoded.rows.schema, decoded.truncated) == (0, SCHEMA, False)


@pytest.mark.parametrize("codec", Codec)
def test_compacted_batch_without_records(codec: Codec) -> None:
    """P4."""
    decoded = decode(encode_batch([], base_offset=10, last_offset_delta=4, codec=codec))
    assert (decoded.rows.num_rows, decoded.offset_next, decoded.batches) == (0, 15, 1)


def transaction(producer_id: int, base_offset: int, *values: bytes) -> bytes:
    return encode_batch(
        drafts(*values), base_offset=base_offset, producer_id=producer_id, producer_epoch=0, transactional=True
    )


def marker(kind: Marker, producer_id: int, base_offset: int) -> bytes:
    return encode_marker(
        kind,
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=5,
        coordinator_epoch=1,
        base_offset=base_offset,
    )


def interleaved() -> bytes:
    """Producer 1 aborts, then commits; producer 2 commits; producer 3 has no transaction."""
    return b"".join(
        [
            transaction(1, 0, b"aborted-0", b"aborted-1"),
            transaction(2, 2, b"committed-2"),
            encode_batch(drafts(b"plain-3"), base_offset=3, producer_id=3, producer_epoch=0),
            transaction(1, 4, b"aborted-4"),
            marker(Marker.ABORT, 1, 5),
            transaction(1, 6, b"committed-6"),
            marker(Marker.COMMIT, 2, 7),
            marker(Marker.COMMIT, 1, 8),
        ]
    )


def test_aborted_records_are_left_out() -> None:
    """P3, P4."""
    decoded = decode(interleaved(), aborted=((1, 0),))
    assert values_of(decoded) == [b"committed-2", b"plain-3", b"committed-6"]
    assert (decoded.offset_next, decoded.control_batches, decoded.aborted_batches) == (9, 3, 2)


def test_read_uncommitted_sees_them() -> None:
    decoded = decode(interleaved(), aborted=((1, 0),), read_committed=False)
    assert len(values_of(decoded)) == 6
    assert (decoded.offset_next, decoded.aborted_batches) == (9, 0)


def test_transaction_aborted_from_its_first_offset_on() -> None:
    """P3 a producer's earlier transaction in the same fetch was committed."""
    buffer = b"".join(
        [
            transaction(1, 0, b"committed"),
            marker(Marker.COMMIT, 1, 1),
            transaction(1, 2, b"aborted"),
            marker(Marker.ABORT, 1, 3),
        ]
    )
    decoded = decode(buffer, aborted=((1, 2),))
    assert values_of(decoded) == [b"committed"]
    assert decoded.offset_next == 4


def test_several_aborts_of_one_producer_in_any_order() -> None:
    """P3."""
    buffer = b"".join(
        [
            transaction(1, 0, b"aborted"),
            marker(Marker.ABORT, 1, 1),
            transaction(1, 2, b"committed"),
            marker(Marker.COMMIT, 1, 3),
            transaction(1, 4, b"aborted"),
            marker(Marker.ABORT, 1, 5),
        ]
    )
    assert values_of(decode(buffer, aborted=((1, 4), (1, 0)))) == [b"committed"]


def test_emptied_marker_ends_nothing() -> None:
    """P3 compaction may keep a control batch without its record."""
    buffer = b"".join(
        [
            transaction(1, 0, b"aborted"),
            encode_batch([], base_offset=1, producer_id=1, transactional=True, control=True),
            transaction(1, 2, b"aborted"),
        ]
    )
    decoded = decode(buffer, aborted=((1, 0),))
    assert (values_of(decoded), decoded.offset_next) == ([], 3)


def test_append_time_is_that_of_the_batch() -> None:
    batch = encode_batch(drafts(b"a", b"b"), timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp_ms=77)
    assert [record.timestamp_ms for record in read_fast(batch)] == [77, 77]


@pytest.mark.parametrize("codec", Codec)
def test_limit_of_decoded_bytes(codec: Codec) -> None:
    batch = encode_batch(drafts(*[bytes(10_000)] * 100), codec=codec)
    assert len(values_of(decode_columns(batch, topic="orders", partition=3, bytes_max=1_100_000))) == 100
    with pytest.raises(ProtocolError, match=r"allowed|limit") as caught:
        decode_columns(batch, topic="orders", partition=3, bytes_max=999_000)
    assert caught.value.topic == "orders"


def test_old_format_is_named() -> None:
    old = bytearray(encode_batch(drafts(b"a")))
    old[16] = 1
    with pytest.raises(UnsupportedVersionError, match="format 1"):
        decode(bytes(old))


def test_overlapping_batches_are_an_error() -> None:
    batch = encode_batch(drafts(b"a", b"b"), base_offset=5)
    with pytest.raises(CorruptBatchError, match=r"below the end .*offset 5"):
        decode(batch + batch)


def test_unknown_codec_is_named() -> None:
    bad = bytearray(encode_batch(drafts(b"a"), codec=Codec.GZIP))
    bad[22] = 7
    write_crc(bad)
    with pytest.raises(UnsupportedVersionError, match=r"codec 7 .*partition 3"):
        decode(bytes(bad))


def test_many_compressed_batches_span_several_arenas() -> None:
    batches = [
        encode_batch(drafts(*[bytes([index]) * 100_000] * 30), base_offset=30 * index, codec=Codec.ZSTD)
        for index in range(6)
    ]
    buffer = b"".join(batches) + encode_batch(drafts(b"plain"), base_offset=180)
    assert read_fast(buffer) == read_slow(buffer)


@pytest.mark.parametrize("codec", Codec)
def test_memory_stays_below_three_times_the_records(codec: Codec) -> None:
    """Arrow's own count of what decoding holds at its peak: decompressed records and columns, not the input."""
    rng = np.random.default_rng(1)
    values = [rng.bytes(400) + bytes(600) for _ in range(2000)]
    batches = [
        encode_batch(drafts(*values[start : start + 100]), base_offset=start, codec=codec)
        for start in range(0, len(values), 100)
    ]
    counting = pa.proxy_memory_pool(pa.default_memory_pool())
    usual = pa.default_memory_pool()
    pa.set_memory_pool(counting)
    try:
        rows = decode(b"".join(batches)).rows.num_rows
    finally:
        pa.set_memory_pool(usual)
    # Nothing decoded outlives this line: Arrow's buffers point to their pool and do not keep it alive.
    assert rows == 2000
    held_max = counting.max_memory() or 0
    assert 1_000 * 2000 < held_max < 3 * 1_000 * 2000 + (1 << 22)


@pytest.mark.parametrize("codec", Codec)
def test_limit_counts_all_batches_together(codec: Codec) -> None:
    batches = [encode_batch(drafts(*[bytes(10_000)] * 10), base_offset=10 * index, codec=codec) for index in range(4)]
    buffer = b"".join(batches)
    assert decode_columns(buffer, topic="orders", partition=3, bytes_max=401_000).rows.num_rows == 40
    with pytest.raises(ProtocolError, match=r"allowed|limit"):
        decode_columns(buffer, topic="orders", partition=3, bytes_max=399_000)


def test_more_batches_than_expected() -> None:
    """A table for the usual number of batches is tried first."""
    batches = [encode_batch([DraftRecord(key=None, value=b"v", timestamp_ms=1)], base_offset=at) for at in range(1500)]
    decoded = decode_columns(b"".join(batches), topic="orders", partition=0)
    assert decoded.rows["offset"].to_pylist() == list(range(1500))
    batches[1200] = batches[1200][:-1] + b"\x01"
    with pytest.raises(CorruptBatchError, match="checksum") as caught:
        decode_columns(b"".join(batches), topic="orders", partition=0)
    assert caught.value.offset == 1200


def test_memory_that_is_not_needed_is_given_back() -> None:
    """Keys and values share the bytes of a batch, but room is reserved for either to have them all."""
    drafts = [DraftRecord(key=b"k", value=b"v" * 1000, timestamp_ms=1) for _ in range(1000)]
    rows = decode_columns(encode_batch(drafts), topic="orders", partition=0, offset_start=900).rows
    reserved = {name: root(rows[name].buffers()[2]).size for name in ("key", "value")}
    assert (reserved["key"], reserved["value"]) == (100, 100_000)


def root(buffer: pa.Buffer | None) -> pa.Buffer:
    assert buffer is not None
    return buffer if buffer.parent is None else root(buffer.parent)

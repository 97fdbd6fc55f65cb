"""Record batches one record at a time: P1 damage is an error, P2 everything survives exactly."""

import struct
from typing import Any

import pytest
from hypothesis import given

from semel.errors import CorruptBatchError, ProtocolError, UnsupportedVersionError
from semel.protocol.record_batch import (
    HEADER_BYTES,
    Codec,
    DraftRecord,
    Marker,
    TimestampType,
    check_batch,
    decode_control_type,
    decode_marker,
    decode_records,
    encode_batch,
    encode_marker,
    iter_headers,
    read_header,
    stamp,
    stamp_producer,
)
from tests.unit.protocol.rows import read_slow
from tests.unit.protocol.strategies import Sample, logs

ONE = DraftRecord(key=b"k", value=b"v", timestamp_ms=1_700_000_000_123, headers=(("h", None),))


@given(logs())
def test_round_trip(batches: list[Sample]) -> None:
    """P2."""
    buffer = b"".join(batch.encoded for batch in batches)
    assert read_slow(buffer) == [record for batch in batches for record in batch.records]
    headers = [header for _, header in iter_headers(buffer)]
    assert [header.offset_next for header in headers] == [batch.offset_next for batch in batches]
    assert sum(header.size_bytes for header in headers) == len(buffer)


def test_header_fields() -> None:
    options: dict[str, Any] = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 2**31 - 2, "transactional": True}
    header = read_header(encode_batch([ONE] * 4, base_offset=9, leader_epoch=5, codec=Codec.LZ4, **options))
    assert (header.base_offset, header.leader_epoch, header.last_offset, header.offset_next) == (9, 5, 12, 13)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (
        7,
        3,
        2**31 - 2,
        1,
    )
    assert (header.codec, header.timestamp_type) == (Codec.LZ4, TimestampType.CREATE_TIME)
    assert (header.is_transactional, header.is_control, header.has_delete_horizon) == (True, False, False)


def test_delete_horizon_is_the_base_timestamp() -> None:
    batch = encode_batch([ONE], delete_horizon_ms=5)
    header = read_header(batch)
    assert header.has_delete_horizon
    assert header.base_timestamp_ms == 5
    assert decode_records(batch, header)[0].timestamp_ms == ONE.timestamp_ms


def test_stamp_leaves_the_checksum_right() -> None:
    batch = bytearray(encode_batch([ONE, ONE]))
    stamp(batch, base_offset=77, leader_epoch=4)
    header = read_header(batch)
    check_batch(batch, header)
    assert (header.base_offset, header.leader_epoch, header.timestamp_type) == (77, 4, TimestampType.CREATE_TIME)


def test_stamp_with_append_time() -> None:
    batch = bytearray(encode_batch([ONE, ONE]))
    stamp(batch, base_offset=77, leader_epoch=4, max_timestamp_ms=55)
    header = read_header(batch)
    check_batch(batch, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp_ms for record in decode_records(batch, header)} == {55}


def test_stamp_producer() -> None:
    batch = bytearray(encode_batch([ONE], transactional=True))
    stamp_producer(batch, producer_id=2**40, producer_epoch=9, base_sequence=123)
    header = read_header(batch)
    check_batch(batch, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 9, 123)


@pytest.mark.parametrize("marker", Marker)
def test_marker_round_trip(marker: Marker) -> None:
    batch = encode_marker(marker, producer_id=1, producer_epoch=2, timestamp_ms=3, coordinator_epoch=4, base_offset=5)
    header = read_header(batch)
    check_batch(batch, header)
    assert decode_marker(batch, header) == (marker, 4)
    assert header.is_control
    assert header.is_transactional
    assert decode_control_type(batch, header) == (1 if marker is Marker.COMMIT else 0)


def test_records_are_no_marker() -> None:
    batch = encode_batch([ONE])
    with pytest.raises(CorruptBatchError, match="not a transaction marker"):
        decode_marker(batch, read_header(batch))


def test_unknown_control_type() -> None:
    leader_change = DraftRecord(key=struct.pack(">hh", 0, 2), value=b"\x00" * 6, timestamp_ms=0)
    batch = encode_batch([leader_change], control=True)
    assert decode_control_type(batch, read_header(batch)) == 2
    with pytest.raises(UnsupportedVersionError, match="type 2"):
        decode_marker(batch, read_header(batch))


def test_emptied_control_batch_has_no_type() -> None:
    batch = encode_batch([], control=True)
    assert decode_control_type(batch, read_header(batch)) is None


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [17, 30, 61])
def test_old_formats_are_named(magic: int, size: int) -> None:
    old = bytearray(size)
    old[16] = magic
    with pytest.raises(UnsupportedVersionError, match=f"format {magic}"):
        read_header(old)


def test_header_errors_name_the_place() -> None:
    batch = bytearray(encode_batch([ONE], base_offset=41))
    batch[16] = 9
    with pytest.raises(CorruptBatchError, match=r"magic 9 .*topic orders, partition 3, offset 41"):
        read_header(batch, topic="orders", partition=3)


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_length_below_a_header(length: int) -> None:
    batch = bytearray(encode_batch([ONE]))
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptBatchError, match="below that of a header"):
        list(iter_headers(batch))


def test_truncated_last_batch_ends_the_walk() -> None:
    batch = encode_batch([ONE])
    for cut in range(1, len(batch)):
        assert [position for position, _ in iter_headers(batch + batch[:-cut])] == [0]


def test_check_batch_wants_all_bytes() -> None:
    batch = encode_batch([ONE])
    with pytest.raises(CorruptBatchError, match="only"):
        check_batch(batch[:-1], read_header(batch))


def test_every_bit_flip_is_noticed() -> None:
    """P1 one flipped bit changes the place or the length, or is an error; the records are never others."""
    batch = encode_batch([ONE, ONE], base_offset=8, codec=Codec.NONE)
    records = read_slow(batch)
    for bit in range(8 * len(batch)):
        damaged = bytearray(batch)
        damaged[bit // 8] ^= 1 << (bit % 8)
        try:
            observed = read_slow(bytes(damaged))
        except ProtocolError:
            continue
        outside_the_checksum = bit // 8 < 17
        assert outside_the_checksum
        contents = [(record.key, record.value, record.timestamp_ms) for record in observed]
        assert contents in ([], [(record.key, record.value, record.timestamp_ms) for record in records])


def test_records_are_counted() -> None:
    batch = bytearray(encode_batch([ONE, ONE]))
    header = read_header(batch)
    with pytest.raises(CorruptBatchError, match="follow the last record"):
        decode_records(batch, header._replace(record_count=1))
    with pytest.raises(CorruptBatchError):
        decode_records(batch, header._replace(record_count=3))


def test_offsets_rise_within_the_range() -> None:
    gapped = [ONE, DraftRecord(key=None, value=None, timestamp_ms=0, offset_delta=5)]
    batch = encode_batch(gapped)
    with pytest.raises(CorruptBatchError, match="beyond"):
        decode_records(batch, read_header(batch)._replace(last_offset_delta=4))
    with pytest.raises(ProtocolError, match="must rise"):
        encode_batch([gapped[1], gapped[1]])
    with pytest.raises(ProtocolError, match="below that of the last record"):
        encode_batch(gapped, last_offset_delta=4)


def test_bomb_is_bounded() -> None:
    batch = encode_batch([DraftRecord(key=None, value=bytes(5_000_000), timestamp_ms=0)], codec=Codec.ZSTD)
    with pytest.raises(ProtocolError, match="more than 1000 bytes"):
        decode_records(batch, read_header(batch), bytes_max=1000)


def test_header_size() -> None:
    assert len(encode_batch([])) == HEADER_BYTES

"""Records of a batch, one Python object each: the plain path.

Keeps: P1 a damaged batch is an error, never wrong records; P2 milliseconds, nulls and offset gaps survive exactly.
Why:   brokers look inside few batches, so plain code is enough here; it is also the reference that `columns.py` is
       tested against.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from semel.errors import CorruptBatchError, ProtocolError
from semel.protocol.batch_header import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP_MS,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    write_crc,
)
from semel.protocol.compression import BYTES_MAX_DEFAULT, Codec, compress, decompress
from semel.protocol.varint import Buffer, read_varint, read_varlong, write_varint


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record as read."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRecord:
    """One record about to be written; without `offset_delta` its place in the list counts."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset_delta: int | None = None


def encode_batch(
    records: Sequence[DraftRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    last_offset_delta: int | None = None,
    base_timestamp_ms: int | None = None,
    max_timestamp_ms: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """Encode one batch; the arguments after `timestamp_type` are for compaction, which keeps a batch's old range."""
    times = [record.timestamp_ms for record in records]
    base_ms = _base_timestamp_ms(times, base_timestamp_ms, delete_horizon_ms)
    deltas = _offset_deltas(records)
    body = bytearray()
    for record, delta in zip(records, deltas, strict=True):
        write_record(body, record, record.timestamp_ms - base_ms, delta)
    # An empty batch, as compaction leaves it, has its codec bit set and no bytes.
    return pack_batch(
        compress(codec, body) if records else b"",
        record_count=len(records),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        timestamp_type=timestamp_type,
        last_offset_delta=_last_delta(deltas, last_offset_delta),
        base_timestamp_ms=base_ms,
        max_timestamp_ms=max(times, default=NO_TIMESTAMP_MS) if max_timestamp_ms is None else max_timestamp_ms,
        has_delete_horizon=delete_horizon_ms is not None,
    )


def pack_batch(
    packed: Buffer,
    *,
    record_count: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    last_offset_delta: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    has_delete_horizon: bool = False,
) -> bytes:
    """Make one batch of records that were written one after another (`write_record`) and compressed with `codec`."""
    attributes = codec | (timestamp_type << 3)
    attributes |= TRANSACTIONAL_BIT * transactional | CONTROL_BIT * control
    attributes |= DELETE_HORIZON_BIT * has_delete_horizon
    # The header is written last: its length is known then.
    batch = bytearray(HEADER_BYTES)
    batch += packed
    HEADER.pack_into(
        batch,
        0,
        *(base_offset, len(batch) - LOG_OVERHEAD_BYTES, leader_epoch, MAGIC, 0, attributes, last_offset_delta),
        *(base_timestamp_ms, max_timestamp_ms, producer_id, producer_epoch, base_sequence, record_count),
    )
    write_crc(batch)
    return bytes(batch)


def _base_timestamp_ms(times: Sequence[int], base_ms: int | None, delete_horizon_ms: int | None) -> int:
    # KIP-534: compaction keeps the time until which a tombstone stays in the place of the batch's base timestamp.
    if delete_horizon_ms is not None:
        return delete_horizon_ms
    if base_ms is not None:
        return base_ms
    return times[0] if times else NO_TIMESTAMP_MS


def _offset_deltas(records: Sequence[DraftRecord]) -> list[int]:
    deltas = [index if record.offset_delta is None else record.offset_delta for index, record in enumerate(records)]
    # Gaps are fine, compaction makes them. Two records at one offset, or an order that readers would not see, are not.
    if any(later <= earlier for earlier, later in pairwise(deltas)) or (deltas and deltas[0] < 0):
        raise ProtocolError("offset deltas of a batch must rise from zero or above")
    return deltas


def _last_delta(deltas: Sequence[int], wanted: int | None) -> int:
    last = deltas[-1] if deltas else 0
    if wanted is None:
        return last
    if wanted < last:
        raise ProtocolError(f"last offset delta {wanted} is below that of the last record, {last}")
    return wanted


def write_record(target: bytearray, record: DraftRecord, timestamp_delta_ms: int, offset_delta: int) -> None:
    """Add one record to the body of a batch."""
    # The attributes of a record, which have no meaning yet.
    body = bytearray(b"\x00")
    write_varint(body, timestamp_delta_ms)
    write_varint(body, offset_delta)
    _write_nullable(body, record.key)
    _write_nullable(body, record.value)
    write_varint(body, len(record.headers))
    for name, value in record.headers:
        _write_nullable(body, name.encode())
        _write_nullable(body, value)
    write_varint(target, len(body))
    target += body


def _write_nullable(target: bytearray, value: bytes | None) -> None:
    if value is None:
        write_varint(target, -1)
    else:
        write_varint(target, len(value))
        target += value


def decode_records(
    buffer: Buffer,
    header: BatchHeader,
    position: int = 0,
    *,
    bytes_max: int = BYTES_MAX_DEFAULT,
    topic: str | None = None,
    partition: int | None = None,
) -> list[Record]:
    """Decode every record of one batch, control records included; run `check_batch` first for the checksum."""
    try:
        packed = memoryview(buffer)[position + HEADER_BYTES : position + header.size_bytes]
        # A batch that compaction has emptied keeps the bits of its codec and has no bytes, which no codec can unpack.
        body = decompress(header.codec, packed, bytes_max=bytes_max) if header.record_count else packed
        return _decode_body(memoryview(body), header)
    except ProtocolError as error:
        error.topic, error.partition, error.offset = topic, partition, header.base_offset
        raise


def _decode_body(body: memoryview, header: BatchHeader) -> list[Record]:
    records: list[Record] = []
    position = 0
    delta_min = 0
    for _ in range(header.record_count):
        record, position = _read_record(body, position, header)
        # Otherwise two records would have one offset, or one would have that of a record of the next batch.
        if record.offset < header.base_offset + delta_min or record.offset > header.last_offset:
            raise CorruptBatchError(f"record offset {record.offset} is out of order or beyond {header.last_offset}")
        delta_min = record.offset - header.base_offset + 1
        records.append(record)
    # Bytes that belong to no record: the counts in the header are wrong, so nothing of it can be trusted.
    if position != len(body):
        raise CorruptBatchError(f"{len(body) - position} bytes follow the last record")
    return records


def _read_record(body: memoryview, position: int, header: BatchHeader) -> tuple[Record, int]:
    length, position = read_varint(body, position, len(body))
    if not 0 <= length <= len(body) - position:
        raise CorruptBatchError(f"record of {length} bytes, but only {len(body) - position} are left")
    end = position + length
    # One byte further: the attributes of a record, which have no meaning yet. An empty record ends before them.
    timestamp_delta_ms, position = read_varlong(body, min(position + 1, end), end)
    offset_delta, position = read_varint(body, position, end)
    key, position = _read_nullable(body, position, end)
    value, position = _read_nullable(body, position, end)
    headers, position = _read_headers(body, position, end)
    if position != end:
        raise CorruptBatchError(f"record is {end - position} bytes longer than its fields")
    # Then the time is the broker's, for the whole batch; what producers wrote into their records stays there unread.
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    timestamp_ms = header.max_timestamp_ms if is_append_time else header.base_timestamp_ms + timestamp_delta_ms
    if not -(2**63) <= timestamp_ms < 2**63:
        raise CorruptBatchError(f"timestamp {timestamp_ms} does not fit 64 bits")
    offset = header.base_offset + offset_delta
    return Record(offset=offset, timestamp_ms=timestamp_ms, key=key, value=value, headers=headers), end


def _read_headers(body: memoryview, position: int, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = read_varint(body, position, end)
    # A header takes two bytes at least, so a larger count than bytes is a lie that must not be allocated.
    if not 0 <= count <= end - position:
        raise CorruptBatchError(f"{count} headers in {end - position} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _read_nullable(body, position, end)
        value, position = _read_nullable(body, position, end)
        headers.append((_header_name(name), value))
    return tuple(headers), position


def _header_name(name: bytes | None) -> str:
    if name is None:
        raise CorruptBatchError("a header has no name")
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise CorruptBatchError(f"header name {name!r} is not UTF-8") from None


def _read_nullable(body: memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(body, position, end)
    if length == -1:
        return None, position
    if not 0 <= length <= end - position:
        raise CorruptBatchError(f"field of {length} bytes, but only {end - position} are left in its record")
    return bytes(body[position : position + length]), position + length

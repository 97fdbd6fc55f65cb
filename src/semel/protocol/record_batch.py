"""Record batches, magic 2: header, checksum, records, control markers. One Python object per record.

Keeps: P1 a damaged batch is an error, never wrong records; P2 milliseconds, nulls and offset gaps survive exactly.
Why:   brokers read headers and checksums only, which costs one struct and one CRC per batch; the record functions
       are the plain reference that `columns.py` is tested against.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from itertools import pairwise
from struct import Struct
from struct import error as StructError  # noqa: N812  (the standard name is too plain to keep)
from typing import NamedTuple

from semel.errors import CorruptBatchError, ProtocolError, UnsupportedVersionError
from semel.protocol.compression import BYTES_MAX_DEFAULT, Codec, codec_of, compress, decompress
from semel.protocol.crc import checksum
from semel.protocol.varint import Buffer, read_varint, read_varlong, write_varint

HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12
MAGIC = 2
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP_MS = -1

_HEADER = Struct(">qiibIhiqqqhii")
_MAGIC_AT = 16
_CRC_AT = 17
CRC_START = 21
_OFFSET_AND_LENGTH = Struct(">qi")
_OFFSET = Struct(">q")
_LEADER_EPOCH_AT = 12
_LEADER_EPOCH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES_AT = 21
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP_AT = 35
_MAX_TIMESTAMP = Struct(">q")
_PRODUCER_AT = 43
_PRODUCER = Struct(">qhi")

_CODEC_MASK = 0x07
_TIMESTAMP_TYPE_BIT = 0x08
_TRANSACTIONAL_BIT = 0x10
_CONTROL_BIT = 0x20
_DELETE_HORIZON_BIT = 0x40

_MARKER_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")


class TimestampType(IntEnum):
    """Who set the timestamps: the producer (per record) or the broker (one for the batch)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Marker(StrEnum):
    """How a transaction ended."""

    COMMIT = "commit"
    ABORT = "abort"


class BatchHeader(NamedTuple):
    """The fixed part of a batch, fields in wire order."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch in a log or a fetch."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def codec(self) -> Codec:
        """How the records are compressed; UnsupportedVersionError for numbers nobody has defined."""
        return codec_of(self.attributes & _CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        """Who set the timestamps."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & _TIMESTAMP_TYPE_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return bool(self.attributes & _TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker instead of records."""
        return bool(self.attributes & _CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether compaction keeps a delete horizon in the base timestamp."""
        return bool(self.attributes & _DELETE_HORIZON_BIT)

    @property
    def last_offset(self) -> int:
        """Offset of the last record (as produced: compaction may have removed it)."""
        return self.base_offset + self.last_offset_delta

    @property
    def offset_next(self) -> int:
        """First offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap at 2**31."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


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


def read_header(
    buffer: Buffer, position: int = 0, *, topic: str | None = None, partition: int | None = None
) -> BatchHeader:
    """Read the header at `position`; the checksum is not looked at (see `check_batch`)."""
    try:
        header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
    except StructError:
        raise _too_short(buffer, position, topic, partition) from None
    if header.magic != MAGIC:
        raise _wrong_magic(header.magic, header.base_offset, topic, partition)
    if header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
        raise CorruptBatchError(
            f"batch length {header.batch_length} is below that of a header",
            topic=topic,
            partition=partition,
            offset=header.base_offset,
        )
    return header


def _too_short(buffer: Buffer, position: int, topic: str | None, partition: int | None) -> ProtocolError:
    left = max(0, len(buffer) - position)
    if left > _MAGIC_AT and buffer[position + _MAGIC_AT] in (0, 1):
        return _wrong_magic(buffer[position + _MAGIC_AT], None, topic, partition)
    return CorruptBatchError(f"{left} bytes are too few for a batch header", topic=topic, partition=partition)


def _wrong_magic(magic: int, offset: int | None, topic: str | None, partition: int | None) -> ProtocolError:
    if magic in (0, 1):
        return UnsupportedVersionError(
            f"message format {magic} is not supported",
            topic=topic,
            partition=partition,
            offset=offset,
            because="clients older than Kafka 0.11 wrote it; Kafka 4 does not read it either",
        )
    return CorruptBatchError(f"magic {magic} is unknown", topic=topic, partition=partition, offset=offset)


def check_batch(
    buffer: Buffer,
    header: BatchHeader,
    position: int = 0,
    *,
    topic: str | None = None,
    partition: int | None = None,
) -> None:
    """Check that the batch is whole, its checksum right and its counts possible; the records are not looked at."""
    wrong = _length_fault(buffer, header, position) or _crc_fault(buffer, header, position) or _count_fault(header)
    if wrong:
        raise CorruptBatchError(wrong, topic=topic, partition=partition, offset=header.base_offset)


def _length_fault(buffer: Buffer, header: BatchHeader, position: int) -> str:
    left = len(buffer) - position
    return f"batch of {header.size_bytes} bytes, but only {left} are there" if header.size_bytes > left else ""


def _crc_fault(buffer: Buffer, header: BatchHeader, position: int) -> str:
    with memoryview(buffer) as view, view[position + CRC_START : position + header.size_bytes] as covered:
        found = checksum(covered)
    return f"checksum is {found:#010x}, the batch says {header.crc:#010x}" if found != header.crc else ""


def _count_fault(header: BatchHeader) -> str:
    if header.last_offset_delta < 0 or header.base_offset < 0:
        return f"offsets from {header.base_offset}, last delta {header.last_offset_delta}"
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        return f"{header.record_count} records, but the last offset delta is {header.last_offset_delta}"
    return ""


def iter_headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch; a truncated last one, as Fetch returns it, ends the walk."""
    position, end = 0, len(buffer)
    while end - position >= LOG_OVERHEAD_BYTES:
        _, batch_length = _OFFSET_AND_LENGTH.unpack_from(buffer, position)
        if batch_length > end - position - LOG_OVERHEAD_BYTES:
            return
        header = read_header(buffer, position)
        yield position, header
        position += header.size_bytes


def encode_batch(
    records: Sequence[DraftRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    level: int | None = None,
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
    last_delta = _last_delta(deltas, last_offset_delta)
    attributes = codec | (timestamp_type << 3)
    attributes |= _TRANSACTIONAL_BIT * transactional | _CONTROL_BIT * control
    attributes |= _DELETE_HORIZON_BIT * (delete_horizon_ms is not None)
    body = bytearray()
    for record, delta in zip(records, deltas, strict=True):
        _write_record(body, record, record.timestamp_ms - base_ms, delta)
    packed = compress(codec, body, level) if records else b""
    batch = bytearray(HEADER_BYTES)
    batch += packed
    max_ms = max(times, default=NO_TIMESTAMP_MS) if max_timestamp_ms is None else max_timestamp_ms
    _HEADER.pack_into(
        batch,
        0,
        *(base_offset, len(batch) - LOG_OVERHEAD_BYTES, leader_epoch, MAGIC, 0, attributes, last_delta),
        *(base_ms, max_ms, producer_id, producer_epoch, base_sequence, len(records)),
    )
    _write_crc(batch)
    return bytes(batch)


def _base_timestamp_ms(times: Sequence[int], base_ms: int | None, delete_horizon_ms: int | None) -> int:
    if delete_horizon_ms is not None:
        return delete_horizon_ms
    if base_ms is not None:
        return base_ms
    return times[0] if times else NO_TIMESTAMP_MS


def _offset_deltas(records: Sequence[DraftRecord]) -> list[int]:
    deltas = [index if record.offset_delta is None else record.offset_delta for index, record in enumerate(records)]
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


def _write_record(target: bytearray, record: DraftRecord, timestamp_delta_ms: int, offset_delta: int) -> None:
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
        if record.offset < header.base_offset + delta_min or record.offset > header.last_offset:
            raise CorruptBatchError(f"record offset {record.offset} is out of order or beyond {header.last_offset}")
        delta_min = record.offset - header.base_offset + 1
        records.append(record)
    if position != len(body):
        raise CorruptBatchError(f"{len(body) - position} bytes follow the last record")
    return records


def _read_record(body: memoryview, position: int, header: BatchHeader) -> tuple[Record, int]:
    length, position = read_varint(body, position, len(body))
    if not 0 <= length <= len(body) - position:
        raise CorruptBatchError(f"record of {length} bytes, but only {len(body) - position} are left")
    end = position + length
    timestamp_delta_ms, position = read_varlong(body, min(position + 1, end), end)
    offset_delta, position = read_varint(body, position, end)
    key, position = _read_nullable(body, position, end)
    value, position = _read_nullable(body, position, end)
    headers, position = _read_headers(body, position, end)
    if position != end:
        raise CorruptBatchError(f"record is {end - position} bytes longer than its fields")
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    timestamp_ms = header.max_timestamp_ms if is_append_time else header.base_timestamp_ms + timestamp_delta_ms
    offset = header.base_offset + offset_delta
    return Record(offset=offset, timestamp_ms=timestamp_ms, key=key, value=value, headers=headers), end


def _read_headers(body: memoryview, position: int, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = read_varint(body, position, end)
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


def stamp(
    batch: bytearray | memoryview, *, base_offset: int, leader_epoch: int, max_timestamp_ms: int | None = None
) -> None:
    """Set what the leader decides, in place; a `max_timestamp_ms` makes it LogAppendTime and renews the checksum."""
    _OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, _LEADER_EPOCH_AT, leader_epoch)
    if max_timestamp_ms is None:
        return
    (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes | _TIMESTAMP_TYPE_BIT)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, max_timestamp_ms)
    _write_crc(batch)


def stamp_producer(batch: bytearray | memoryview, *, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Set the producer's identity and sequence of one whole batch, in place, and renew its checksum."""
    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    _write_crc(batch)


def _write_crc(batch: bytearray | memoryview) -> None:
    with memoryview(batch) as view, view[CRC_START:] as covered:
        crc = checksum(covered)
    _CRC.pack_into(batch, _CRC_AT, crc)


def encode_marker(
    marker: Marker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    coordinator_epoch: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Encode the control batch that ends a transaction on one partition."""
    record = DraftRecord(
        key=_MARKER_KEY.pack(0, int(marker is Marker.COMMIT)),
        value=_MARKER_VALUE.pack(0, coordinator_epoch),
        timestamp_ms=timestamp_ms,
    )
    return encode_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def decode_marker(buffer: Buffer, header: BatchHeader, position: int = 0) -> tuple[Marker, int]:
    """Return how the transaction ended and the coordinator epoch that said so."""
    records = decode_records(buffer, header, position)
    if not header.is_control or len(records) != 1:
        raise CorruptBatchError("not a transaction marker", offset=header.base_offset)
    try:
        _, kind = _MARKER_KEY.unpack_from(records[0].key or b"")
        _, coordinator_epoch = _MARKER_VALUE.unpack_from(records[0].value or b"")
    except StructError:
        raise CorruptBatchError("transaction marker is too short", offset=header.base_offset) from None
    if kind not in (0, 1):
        raise UnsupportedVersionError(f"control record type {kind} is not a transaction marker")
    return (Marker.COMMIT if kind else Marker.ABORT), coordinator_epoch

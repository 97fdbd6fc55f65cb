"""The fixed part of a record batch: read, checked and stamped without looking at a record.

Keeps: P1 a damaged batch is an error with its place, never wrong records.
Why:   this is all a broker needs for most batches: one struct and one CRC each.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from struct import error as StructError  # noqa: N812  (the standard name is too plain to keep)
from typing import NamedTuple

from crc32c import crc32c as checksum

from semel.errors import CorruptBatchError, ProtocolError, UnsupportedVersionError
from semel.protocol.compression import Codec, codec_of
from semel.protocol.varint import Buffer

HEADER_BYTES = 61
# Base offset and batch length, which the length itself does not count.
LOG_OVERHEAD_BYTES = 12
MAGIC = 2
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP_MS = -1

HEADER = Struct(">qiibIhiqqqhii")
_MAGIC_AT = 16
CRC_AT = 17
# The checksum covers all that follows it. Base offset and leader epoch
# come before, so a leader can set them without computing it again.
CRC_START = 21
_OFFSET_AND_LENGTH = Struct(">qi")
_OFFSET = Struct(">q")
_LENGTH_AT = 8
_LENGTH = Struct(">i")
_LEADER_EPOCH_AT = 12
_LEADER_EPOCH = Struct(">i")
CRC = Struct(">I")
_ATTRIBUTES_AT = 21
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP_AT = 35
_MAX_TIMESTAMP = Struct(">q")
_PRODUCER_AT = 43
_PRODUCER = Struct(">qhi")

CODEC_MASK = 0x07
APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40


class TimestampType(IntEnum):
    """Who set the timestamps: the producer (per record) or the broker (one for the batch)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


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
        return codec_of(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        """Who set the timestamps."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & APPEND_TIME_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker instead of records."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether compaction keeps a delete horizon in the base timestamp."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

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
        # By the offset delta and not by the count: compaction removes records and leaves the sequences of the batch.
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(
    buffer: Buffer, position: int = 0, *, topic: str | None = None, partition: int | None = None
) -> BatchHeader:
    """Read the header at `position`; the checksum is not looked at (see `check_batch`)."""
    try:
        header = BatchHeader._make(HEADER.unpack_from(buffer, position))
    except StructError:
        raise _too_short(buffer, position, topic, partition) from None
    if header.magic != MAGIC:
        raise _wrong_magic(header.magic, header.base_offset, topic, partition)
    # A walk over batches would stand still, or go back, at a length like this.
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
    # All formats have the magic byte at the same place, so an old batch is not taken for a short one.
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
    wrong = _defect(buffer, header, position)
    if wrong:
        raise CorruptBatchError(wrong, topic=topic, partition=partition, offset=header.base_offset)


def _defect(buffer: Buffer, header: BatchHeader, position: int) -> str:
    left, size_bytes = len(buffer) - position, header.batch_length + LOG_OVERHEAD_BYTES
    if size_bytes > left:
        return f"batch of {size_bytes} bytes, but only {left} are there"
    found = checksum(memoryview(buffer)[position + CRC_START : position + size_bytes])
    if found != header.crc:
        return f"checksum is {found:#010x}, the batch says {header.crc:#010x}"
    if header.last_offset_delta < 0 or header.base_offset < 0:
        return f"offsets from {header.base_offset}, last delta {header.last_offset_delta}"
    # Compaction leaves batches with fewer records than offsets, and some with none.
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        return f"{header.record_count} records, but the last offset delta is {header.last_offset_delta}"
    return ""


def iter_headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch; a truncated last one, as Fetch returns it, ends the walk."""
    position, end = 0, len(buffer)
    while end - position >= LOG_OVERHEAD_BYTES:
        _, batch_length = _OFFSET_AND_LENGTH.unpack_from(buffer, position)
        # Judged before the header: what Fetch cut short is no damage, however little of it is there.
        if batch_length > end - position - LOG_OVERHEAD_BYTES:
            return
        header = read_header(buffer, position)
        yield position, header
        position += header.size_bytes


def stamp(
    batch: bytearray | memoryview, *, base_offset: int, leader_epoch: int, max_timestamp_ms: int | None = None
) -> None:
    """Set what the leader decides, in place; a `max_timestamp_ms` makes it LogAppendTime and renews the checksum."""
    _OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, _LEADER_EPOCH_AT, leader_epoch)
    if max_timestamp_ms is None:
        return
    (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes | APPEND_TIME_BIT)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, max_timestamp_ms)
    write_crc(batch)


def stamp_newest(batch: bytearray | memoryview, max_timestamp_ms: int) -> None:
    """Set the time of the newest record of one whole batch, in place, and renew its checksum."""
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, max_timestamp_ms)
    write_crc(batch)


def read_newest_ms(batch: Buffer, position: int = 0) -> int:
    """The time of the newest record, as the header says."""
    newest_ms: int = _MAX_TIMESTAMP.unpack_from(batch, position + _MAX_TIMESTAMP_AT)[0]
    return newest_ms


def stamp_producer(batch: bytearray | memoryview, *, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Set the producer's identity and sequence of one whole batch, in place, and renew its checksum."""
    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    write_crc(batch)


def set_codec(batch: bytearray | memoryview, codec: Codec) -> None:
    """Set length and codec after the records of one whole batch were compressed; the checksum is left to renew."""
    _LENGTH.pack_into(batch, _LENGTH_AT, len(batch) - LOG_OVERHEAD_BYTES)
    (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, (attributes & ~CODEC_MASK) | codec)


def write_crc(batch: bytearray | memoryview) -> None:
    """Renew the checksum of one whole batch, in place."""
    # Released at once: a bytearray with a view on it cannot be resized.
    with memoryview(batch) as view, view[CRC_START:] as covered:
        crc = checksum(covered)
    CRC.pack_into(batch, CRC_AT, crc)

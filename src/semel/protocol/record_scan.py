"""A walk over the records of a batch that builds nothing: where each stands, when it was, what it has.

Keeps: P1 a damaged batch is an error, never a wrong value; what a batch may grow to when it is decompressed is up to
       the caller, and a walk can be stopped and continued after every few thousand steps.
Why:   brokers look at batches that strangers made. A few hundred bytes can hold millions of records or headers, and an
       object for each would cost gigabytes; and the loop that serves everybody else must not wait for the walk.
"""

from collections.abc import Generator, Iterator
from typing import NamedTuple

from semel.errors import CorruptBatchError
from semel.protocol.batch_header import HEADER_BYTES, BatchHeader, TimestampType
from semel.protocol.compression import decompress
from semel.protocol.varint import Buffer, read_varint, read_varlong, write_varint

STEPS_BETWEEN_PAUSES = 5_000
_HEADER_BYTES_MIN = 2
_LONG_MAX = 2**63 - 1


class ScannedRecord(NamedTuple):
    """One record: its offset, its time, and where in the decompressed body its parts are."""

    offset: int
    timestamp_ms: int
    body: memoryview
    start: int  # its length
    attributes_at: int
    rest_at: int  # all behind its time
    key_at: int
    key_bytes: int  # -1 without a key
    value_bytes: int  # -1 without a value
    end: int

    @property
    def has_key(self) -> bool:
        """Whether it has a key, even an empty one."""
        return self.key_bytes >= 0

    @property
    def key(self) -> bytes:
        """The key of one that has a key."""
        return bytes(self.body[self.key_at : self.key_at + self.key_bytes])

    def write(self, target: bytearray) -> None:
        """Add the record to another body, as it is."""
        target += self.body[self.start : self.end]

    def write_at(self, target: bytearray, timestamp_delta_ms: int) -> None:
        """Add the record to another body, with another distance to the time of its batch."""
        # Only the time changes, but it is a varint: another size of it changes the record's length in front.
        head = bytearray(self.body[self.attributes_at : self.attributes_at + 1])
        write_varint(head, timestamp_delta_ms)
        write_varint(target, len(head) + self.end - self.rest_at)
        target += head
        target += self.body[self.rest_at : self.end]


def scan_records(
    buffer: Buffer, header: BatchHeader, position: int = 0, *, bytes_max: int
) -> Iterator[ScannedRecord | None]:
    """Yield each record; None where the caller may let others work. `check_batch` looks at the checksum."""
    packed = memoryview(buffer)[position + HEADER_BYTES : position + header.size_bytes]
    # A batch that compaction has emptied names a codec and has no bytes, which no codec could read.
    body = memoryview(decompress(header.codec, packed, bytes_max=bytes_max) if header.record_count else packed)
    at, delta_min, end = 0, 0, len(body)
    yield None  # decompressing took its time
    for number in range(1, header.record_count + 1):
        start = at
        length, attributes_at = read_varint(body, at, end)
        at = attributes_at
        if not 0 < length <= end - at:
            raise CorruptBatchError(f"record of {length} bytes, but only {end - at} are left")
        stop = at + length
        time_delta_ms, at = read_varlong(body, at + 1, stop)
        rest_at = at
        delta, at = read_varint(body, at, stop)
        if not delta_min <= delta <= header.last_offset_delta:
            raise CorruptBatchError(f"offset delta {delta} is out of order or beyond {header.last_offset_delta}")
        delta_min = delta + 1
        key_bytes, key_at = read_varint(body, at, stop)
        value_bytes, at = read_varint(body, _after(key_bytes, key_at, stop), stop)
        at = yield from _skip_headers(body, _after(value_bytes, at, stop), stop)
        if at != stop:
            raise CorruptBatchError(f"record is {stop - at} bytes longer than its fields")
        yield ScannedRecord(
            header.base_offset + delta,
            _timestamp_ms(header, time_delta_ms),
            *(body, start, attributes_at, rest_at, key_at, key_bytes, value_bytes, stop),
        )
        if number % STEPS_BETWEEN_PAUSES == 0:
            yield None
    if at != end:
        raise CorruptBatchError(f"{end - at} bytes follow the last record")


def _skip_headers(body: memoryview, at: int, stop: int) -> Generator[None, None, int]:
    count, at = read_varint(body, at, stop)
    if not 0 <= count <= (stop - at) // _HEADER_BYTES_MIN:
        raise CorruptBatchError(f"{count} headers in {stop - at} bytes")
    for number in range(1, count + 1):
        length, at = read_varint(body, at, stop)
        # Values of headers may be null, their names may not.
        if length < 0:
            raise CorruptBatchError("a header has no name")
        length, at = read_varint(body, _after(length, at, stop), stop)
        at = _after(length, at, stop)
        if number % STEPS_BETWEEN_PAUSES == 0:
            yield None
    return at


def _timestamp_ms(header: BatchHeader, delta_ms: int) -> int:
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return header.max_timestamp_ms
    timestamp_ms = header.base_timestamp_ms + delta_ms
    if not -_LONG_MAX - 1 <= timestamp_ms <= _LONG_MAX:
        raise CorruptBatchError(f"timestamp {timestamp_ms} does not fit 64 bits")
    return timestamp_ms


def _after(length: int, at: int, stop: int) -> int:
    """Where a nullable field of this length ends."""
    if not -1 <= length <= stop - at:
        raise CorruptBatchError(f"field of {length} bytes, but only {stop - at} are left in its record")
    return at + max(length, 0)

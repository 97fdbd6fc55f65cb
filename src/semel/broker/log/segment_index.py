"""Sparse index of one segment: where a batch stands, by offset and by time.

Why: one entry for every few KiB of log, in three parallel arrays, keeps a GiB of log at a few MB of memory and a lookup
     at one bisection and a short walk. `times_ms` is the largest timestamp so far, so it never falls. The last batch
     is remembered beside them: followers and readers at the end ask for it again and again.
"""

from array import array
from bisect import bisect_left, bisect_right
from struct import Struct

from semel.broker.log.files import decode_frame, encode_frame
from semel.protocol.record_batch import BatchHeader

_OFFSET_MAGIC = b"SIX1"
_TIME_MAGIC = b"STX1"
_FACTS = Struct(">qqqq")
_ITEM_BYTES = 8


class SegmentIndex:
    """Index entries, and the facts of the whole segment that go with them."""

    __slots__ = (
        "_bytes_since",
        "first_timestamp_ms",
        "interval_bytes",
        "last_base_offset",
        "last_position",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "offset_next",
        "offsets",
        "positions",
        "times_ms",
    )

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        """An empty segment that starts at `base_offset`."""
        self.interval_bytes = interval_bytes
        self.offsets = array("q")
        self.positions = array("q")
        self.times_ms = array("q")
        self.offset_next = base_offset
        self.first_timestamp_ms = -1
        self.max_timestamp_ms = -1
        self.max_timestamp_offset = base_offset
        self.last_base_offset = base_offset
        self.last_position = 0
        self._bytes_since = 0

    def add(self, base_offset: int, last_offset: int, max_timestamp_ms: int, position: int, size_bytes: int) -> None:
        """Take note of a batch at the end of the segment."""
        if position == 0:
            self.first_timestamp_ms = max_timestamp_ms
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.max_timestamp_offset = base_offset
        self.offset_next = last_offset + 1
        self.last_base_offset, self.last_position = base_offset, position
        # The first batch needs no entry: a lookup that finds none begins at position 0.
        if self._bytes_since > self.interval_bytes:
            self.offsets.append(base_offset)
            self.positions.append(position)
            self.times_ms.append(self.max_timestamp_ms)
            self._bytes_since = 0
        self._bytes_since += size_bytes

    def add_header(self, header: BatchHeader, position: int) -> None:
        """Take note of a batch read back."""
        self.add(header.base_offset, header.last_offset, header.max_timestamp_ms, position, header.size_bytes)

    def position_before_offset(self, offset: int) -> int:
        """Start of a known batch at or before the one that holds `offset`."""
        if offset >= self.last_base_offset:
            return self.last_position
        # -1 when the offset lies before the first entry.
        at = bisect_right(self.offsets, offset) - 1
        return self.positions[at] if at >= 0 else 0

    def position_before_time(self, timestamp_ms: int) -> int:
        """Start of an indexed batch at or before the first one with that timestamp or a later one."""
        # An entry's time includes its own batch, so what is wanted lies behind the last entry below that time.
        at = bisect_left(self.times_ms, timestamp_ms) - 1
        return self.positions[at] if at >= 0 else 0

    def position_before(self, position: int) -> int:
        """Start of the last indexed batch that begins at or before `position`."""
        at = bisect_right(self.positions, position) - 1
        return self.positions[at] if at >= 0 else 0

    def encode(self, log_bytes: int) -> tuple[bytes, bytes]:
        """The offset index and the time index as files."""
        facts = (self.offset_next, self.first_timestamp_ms, self.max_timestamp_ms, self.max_timestamp_offset)
        by_offset = _pack(self.offsets) + _pack(self.positions)
        by_time = _FACTS.pack(*facts) + _pack(self.times_ms)
        return encode_frame(_OFFSET_MAGIC, log_bytes, by_offset), encode_frame(_TIME_MAGIC, log_bytes, by_time)

    @classmethod
    def decode(
        cls, by_offset: bytes | None, by_time: bytes | None, *, base_offset: int, interval_bytes: int, log_bytes: int
    ) -> "SegmentIndex | None":
        """Read both files back; None when one is missing, damaged or does not belong to this log."""
        offset_part = decode_frame(_OFFSET_MAGIC, log_bytes, by_offset)
        time_part = decode_frame(_TIME_MAGIC, log_bytes, by_time)
        if offset_part is None or time_part is None or len(time_part) < _FACTS.size:
            return None
        count = (len(time_part) - _FACTS.size) // _ITEM_BYTES
        if len(offset_part) != 2 * count * _ITEM_BYTES:
            return None
        index = cls(base_offset, interval_bytes)
        facts = _FACTS.unpack_from(time_part)
        index.offset_next, index.first_timestamp_ms, index.max_timestamp_ms, index.max_timestamp_offset = facts
        index.offsets = _unpack(offset_part[: count * _ITEM_BYTES])
        index.positions = _unpack(offset_part[count * _ITEM_BYTES :])
        index.times_ms = _unpack(time_part[_FACTS.size :])
        if count:
            # The files do not hold the last batch. The last entry serves as well: it only says where to begin.
            index.last_base_offset, index.last_position = index.offsets[-1], index.positions[-1]
        index._bytes_since = log_bytes - (index.positions[-1] if count else 0)
        return index


def _pack(items: "array[int]") -> bytes:
    return Struct(f">{len(items)}q").pack(*items)


def _unpack(data: bytes) -> "array[int]":
    return array("q", Struct(f">{len(data) // _ITEM_BYTES}q").unpack(data))

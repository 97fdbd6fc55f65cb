"""One segment: a `.log` file of batches as received, its sparse index, its aborted transactions.

Keeps: L1 batches stand in rising offset order, first offset at or above the segment's; L2 an index never decides what
       is in the log, it only says where to start looking.
"""

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple, Self

from semel.broker.log.files import (
    ABORTED_INDEX,
    INDEX,
    INDEX_SUFFIXES,
    LOG,
    TIME_INDEX,
    decode_frame,
    encode_frame,
    get_file,
    path_of,
    put_file,
    remove_if_there,
)
from semel.broker.log.segment_index import SegmentIndex
from semel.broker.log.types import AbortedTransaction, SharedFile
from semel.errors import CorruptBatchError, ProtocolError
from semel.protocol.record_batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader, check_batch, read_header
from semel.world.disk import Buffer, Disk, File

_STEP = Struct(">qi11xi")  # base offset, batch length, …, last offset delta
# The usual distance of two index entries, so that a lookup takes one read or two.
_STEP_WINDOW_BYTES = 4096
# For walks over a whole segment.
_HEADER_WINDOW_BYTES = 64 * 1024
_ABORTED_MAGIC = b"SAX1"
_ABORTED = Struct(">qqqq")


class Step(NamedTuple):
    """Where one batch stands and which offsets it covers."""

    position: int
    base_offset: int
    last_offset: int
    size_bytes: int


class Bounds(NamedTuple):
    """A run of whole batches."""

    base_offset: int
    position: int
    size_bytes: int


class Segment:
    """Batches from `base_offset` up to the next segment."""

    __slots__ = (
        "aborted",
        "base_offset",
        "created_ms",
        "disk",
        "file",
        "folder",
        "index",
        "shared",
        "size_bytes",
        "touched_ms",
    )

    def __init__(self, disk: Disk, folder: Path, base_offset: int, *, interval_bytes: int, now_ms: int) -> None:
        """Open the file, or make it; the index is empty until `load` or `rebuild`."""
        self.disk = disk
        self.folder = folder
        self.base_offset = base_offset
        self.file: File = disk.open(path_of(folder, base_offset, LOG), create=True)
        self.shared = SharedFile(self.file)
        self.size_bytes = self.file.size_bytes
        self.index = SegmentIndex(base_offset, interval_bytes)
        self.aborted: list[AbortedTransaction] | None = []  # None: not known, to be replayed
        self.created_ms = now_ms
        self.touched_ms = now_ms  # stands in for the time of records that carry none

    @classmethod
    def create(cls, disk: Disk, folder: Path, base_offset: int, *, interval_bytes: int, now_ms: int) -> Self:
        """Make an empty segment; bytes that an earlier failure left under its name are dropped."""
        segment = cls(disk, folder, base_offset, interval_bytes=interval_bytes, now_ms=now_ms)
        if segment.size_bytes:
            segment.file.truncate(0)
            segment.size_bytes = 0
        segment.drop_index_files()
        return segment

    @property
    def offset_next(self) -> int:
        """First offset after the last batch."""
        return self.index.offset_next

    @property
    def largest_timestamp_ms(self) -> int:
        """Time of the newest record, for retention."""
        return self.index.max_timestamp_ms if self.index.max_timestamp_ms >= 0 else self.touched_ms

    # --- writing

    def append(self, *buffers: Buffer) -> int:
        """Write at the end in one call; the caller then notes each batch in the index. The position it stands at."""
        position = self.size_bytes
        self.file.append(*buffers)
        for buffer in buffers:
            self.size_bytes += len(buffer)
        return position

    def truncate(self, position: int) -> None:
        """Cut the file and make the index again; synced, else a crash could bring old batches back behind new ones."""
        self.file.truncate(position)
        self.disk.sync_now(self.file)
        self.size_bytes = position
        self.drop_index_files()
        self.rebuild()

    # --- walking

    def steps(self, position: int) -> Iterator[Step]:
        """Each batch from `position` on, as cheaply as can be."""
        data, start = b"", position
        while position < self.size_bytes:
            # Only the 27 bytes that place a batch are read. A window that ends inside
            # them is read again from this batch on.
            if position + _STEP.size > start + len(data):
                data, start = self.file.read_at(position, _STEP_WINDOW_BYTES), position
            base_offset, batch_length, last_delta = _STEP.unpack_from(data, position - start)
            size_bytes = batch_length + LOG_OVERHEAD_BYTES
            yield Step(position, base_offset, base_offset + last_delta, size_bytes)
            position += size_bytes

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from `position` on; CorruptBatchError where one is not whole."""
        data, start = b"", position
        while position < self.size_bytes:
            if position + HEADER_BYTES > start + len(data):
                data, start = self.file.read_at(position, _HEADER_WINDOW_BYTES), position
            header = read_header(data, position - start)
            if position + header.size_bytes > self.size_bytes:
                raise CorruptBatchError("the last batch of a segment is cut short", offset=header.base_offset)
            yield position, header
            position += header.size_bytes

    def batch_at(self, position: int, size_bytes: int) -> bytes:
        """The bytes of one batch."""
        return self.file.read_at(position, size_bytes)

    def batches(self, position: int = 0) -> Iterator[tuple[int, BatchHeader, bytes]]:
        """Each batch whole, from `position` on."""
        for at, header in self.headers(position):
            yield at, header, self.batch_at(at, header.size_bytes)

    # --- lookup

    def step_at(self, offset: int) -> Step | None:
        """The first batch that ends at or after `offset`."""
        for step in self.steps(self.index.position_before_offset(offset)):
            if step.last_offset >= offset:
                return step
        return None

    def bounds(self, offset_start: int, *, bytes_max: int, offset_limit: int, at_least_one: bool) -> Bounds | None:
        """Whole batches from the one that holds `offset_start`, below `offset_limit`, within `bytes_max`."""
        first = self.step_at(offset_start)
        if first is None:
            return None
        # Batches are never cut: the one that holds the limit is left out whole, even if some of its records lie below.
        end = self._end_below(offset_limit)
        if end <= first.position:
            return None
        end = self._end_within(first.position, end, bytes_max)
        # A reader with a limit below the size of one batch would never get past it (KIP-74).
        if end == first.position and at_least_one:
            end += first.size_bytes
        return Bounds(first.base_offset, first.position, end - first.position)

    def _end_below(self, offset_limit: int) -> int:
        if offset_limit >= self.offset_next:
            return self.size_bytes
        step = self.step_at(offset_limit)
        return self.size_bytes if step is None else step.position

    def _end_within(self, start: int, end: int, bytes_max: int) -> int:
        if end - start <= bytes_max:
            return end
        # The index jumps over most of the range; the last batches are walked.
        reached = max(start, self.index.position_before(start + bytes_max))
        for step in self.steps(reached):
            if step.position + step.size_bytes - start > bytes_max:
                break
            reached = step.position + step.size_bytes
        return reached

    # --- index files

    def rebuild(self) -> None:
        """Make the index again from the batch headers."""
        index = SegmentIndex(self.base_offset, self.index.interval_bytes)
        for position, header in self.headers():
            index.add_header(header, position)
        self.index = index

    def load(self) -> None:
        """Take the index files when they fit the log, else read the log; aborted transactions may stay unknown."""
        index = SegmentIndex.decode(
            get_file(self.disk, self._path(INDEX)),
            get_file(self.disk, self._path(TIME_INDEX)),
            base_offset=self.base_offset,
            interval_bytes=self.index.interval_bytes,
            log_bytes=self.size_bytes,
        )
        if index is None:
            self.rebuild()
        else:
            self.index = index
        payload = decode_frame(_ABORTED_MAGIC, self.size_bytes, get_file(self.disk, self._path(ABORTED_INDEX)))
        self.aborted = None if payload is None else decode_aborted(payload)

    def verify(self) -> int:
        """Check every batch and make the index again; how far the segment is sound."""
        self.index = SegmentIndex(self.base_offset, self.index.interval_bytes)
        # Unknown until `replay` has walked the batches, since the index file may be about what is cut off now.
        self.aborted = None
        position = 0
        offset_min = self.base_offset
        try:
            for at, header, batch in self.batches():
                check_batch(batch, header)
                # A right checksum is not enough: offsets only rise in a sound log.
                if header.base_offset < offset_min:
                    break
                self.index.add_header(header, at)
                offset_min = header.offset_next
                position = at + header.size_bytes
        except ProtocolError:
            return position
        return position

    def seal(self) -> None:
        """Write the index files: the segment will not change any more."""
        by_offset, by_time = self.index.encode(self.size_bytes)
        put_file(self.disk, self._path(INDEX), by_offset)
        put_file(self.disk, self._path(TIME_INDEX), by_time)
        aborted = encode_frame(_ABORTED_MAGIC, self.size_bytes, encode_aborted(self.aborted or []))
        put_file(self.disk, self._path(ABORTED_INDEX), aborted)

    def drop_index_files(self) -> None:
        """The segment is about to change: index files must not outlive what they describe."""
        for suffix in INDEX_SUFFIXES:
            remove_if_there(self.disk, self._path(suffix))

    def delete(self) -> None:
        """Remove the files; slices of them that are out stay readable."""
        remove_if_there(self.disk, self._path(LOG))
        self.drop_index_files()
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self.shared.release()

    def _path(self, suffix: str) -> Path:
        return path_of(self.folder, self.base_offset, suffix)


def encode_aborted(aborted: list[AbortedTransaction]) -> bytes:
    """Aborted transactions as bytes."""
    return b"".join(
        _ABORTED.pack(one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset) for one in aborted
    )


def decode_aborted(payload: bytes) -> list[AbortedTransaction]:
    """Aborted transactions from bytes whose checksum was right."""
    return [
        AbortedTransaction(producer_id=one[0], first_offset=one[1], last_offset=one[2], last_stable_offset=one[3])
        for one in _ABORTED.iter_unpack(payload)
    ]

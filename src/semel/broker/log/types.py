"""The values that go into and come out of a partition log."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import NamedTuple, Self

from semel.errors import BrokerError, EnvironmentFailure
from semel.protocol.error_codes import ErrorCode
from semel.world.disk import File


class Origin(StrEnum):
    """Who appends, which decides how much is checked."""

    # Everything is checked: form, sequence, epoch, transaction.
    CLIENT = "client"
    # A coordinator's own records and markers: control records are allowed, and there are no sequences.
    COORDINATOR = "coordinator"
    # The leader has checked it.
    REPLICATION = "replication"


class AppendRefused(BrokerError):
    """The record set was not appended; `code` is what the Produce response carries."""

    def __init__(self, code: ErrorCode, message: str, bad_records: tuple[int, ...] = ()) -> None:
        """Nothing was written; `bad_records` are indexes in the batch, where single records are to blame."""
        super().__init__(message, code=code)
        self.bad_records = bad_records


class ReadRefused(BrokerError):
    """The offset asked for is not in the log."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        """Nothing was read."""
        super().__init__(message, code=code)


# A named tuple, since one is made for every batch that is produced and frozen dataclasses take longer to make.
class AppendResult(NamedTuple):
    """Where a record set stands in the log; for a duplicate, where the first one stands."""

    base_offset: int
    last_offset: int
    # -1 unless the topic has message.timestamp.type=LogAppendTime.
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndTimestamp:
    """One record's offset and time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """Where a leader epoch ends: the largest epoch at or below the one asked for, and the first offset after it.

    The wire client's class of this name is a broker's answer, which may be that it does not know.
    """

    leader_epoch: int
    offset_next: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    """One aborted transaction; `last_offset` is its marker, `last_stable_offset` that of the moment it was written.

    Readers are told the first two fields alone: `protocol.column_reader` has those, under the same name.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class SharedFile:
    """A file that stays open until the segment and every slice of it are done with it."""

    __slots__ = ("file", "holders")

    def __init__(self, file: File) -> None:
        """The opener is the first holder."""
        self.file = file
        # A file that is removed stays readable for those who have it open, so deleting waits for nobody.
        self.holders = 1

    def hold(self) -> "SharedFile":
        """Add a holder."""
        self.holders += 1
        return self

    def release(self) -> None:
        """Drop a holder; the last one closes the file."""
        self.holders -= 1
        if self.holders == 0:
            self.file.close()


class FileSlice:
    """Whole batches at one place of a segment file, readable even after the segment was deleted; close it after use."""

    __slots__ = ("_shared", "position", "size_bytes")

    def __init__(self, shared: SharedFile, position: int, size_bytes: int) -> None:
        """Hold the file."""
        self._shared: SharedFile | None = shared.hold()
        self.position = position
        self.size_bytes = size_bytes

    @property
    def file(self) -> File:
        """The file the slice lies in."""
        if self._shared is None:
            raise EnvironmentFailure("this slice of a log was closed")
        return self._shared.file

    def read(self) -> bytes:
        """Read all of it."""
        return self._read_part(0, self.size_bytes)

    def chunks(self, chunk_bytes_max: int) -> Iterator[bytes]:
        """Read it piece by piece."""
        for start in range(0, self.size_bytes, chunk_bytes_max):
            yield self._read_part(start, min(chunk_bytes_max, self.size_bytes - start))

    def _read_part(self, start: int, size_bytes: int) -> bytes:
        data = self.file.read_at(self.position + start, size_bytes)
        # Truncation shortens the file itself, unlike deletion, which keeps it for its holders.
        if len(data) != size_bytes:
            raise EnvironmentFailure("the log was truncated while this slice of it was being read")
        return data

    def close(self) -> None:
        """Let go of the file; closing twice is fine."""
        if self._shared is not None:
            self._shared.release()
            self._shared = None

    def __del__(self) -> None:
        """Nobody can read it any more, so nobody may keep the file open through it."""
        self.close()


class LogSlice:
    """What a read gives: slices of one or more segments, in offset order. A context manager that closes them."""

    __slots__ = ("base_offset", "segment_base_offset", "size_bytes", "slices")

    def __init__(self, slices: Sequence[FileSlice], base_offset: int, segment_base_offset: int) -> None:
        """`base_offset` is that of the first batch, which may lie below the offset asked for."""
        self.slices = tuple(slices)
        self.size_bytes = sum(piece.size_bytes for piece in slices)
        self.base_offset = base_offset
        self.segment_base_offset = segment_base_offset

    def read(self) -> bytes:
        """Read all of it and close."""
        with self:
            if len(self.slices) == 1:
                return self.slices[0].read()
            return b"".join(piece.read() for piece in self.slices)

    def chunks(self, chunk_bytes_max: int) -> Iterator[bytes]:
        """Read it piece by piece, then close."""
        with self:
            for piece in self.slices:
                yield from piece.chunks(chunk_bytes_max)

    def close(self) -> None:
        """Let go of the files."""
        for piece in self.slices:
            piece.close()

    def __enter__(self) -> Self:
        """Use it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushWork:
    """Files to sync, in order; then give this to `PartitionLog.mark_flushed`, whether or not the sync worked."""

    files: tuple[File, ...]
    offset_next: int
    generation: int
    held: tuple[SharedFile, ...]

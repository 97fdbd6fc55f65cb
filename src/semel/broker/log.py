"""The log of one partition replica, in its own folder. SIGNATURES FIRST: bodies follow."""

from pathlib import Path
from typing import Self

from semel.broker.log_config import LogConfig
from semel.broker.log_types import (
    AbortedTransaction,
    AppendResult,
    EpochEnd,
    FlushWork,
    LogSlice,
    OffsetAndTimestamp,
    Origin,
)
from semel.world.disk import Disk


class PartitionLog:
    """Batches in offset order, with who produced them and which transactions are open."""

    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    truncated_bytes: int  # torn or damaged bytes that `open` cut off

    @classmethod
    def open(cls, disk: Disk, folder: Path, config: LogConfig, *, now_ms: int, clean: bool) -> Self:
        """Open or create the log in `folder`; `clean` says that the broker stopped in an orderly way."""
        raise NotImplementedError

    def append_as_leader(
        self, record_set: memoryview, *, leader_epoch: int, now_ms: int, origin: Origin = Origin.CLIENT
    ) -> AppendResult:
        """Check, stamp and append; AppendRefused(.code) leaves the log as it was."""
        raise NotImplementedError

    def append_as_follower(self, record_set: memoryview) -> int:
        """Append what the leader stamped; returns the new log end offset."""
        raise NotImplementedError

    def read(
        self, offset_start: int, *, bytes_max: int, offset_limit: int | None = None, minimum_one_batch: bool = True
    ) -> LogSlice:
        """Whole batches from the one that holds `offset_start`, below `offset_limit`; ReadRefused out of range."""
        raise NotImplementedError

    def advance_high_watermark(self, offset: int) -> None:
        """Set the high watermark; never above the log end, never below the log start."""
        raise NotImplementedError

    @property
    def last_stable_offset(self) -> int:
        """First offset that a read_committed reader may not see."""
        raise NotImplementedError

    def aborted_transactions(self, offset_start: int, offset_limit: int) -> list[AbortedTransaction]:
        """Aborted transactions that overlap the range."""
        raise NotImplementedError

    def offset_for_timestamp(self, timestamp_ms: int) -> OffsetAndTimestamp | None:
        """First record with that timestamp or a later one."""
        raise NotImplementedError

    def max_timestamp_offset(self) -> OffsetAndTimestamp | None:
        """The first record that has the largest timestamp."""
        raise NotImplementedError

    def offset_for_leader_epoch(self, leader_epoch: int) -> EpochEnd:
        """Where that leader epoch ends here; (-1, -1) when unknown."""
        raise NotImplementedError

    def unflushed(self) -> FlushWork | None:
        """What to sync now; None when everything is on the disk."""
        raise NotImplementedError

    def mark_flushed(self, work: FlushWork, *, done: bool = True) -> None:
        """The files of `work` were synced (or, with done=False, could not be)."""
        raise NotImplementedError

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Drop everything at and after `offset`."""
        raise NotImplementedError

    def delete_expired(self, now_ms: int) -> int:
        """Retention; returns the number of segments deleted."""
        raise NotImplementedError

    def delete_records_before(self, offset: int) -> int:
        """DeleteRecords; returns the new log start offset."""
        raise NotImplementedError

    def checkpoint(self) -> None:
        """Write the offsets that the next open starts from."""
        raise NotImplementedError

    def close(self) -> None:
        """Clean stop: everything synced, indexes and snapshots written."""
        raise NotImplementedError

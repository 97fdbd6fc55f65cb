"""The segments of one log as files: opening, rolling, flushing, deleting, cutting, closing; what retention may delete.

Keeps: L3 what was synced survives a crash, and what survives is a prefix; what describes a part of the log (snapshots,
       indexes, leader epochs) never outlives it.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from semel.broker.log.config import LogConfig
from semel.broker.log.files import put_file, write_state
from semel.broker.log.lookup import segment_at
from semel.broker.log.recovery import EPOCH_FILE, Recovered, recover
from semel.broker.log.replay import drop_snapshots, replay, write_snapshot
from semel.broker.log.segment import Segment
from semel.broker.log.types import AppendRefused, FlushWork, ReadRefused
from semel.protocol.error_codes import ErrorCode
from semel.world.disk import Disk

HIGH_WATERMARK = -1  # what DeleteRecords sends for "everything that readers could see"


class SegmentedLog:
    """Segments in offset order, the last one active, with the state that goes with them."""

    def __init__(self, disk: Disk, folder: Path, config: LogConfig, found: Recovered) -> None:
        """Use `open`."""
        self.disk = disk
        self.folder = folder
        self.config = config
        self.truncated_bytes = found.truncated_bytes
        self.segments = found.segments
        self.producers = found.producers
        self.epochs = found.epochs
        self.state = found.state
        self._saved_state = found.saved_state
        self.log_end_offset = found.segments[-1].offset_next
        self._opened_end_offset = self.log_end_offset
        self.generation = 0  # changes when bytes that are being synced or compacted may have been cut off
        self.epochs.start_from(self.log_start_offset)
        self.producers.advance_high_watermark(self.high_watermark)

    @classmethod
    def open(cls, disk: Disk, folder: Path, config: LogConfig, *, now_ms: int, clean: bool) -> Self:
        """Open or create the log in `folder`; `clean` says that the broker stopped in an orderly way."""
        return cls(disk, folder, config, recover(disk, folder, config, now_ms=now_ms, clean=clean))

    # --- offsets

    @property
    def log_start_offset(self) -> int:
        """First offset that can be read."""
        return self.state.log_start_offset

    @property
    def high_watermark(self) -> int:
        """First offset that not every in-sync replica has."""
        return self.state.high_watermark

    @property
    def recovery_point(self) -> int:
        """First offset that may not be on the disk."""
        return self.state.recovery_point

    @property
    def last_stable_offset(self) -> int:
        """First offset that a read_committed reader may not see."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.state.high_watermark
        # DeleteRecords may go past the first record of an open transaction.
        return max(self.state.log_start_offset, min(unstable, self.state.high_watermark))

    @property
    def size_bytes(self) -> int:
        """All segments together."""
        return sum(segment.size_bytes for segment in self.segments)

    def advance_high_watermark(self, offset: int) -> None:
        """Set the high watermark; never above the log end, never below the log start."""
        self.state.high_watermark = max(self.log_start_offset, min(offset, self.log_end_offset))
        self.producers.advance_high_watermark(self.state.high_watermark)

    # --- flushing

    def unflushed(self) -> FlushWork | None:
        """What to sync now; None when everything is on the disk."""
        if self.recovery_point >= self.log_end_offset:
            return None
        # Each file is held: retention may delete its segment while the sync runs.
        held = tuple(segment.shared.hold() for segment in self.segments if segment.offset_next > self.recovery_point)
        files = tuple(shared.file for shared in held)
        return FlushWork(files=files, offset_next=self.log_end_offset, generation=self.generation, held=held)

    def mark_flushed(self, work: FlushWork, *, done: bool = True) -> None:
        """The files of `work` were synced (or, with done=False, could not be)."""
        for shared in work.held:
            shared.release()
        # After a cut other bytes may stand where the synced ones stood.
        if done and work.generation == self.generation:
            self.state.recovery_point = max(self.recovery_point, work.offset_next)

    # --- segments

    def _segment_for(self, size_bytes: int, timestamp_ms: int, now_ms: int) -> Segment:
        active = self.segments[-1]
        # Two segments cannot have the same base offset, which is also the file's name.
        if not active.size_bytes:
            return active
        first_ms = active.index.first_timestamp_ms
        # Records' own times decide, as in Apache Kafka. The clock does so only where records carry none.
        is_timed = first_ms >= 0 and timestamp_ms >= 0
        waited_ms = timestamp_ms - first_ms if is_timed else now_ms - active.created_ms
        is_full = active.size_bytes + size_bytes > self.config.segment_bytes_max
        return self.roll(now_ms) if is_full or waited_ms > self.config.segment_ms_max else active

    def roll(self, now_ms: int) -> Segment:
        """Seal the active segment and start another."""
        interval_bytes = self.config.index_interval_bytes
        # The new file first: on a full disk the active segment stays as it is.
        try:
            segment = Segment.create(
                self.disk, self.folder, self.log_end_offset, interval_bytes=interval_bytes, now_ms=now_ms
            )
        except OSError as error:
            raise AppendRefused(ErrorCode.KAFKA_STORAGE_ERROR, f"no new segment could be made: {error}") from error
        # A crash before these files are written costs a longer recovery and nothing else.
        self.segments[-1].seal()
        self._write_rebuildable()
        self.segments.append(segment)
        return segment

    def _write_rebuildable(self) -> None:
        write_snapshot(self.disk, self.folder, self.producers, self.log_end_offset)
        put_file(self.disk, self.folder / EPOCH_FILE, self.epochs.encode())

    def delete_expired(self, now_ms: int) -> int:
        """Retention, and producers that were idle too long; the number of segments deleted."""
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        count = plan_expired(
            self.segments,
            self.config,
            now_ms=now_ms,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
        )
        # All go, but a log needs an active segment. The new one starts at the log end: no offset is used twice.
        if count == len(self.segments):
            self.roll(now_ms)
        self._delete_oldest(count)
        return count

    def delete_records_before(self, offset: int) -> int:
        """DeleteRecords: `offset` -1 means the high watermark; the new log start offset, which is durable."""
        wanted = self.high_watermark if offset == HIGH_WATERMARK else offset
        # Above the high watermark the in-sync replicas may differ still: a new leader could bring the records back.
        if not 0 <= wanted <= self.high_watermark:
            message = f"records can be deleted up to the high watermark, {self.high_watermark}, not up to {wanted}"
            raise ReadRefused(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        if wanted > self.log_start_offset:
            before, self.state.log_start_offset = self.log_start_offset, wanted
            try:
                # On the disk before any file goes and before the answer: a crash must not bring records back.
                self.checkpoint()
            except OSError:
                # The client's answer says that nothing was deleted, so nothing is.
                self.state.log_start_offset = before
                raise
            self._delete_oldest(plan_below(self.segments[:-1], wanted))
        return self.log_start_offset

    def _delete_oldest(self, count: int) -> None:
        for segment in self.segments[:count]:
            segment.delete()
        del self.segments[:count]
        # Retention does not make this durable: after a crash the first segment that is there says it again.
        self.state.log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        self.epochs.start_from(self.log_start_offset)
        if count:
            drop_snapshots(self.disk, self.folder, below=self.segments[0].base_offset)

    def truncate_to(self, offset: int, *, now_ms: int) -> None:
        """Drop everything at and after `offset`, and the rest of the batch that holds it."""
        if offset >= self.log_end_offset:
            self.epochs.truncate_to(self.log_end_offset)  # leader epochs that wrote nothing here
            return
        if offset < self.segments[0].base_offset:
            self.start_at(offset, now_ms=now_ms)
            return
        index = segment_at(self.segments, offset)
        step = self.segments[index].step_at(offset)
        assert step is not None, "a segment ends where the next begins"
        self._before_cut(min(offset, step.base_offset))
        self._delete_from(index + 1)
        self.segments[index].truncate(step.position)
        self._after_cut(now_ms)

    def start_at(self, offset: int, *, now_ms: int) -> None:
        """Drop everything; the log is empty and goes on at `offset`."""
        self._before_cut(0)
        self._delete_from(0)
        interval_bytes = self.config.index_interval_bytes
        segment = Segment.create(self.disk, self.folder, offset, interval_bytes=interval_bytes, now_ms=now_ms)
        self.segments.append(segment)
        self.state.log_start_offset = offset
        self._after_cut(now_ms)
        self.checkpoint()

    def _before_cut(self, end_offset: int) -> None:
        """What describes the part that goes must go first: after a crash it would describe other batches."""
        self.generation += 1
        if end_offset < self.log_start_offset:
            # Records were deleted up to an offset that this log no longer reaches, as after an unclean election. A log
            # cannot begin behind its end: opened again, it would take all that is written from here on for deleted.
            self.state.log_start_offset = end_offset
            self.checkpoint()
        drop_snapshots(self.disk, self.folder, above=end_offset)
        self.epochs.truncate_to(end_offset)
        put_file(self.disk, self.folder / EPOCH_FILE, self.epochs.encode())

    def _delete_from(self, index: int) -> None:
        # Newest first: what a crash leaves behind is still a prefix.
        for segment in reversed(self.segments[index:]):
            segment.delete()
        del self.segments[index:]

    def _after_cut(self, now_ms: int) -> None:
        self.log_end_offset = self.segments[-1].offset_next
        self.producers, self.epochs = replay(self.disk, self.folder, self.segments, self.epochs, now_ms=now_ms)
        self.epochs.start_from(self.log_start_offset)
        state = self.state
        state.recovery_point = min(state.recovery_point, self.log_end_offset)
        state.cleaned_offset_next = min(state.cleaned_offset_next, self.log_end_offset)
        self.advance_high_watermark(min(state.high_watermark, self.log_end_offset))

    # --- stopping

    def checkpoint(self) -> None:
        """Write the offsets that the next open starts from, if they have changed."""
        if self.state != self._saved_state:
            write_state(self.disk, self.folder, self.state)
            self._saved_state = replace(self.state)

    def close(self) -> None:
        """Clean stop: everything synced, indexes and snapshots written, so that the next open reads little."""
        if not self._is_as_opened():
            for segment in self.segments:
                if segment.offset_next > self.recovery_point:
                    self.disk.sync_now(segment.file)
            self.state.recovery_point = self.log_end_offset
            self.segments[-1].seal()
            self._write_rebuildable()
        self.checkpoint()
        self.abandon()

    def _is_as_opened(self) -> bool:
        """Nothing was written or cut, so all files are there already: hundreds of idle logs must close at once."""
        is_unwritten = self.log_end_offset == self._opened_end_offset and self.generation == 0
        return is_unwritten and self.recovery_point >= self.log_end_offset

    def abandon(self) -> None:
        """Let go of the files and write nothing, as a crash would."""
        for segment in self.segments:
            segment.close()
        self.segments = []


def plan_expired(
    segments: Sequence[Segment], config: LogConfig, *, now_ms: int, log_start_offset: int, high_watermark: int
) -> int:
    """How many segments, counted from the oldest, are to go."""
    # The active segment can expire too if it holds something, else a quiet topic would keep its last records for ever.
    eligible = plan_below(segments if segments[-1].size_bytes else segments[:-1], high_watermark)
    # What DeleteRecords has left behind goes whatever cleanup.policy says.
    counts = [plan_below(segments[:-1], log_start_offset)]
    if config.is_deleted:
        counts.append(_expired_by_time(segments[:eligible], config.retention_ms, now_ms))
        counts.append(_expired_by_size(segments[:eligible], segments, config.retention_bytes))
    return max(counts)


def plan_below(segments: Sequence[Segment], offset: int) -> int:
    """How many segments, counted from the oldest, end at or below `offset`."""
    count = 0
    for segment in segments:
        if segment.offset_next > offset:
            break
        count += 1
    return count


def _expired_by_time(eligible: Sequence[Segment], retention_ms: int, now_ms: int) -> int:
    if retention_ms < 0:
        return 0
    count = 0
    for segment in eligible:
        if now_ms - segment.largest_timestamp_ms <= retention_ms:
            break
        count += 1
    return count


def _expired_by_size(eligible: Sequence[Segment], segments: Sequence[Segment], retention_bytes: int) -> int:
    if retention_bytes < 0:
        return 0
    excess_bytes = sum(segment.size_bytes for segment in segments) - retention_bytes
    count = 0
    for segment in eligible:
        # As in Apache Kafka `retention.bytes` is what stays at least, not at most.
        if excess_bytes < segment.size_bytes:
            break
        excess_bytes -= segment.size_bytes
        count += 1
    return count

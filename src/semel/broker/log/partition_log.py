"""The log of one partition replica, in its own folder.

Keeps: L1 offsets rise; L3 what was synced survives a crash, and what survives is a prefix; L4 a refused append changes
       nothing; I1 I2 B7 through `producer_state`; readers below `last_stable_offset` see only decided transactions.
Why:   a core without clock, tasks or sockets: the shell passes the time in, syncs what `unflushed` names and
       acknowledges after `mark_flushed`.
"""

import logging

from semel.broker.log.append_plan import Planned, plan_append, plan_runs, stamped
from semel.broker.log.lookup import find_aborted, find_max_timestamp, find_timestamp, read_slices
from semel.broker.log.producer_state import BatchSeen, Verification
from semel.broker.log.segment import Segment
from semel.broker.log.segmented_log import SegmentedLog
from semel.broker.log.types import (
    AbortedTransaction,
    AppendRefused,
    AppendResult,
    EpochEnd,
    LogSlice,
    OffsetAndTimestamp,
    Origin,
    ReadRefused,
)
from semel.broker.runtime.yielding import Pausing
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import BatchHeader, TimestampType, read_header
from semel.world.disk import Buffer

log = logging.getLogger("semel.broker")


class PartitionLog(SegmentedLog):
    """Batches in offset order, with who produced them and which transactions are open."""

    _is_failing = False

    # --- appending

    def append_as_leader(
        self,
        record_set: memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        verification: Verification | None = None,
        transaction_version: int = 0,
        newest_ms: int | None = None,
    ) -> AppendResult:
        """Check, stamp and append; AppendRefused(.code) leaves the log as it was.

        `newest_ms` is what an inspection of the records has found before, see `Inspections`.
        """
        # Whatever can refuse comes before the first byte is written, so a refusal has nothing to undo (L4).
        planned = plan_append(
            record_set,
            self.config,
            self.producers,
            now_ms=now_ms,
            origin=origin,
            verification=verification,
            transaction_version=transaction_version,
            newest_ms=newest_ms,
        )
        if isinstance(planned, BatchSeen):
            # A producer that repeats itself is alive. It must not be forgotten while its retries are still on the way.
            self.producers.touch(read_header(record_set).producer_id, now_ms)
            return self._duplicate(planned)
        is_append_time = self.config.timestamp_type is TimestampType.LOG_APPEND_TIME
        append_time_ms = now_ms if is_append_time else None
        base_offset = self.log_end_offset
        newest_ms = now_ms if is_append_time else max([one.header.max_timestamp_ms for one in planned])
        segment = self._segment_for(len(record_set), newest_ms, now_ms)
        buffers = stamped(
            record_set, planned, base_offset=base_offset, leader_epoch=leader_epoch, append_time_ms=append_time_ms
        )
        position = self._write(segment, *buffers)
        if leader_epoch > self.epochs.latest:
            # A partition that begins to lead has assigned its epoch already. The metadata log has no such moment.
            self.epochs.assign(leader_epoch, base_offset)
        for one in planned:
            self._note(segment, one, position + one.position, append_time_ms)
            self.producers.touch(one.header.producer_id, now_ms)
        segment.touched_ms = now_ms
        return AppendResult(
            base_offset=base_offset,
            last_offset=self.log_end_offset - 1,
            log_append_time_ms=now_ms if is_append_time else -1,
            log_start_offset=self.log_start_offset,
        )

    def _duplicate(self, seen: BatchSeen) -> AppendResult:
        return AppendResult(
            base_offset=seen.base_offset,
            last_offset=seen.last_offset,
            log_append_time_ms=seen.timestamp_ms,
            log_start_offset=self.log_start_offset,
            duplicate=True,
        )

    def _note(self, segment: Segment, one: Planned, position: int, append_time_ms: int | None) -> None:
        header = one.header
        # The header is the producer's own: its base offset is 0, and ours was stamped into the bytes only.
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        timestamp_ms = header.max_timestamp_ms if append_time_ms is None else append_time_ms
        segment.index.add(base_offset, last_offset, timestamp_ms, position, header.size_bytes)
        self.log_end_offset = last_offset + 1
        if header.producer_id < 0:
            return
        if one.marker is None:
            self.producers.apply_data(header, base_offset, timestamp_ms)
            return
        marker, coordinator_epoch = one.marker
        aborted = self.producers.apply_marker(header, marker, coordinator_epoch, base_offset, timestamp_ms)
        if aborted is not None and segment.aborted is not None:
            segment.aborted.append(aborted)

    def append_as_follower(self, record_set: memoryview, *, now_ms: int) -> int:
        """Append what the leader stamped, unchecked but for damage and order; the new log end offset."""
        for position, size_bytes, headers in plan_runs(record_set, self.log_end_offset, self.config.segment_bytes_max):
            segment = self._segment_for(size_bytes, max(header.max_timestamp_ms for header in headers), now_ms)
            run = record_set[position : position + size_bytes]
            at = self._write(segment, run)
            for header in headers:
                # The run ends where the segment now ends, so this is where the batch begins inside the run.
                self._note_replicated(segment, header, at, run[at - segment.size_bytes + size_bytes :])
                self.producers.touch(header.producer_id, now_ms)
                at += header.size_bytes
        return self.log_end_offset

    def _note_replicated(self, segment: Segment, header: BatchHeader, position: int, batch: memoryview) -> None:
        segment.index.add_header(header, position)
        self.log_end_offset = header.offset_next
        # A follower learns leader epochs from the batches alone, which is also how recovery finds them again.
        self.epochs.assign(header.leader_epoch, header.base_offset)
        # Sequences are not checked again: a follower that refused what its leader took would part from it.
        aborted = self.producers.replay(batch, header)
        if aborted is not None and segment.aborted is not None:
            segment.aborted.append(aborted)

    def _write(self, segment: Segment, *buffers: Buffer) -> int:
        try:
            position = segment.append(*buffers)
        except OSError as error:
            self._log_failure(error)
            raise AppendRefused(ErrorCode.KAFKA_STORAGE_ERROR, f"the log could not be written: {error}") from error
        if self._is_failing:
            self._is_failing = False
            log.warning("%s can be written again", self.folder)
        return position

    def _log_failure(self, error: OSError) -> None:
        """One line when it begins: a full disk refuses thousands of requests."""
        if not self._is_failing:
            self._is_failing = True
            log.error("%s cannot be written: %s; who writes gets KAFKA_STORAGE_ERROR", self.folder, error)

    def assign_leader_epoch(self, leader_epoch: int) -> None:
        """This replica leads from here on."""
        self.epochs.assign(leader_epoch, self.log_end_offset)

    # --- reading

    def read(
        self, offset_start: int, *, bytes_max: int, offset_limit: int | None = None, minimum_one_batch: bool = True
    ) -> LogSlice:
        """Whole batches from the one that holds `offset_start`, below `offset_limit`; ReadRefused out of range."""
        if not self.log_start_offset <= offset_start <= self.log_end_offset:
            span = f"{self.log_start_offset} to {self.log_end_offset}"
            raise ReadRefused(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset_start} is outside the log, {span}")
        limit = self.log_end_offset if offset_limit is None else min(offset_limit, self.log_end_offset)
        # Between the limit and the log end nothing is out of range: the reader waits until the limit has risen.
        if offset_start >= limit:
            return LogSlice((), offset_start, self.segments[-1].base_offset)
        return read_slices(
            self.segments, offset_start, bytes_max=bytes_max, offset_limit=limit, at_least_one=minimum_one_batch
        )

    def aborted_transactions(self, offset_start: int, offset_limit: int) -> list[AbortedTransaction]:
        """Aborted transactions that overlap the range."""
        return find_aborted(self.segments, offset_start, offset_limit)

    def offset_for_timestamp(self, timestamp_ms: int) -> Pausing[OffsetAndTimestamp | None]:
        """First record with that timestamp or a later one."""
        return find_timestamp(self.segments, timestamp_ms, self.log_start_offset, self.config.readable_bytes_max)

    def max_timestamp_offset(self) -> Pausing[OffsetAndTimestamp | None]:
        """The first record that has the largest timestamp."""
        return find_max_timestamp(self.segments, self.log_start_offset, self.config.readable_bytes_max)

    def offset_for_leader_epoch(self, leader_epoch: int) -> EpochEnd:
        """Where that leader epoch ends here; (-1, -1) when unknown."""
        return self.epochs.end_of(leader_epoch, self.log_end_offset)

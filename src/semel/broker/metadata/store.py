"""The metadata log: every decision of every controller, in order, and the check that keeps older controllers out.

Keeps: B4 the cluster's state is a function of this log; B5 a change is durable before it is visible;
       R7 a controller writes nothing once a newer one has claimed the log.
Why:   Apache Kafka keeps this log on a quorum of controllers (Raft). Here it lies on one disk, and only the claim
       is left of the election; see docs/DIFFERENCES.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from semel.broker.log.config import FlushPolicy
from semel.broker.log.partition_log import PartitionLog
from semel.broker.log.types import Origin
from semel.broker.metadata.cluster_state import ClusterState, ControllerClaimed, MetadataRecord, apply_records
from semel.broker.metadata.records import decode_record, encode_record
from semel.broker.runtime.refused import Refused
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import DraftRecord, decode_records, encode_batch, iter_headers
from semel.world.clock import Clock

# All of it in one read: it lies on one disk and is read at a start only.
READ_BYTES_MAX = 1 << 30


class MetadataStore:
    """The log as controllers use it."""

    def __init__(self, log: PartitionLog, clock: Clock) -> None:
        """Find out who claimed it last."""
        self._log = log
        self._clock = clock
        self.controller_epoch = self.read().controller_epoch

    def read(self) -> ClusterState:
        """The state that the whole log leads to."""
        if self._log.log_end_offset == self._log.log_start_offset:
            return ClusterState()
        data = self._log.read(self._log.log_start_offset, bytes_max=READ_BYTES_MAX).read()
        found = (
            decode_record(record.key or b"", record.value or b"")
            for position, header in iter_headers(data)
            for record in decode_records(data, header, position)
        )
        return apply_records(ClusterState(), found)

    def claim(self) -> int:
        """Become the only one who may write; the new controller epoch."""
        epoch = self.controller_epoch + 1
        # Written before the number counts: if the write fails, the older controller is still the one that may write.
        self._write(epoch, [ControllerClaimed(controller_epoch=epoch)])
        self.controller_epoch = epoch
        return epoch

    def append(self, controller_epoch: int, records: Sequence[MetadataRecord]) -> None:
        """Write records durably, or refuse an older controller."""
        # One process and no await between this check and the write, so nobody can claim the log in between (R7).
        if controller_epoch != self.controller_epoch:
            raise Refused(
                ErrorCode.NOT_CONTROLLER,
                f"controller epoch {controller_epoch} is over, {self.controller_epoch} has taken over",
            )
        self._write(controller_epoch, records)

    def _write(self, controller_epoch: int, records: Sequence[MetadataRecord]) -> None:
        now_ms = self._clock.wall_ms()
        drafts = [DraftRecord(key=key, value=value, timestamp_ms=now_ms) for key, value in map(encode_record, records)]
        batch = memoryview(bytearray(encode_batch(drafts)))
        offset = self._log.log_end_offset
        # As a coordinator's write it is held to no client's rules, such as the size of a batch.
        self._log.append_as_leader(batch, leader_epoch=controller_epoch, now_ms=now_ms, origin=Origin.COORDINATOR)
        # There is one copy, so what is written counts at once.
        self._log.advance_high_watermark(self._log.log_end_offset)
        try:
            self._make_durable()
        except OSError:
            self._log.truncate_to(offset, now_ms=now_ms)  # what nobody may see must not come back after a restart
            raise

    def _make_durable(self) -> None:
        """Sync, where the flush policy says that nothing counts before it is on the disk."""
        work = self._log.unflushed() if self._log.config.flush_policy is FlushPolicy.EVERY else None
        if work is None:
            return
        done = False
        try:
            for file in work.files:
                self._log.disk.sync_now(file)
            done = True
        finally:
            self._log.mark_flushed(work, done=done)

    def close(self) -> None:
        """Clean stop."""
        self._log.close()

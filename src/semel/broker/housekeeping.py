"""What a broker does by itself from time to time: retention, compaction, syncing, ending idle connections."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from semel.broker.log.compaction import compaction_run, plan_compaction
from semel.broker.log.config import FlushPolicy
from semel.broker.replication.partition import Partition
from semel.broker.runtime.tasks import Tasks
from semel.world.clock import Timer

if TYPE_CHECKING:
    from semel.broker.broker import Broker

log = logging.getLogger("semel.broker")

# Short intervals are for tests; a round looks at every connection, so it must not come all the time.
ROUND_MS_MIN = 10
ROUND_MS_MAX = 5000


class Housekeeping:
    """One broker's rounds; each kind of work has its own interval among the broker's settings."""

    def __init__(self, broker: Broker, flush_policy: FlushPolicy) -> None:
        """Nothing is done before `start`."""
        self._broker = broker
        self._flush_policy = flush_policy
        self._tasks = Tasks()
        self._timer: Timer | None = None
        self._compacting = False
        # The first round comes one interval after the start, as in Apache Kafka.
        now_ms = broker.world.clock.monotonic_ms()
        self._retention_due_ms = now_ms + broker.settings.number("log.retention.check.interval.ms")
        self._compaction_due_ms = now_ms + broker.settings.number("log.cleaner.backoff.ms")
        self._flush_due_ms = now_ms

    def start(self) -> None:
        """Begin the rounds."""
        self._timer = self._broker.world.clock.call_later_ms(self._round_ms(), self._round)

    def stop(self) -> None:
        """End them; work under way is given up, which loses nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self._tasks.cancel()

    def _round_ms(self) -> int:
        settings = self._broker.settings
        wanted = [ROUND_MS_MAX, settings.number("log.retention.check.interval.ms")]
        wanted.append(settings.number("log.cleaner.backoff.ms"))
        idle_ms_max = settings.number("connections.max.idle.ms")
        if idle_ms_max >= 0:
            wanted.append(idle_ms_max)
        if self._flush_policy is FlushPolicy.INTERVAL:
            wanted.append(settings.number("log.flush.scheduler.interval.ms"))
        return max(ROUND_MS_MIN, min(wanted))

    def _round(self) -> None:
        settings = self._broker.settings
        now_ms = self._broker.world.clock.monotonic_ms()
        try:
            self._broker.server.close_idle(settings.number("connections.max.idle.ms"))
            # A disk that was full at the start may have room now.
            self._broker.local_replicas.open_failed()
            if now_ms >= self._retention_due_ms:
                self._retention_due_ms = now_ms + settings.number("log.retention.check.interval.ms")
                # Followers too: each replica applies retention by itself, below the high watermark that it knows.
                self.delete_expired()
            if now_ms >= self._compaction_due_ms and not self._compacting:
                self._compaction_due_ms = now_ms + settings.number("log.cleaner.backoff.ms")
                self._tasks.start(self.compact())
            if self._flush_policy is FlushPolicy.INTERVAL and now_ms >= self._flush_due_ms:
                self._flush_due_ms = now_ms + settings.number("log.flush.scheduler.interval.ms")
                self._tasks.start(self._flush())
        finally:
            # Whatever fails in one round, the next one comes.
            self.start()

    def delete_expired(self) -> None:
        """Retention of every partition."""
        now_ms = self._broker.world.clock.wall_ms()
        for partition in self._broker.replicas.values():
            try:
                partition.log.delete_expired(now_ms)
            except OSError as error:
                log.warning("broker %d: retention of %s: %s", self._broker.id, partition.name, error)

    async def compact(self) -> None:
        """Compaction of every partition that wants it, pausing so that requests are served in between."""
        self._compacting = True
        try:
            # A copy: topics come and go while compaction pauses.
            for partition in list(self._broker.replicas.values()):
                if partition.log.config.is_compacted:
                    await self._compact(partition)
        finally:
            self._compacting = False

    async def _compact(self, partition: Partition) -> None:
        now_ms = self._broker.world.clock.wall_ms()
        try:
            plan = plan_compaction(partition.log, now_ms)
            if plan is None:
                return
            for _ in compaction_run(partition.log, plan, now_ms):
                await self._broker.world.clock.sleep_ms(0)
        except OSError as error:
            log.warning("broker %d: compaction of %s: %s", self._broker.id, partition.name, error)

    async def _flush(self) -> None:
        for partition in list(self._broker.replicas.values()):
            try:
                await partition.flush(partition.log.log_end_offset)
            except OSError as error:
                # The others are synced all the same; this one comes again in the next round.
                log.warning("broker %d: syncing %s: %s", self._broker.id, partition.name, error)

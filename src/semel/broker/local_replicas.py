"""The replicas that one broker stores: opened, given their role and deleted as the cluster's state says.

Opening and deleting thousands of logs takes seconds. It is done in portions, one in each turn of the event loop, so
that the others are served in between. A partition that is not open yet is answered as one that is not here, and clients
ask again.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from semel.broker.log.config import FlushPolicy, LogConfig
from semel.broker.metadata.cluster_state import (
    INTERNAL_TOPICS,
    OFFLINE,
    ClusterState,
    PartitionKey,
    PartitionState,
    Topic,
)
from semel.broker.metadata.config import effective_topic_config
from semel.broker.replication.fetch_loop import FetchLoops
from semel.broker.replication.isr_changes import IsrChanges
from semel.broker.replication.partition import Partition
from semel.broker.replication.replica_folders import ReplicaFolders
from semel.world.clock import Timer

if TYPE_CHECKING:
    from semel.broker.broker import Broker

log = logging.getLogger("semel.broker")

# Apache Kafka looks every half of replica.lag.time.max.ms, too; here never more rarely than this.
LAG_CHECK_MS_MAX = 2_500.0
OPENINGS_AT_ONCE_MAX = 10  # about 4 ms, and 30 on a slow disk


class LocalReplicas:
    """One broker's replicas, with what makes them lead and follow."""

    def __init__(self, broker: Broker, folder: Path, flush_policy: FlushPolicy) -> None:
        """Nothing is opened before `begin_life`."""
        self.stored: dict[PartitionKey, Partition] = {}  # every partition that is stored here
        self.led: dict[PartitionKey, Partition] = {}  # those of them that this broker leads
        self._broker = broker
        self._flush_policy = flush_policy
        self._folders = ReplicaFolders(folder, broker.world, broker_id=broker.id, flush_policy=flush_policy)
        self._fetch_loops = FetchLoops(broker)
        self._isr_changes = IsrChanges(broker)
        self._stopped_cleanly = False  # the last life, and what was there at its end is being opened
        self._unopened: dict[PartitionKey, None] = {}  # to be opened in a later turn of the loop
        self._failed: dict[PartitionKey, None] = {}  # could not be opened
        self._openings_left = OPENINGS_AT_ONCE_MAX
        self._opening: Timer | None = None
        self._lag_timer: Timer | None = None

    # --- from start to stop

    def begin_life(self, state: ClusterState) -> None:
        """Make the folders fit the state; until `serve` everything is opened at once, since nobody is served yet."""
        self._stopped_cleanly = self._folders.begin_life()
        self._folders.remove_orphans(
            {
                f"{topic.name}-{index}": topic.id
                for topic in state.topics.values()
                for index, partition in enumerate(topic.partitions)
                if self._broker.id in partition.replicas
            }
        )
        self._openings_left = sum(len(topic.partitions) for topic in state.topics.values())

    def serve(self) -> None:
        """From now on others are waiting: open in portions, and watch followers."""
        self._openings_left = OPENINGS_AT_ONCE_MAX
        # Only for what was there at the start; replicas that are opened later are new or were never closed cleanly.
        self._stopped_cleanly = False
        self._watch_lag()

    def stop(self) -> None:
        """Do nothing by itself any more; requests are still answered."""
        self._fetch_loops.stop()
        self._isr_changes.stop()
        for timer in (self._lag_timer, self._opening):
            if timer is not None:
                timer.cancel()
        self._folders.stop()

    async def remove_rest(self) -> None:
        """Remove the folders of deleted replicas that are still there."""
        await self._folders.remove_rest()

    def close(self) -> None:
        """Close every log, so that the next start needs no repair."""
        for replica in self.stored.values():
            replica.close()
        self._forget()
        # Last of all, when every log is closed.
        self._folders.mark_clean_stop()

    def abandon(self) -> None:
        """Let go of every file and write nothing, as a crash does."""
        for replica in self.stored.values():
            replica.abandon()
        self._forget()
        self._folders.abandon()

    def _forget(self) -> None:
        self.stored.clear()
        self.led.clear()

    # --- following the cluster's state

    def apply_topics(self, before: ClusterState, state: ClusterState, *, all_roles: bool) -> None:
        """Open, change and delete replicas as the topics changed; with `all_roles` those of other topics as well."""
        for name in [name for name in before.topics if name not in state.topics]:
            self._remove_topic(before.topics[name])
        for name, topic in state.topics.items():
            old = before.topics.get(name)
            # By identity: a topic that did not change is the same object in both
            # states, and most changes touch few topics.
            if old is topic and not all_roles:
                continue
            # Deleted and made again under the same name while this broker did not hear of it: the old records must go.
            if old is not None and old.id != topic.id:
                self._remove_topic(old)
            self._apply_topic(topic)
        self._roles_changed()

    def apply_settings(self) -> None:
        """Dynamic broker settings are the defaults of every topic's."""
        topics = self._broker.state.topics
        for (name, _), replica in self.stored.items():
            if name in topics:
                replica.log.config = self._log_config(topics[name].config)

    def _apply_topic(self, topic: Topic) -> None:
        config = self._log_config(topic.config)
        for index, partition in enumerate(topic.partitions):
            self._apply_partition(topic, index, partition, config)

    def _apply_partition(self, topic: Topic, index: int, state: PartitionState, config: LogConfig) -> None:
        replica = self.stored.get((topic.name, index))
        if self._broker.id not in state.replicas:
            if replica is not None:
                self._remove(replica)
            return
        if replica is None:
            # It may be opened in a later turn, which then gives it its role.
            replica = self._open_or_postpone(topic, index, config)
        if replica is not None:
            replica.log.config = config
            self._give_role(replica, state)

    def _log_config(self, own: Mapping[str, str]) -> LogConfig:
        """The log settings of a topic with these settings of its own."""
        settings = self._broker.settings
        base = LogConfig(
            flush_policy=self._flush_policy,
            verify_transactions=settings.enabled("transaction.partition.verification.enable"),
            producer_id_expiration_ms=settings.number("producer.id.expiration.ms"),
        )
        return LogConfig.from_topic_config(effective_topic_config(own, self._broker.broker_config()), base)

    def _remove_topic(self, topic: Topic) -> None:
        for index in range(len(topic.partitions)):
            replica = self.stored.get((topic.name, index))
            if replica is not None:
                self._remove(replica)
        self._broker.groups.topic_deleted(topic.name)

    def _remove(self, replica: Partition) -> None:
        key = (replica.topic, replica.index)
        self.led.pop(key, None)
        del self.stored[key]
        replica.retire()
        self._folders.remove_later(replica)

    # --- opening, some in each turn of the loop

    def _open_or_postpone(self, topic: Topic, index: int, config: LogConfig) -> Partition | None:
        """Open it now, or later if this turn has opened enough.

        Those of coordinators are opened at once: the client that asked for a coordinator, and so made its topic, now
        uses it.
        """
        self._schedule_opening()
        if not self._openings_left and topic.name not in INTERNAL_TOPICS:
            self._unopened[topic.name, index] = None
            return None
        self._openings_left = max(0, self._openings_left - 1)
        try:
            replica = self.stored[topic.name, index] = self._open(topic, index, config)
        except OSError as error:  # one folder that cannot be opened must not take the others along
            log.error("broker %d: %s-%d cannot be opened: %s", self._broker.id, topic.name, index, error)  # noqa: TRY400
            self._failed[topic.name, index] = None
            return None
        return replica

    def _open(self, topic: Topic, index: int, config: LogConfig) -> Partition:
        replica = Partition.open(
            topic=topic.name,
            topic_id=topic.id,
            index=index,
            state=topic.partitions[index],
            folder=self._folders.prepare(f"{topic.name}-{index}", topic.id),
            config=config,
            clean=self._stopped_cleanly,
            world=self._broker.world,
        )
        replica.on_proposal = self._isr_changes.propose
        return replica

    def _schedule_opening(self) -> None:
        if self._opening is None:
            self._opening = self._broker.clock.call_later_ms(0, self._open_more)

    def _open_more(self) -> None:
        self._opening, self._openings_left = None, OPENINGS_AT_ONCE_MAX
        chosen = list(itertools.islice(self._unopened, OPENINGS_AT_ONCE_MAX))
        for name, index in chosen:
            del self._unopened[name, index]
            # The topic may have been deleted since it was put off.
            topic = self._broker.state.topics.get(name)
            if topic is not None and index < len(topic.partitions):
                self._apply_partition(topic, index, topic.partitions[index], self._log_config(topic.config))
        if chosen:
            self._roles_changed()
        if self._unopened:
            self._schedule_opening()

    def open_failed(self) -> None:
        """Try again to open the replicas that could not be opened: a disk that was full may have room."""
        if self._failed:
            self._unopened.update(self._failed)
            self._failed.clear()
            self._schedule_opening()

    # --- roles

    def _give_role(self, replica: Partition, state: PartitionState) -> None:
        broker, key = self._broker, (replica.topic, replica.index)
        if state.leader != broker.id or not broker.is_member:
            self.led.pop(key, None)
            replica.follow(state)
            return
        self.led[key] = replica
        # A coordinator may read its partition only when all of it is on the in-sync replicas, see `Coordinators`.
        if replica.topic in INTERNAL_TOPICS:
            replica.on_settled = broker.reload_coordinators
        lag_ms_max = broker.settings.number("replica.lag.time.max.ms")
        replica.lead(state, broker.id, lag_ms_max=lag_ms_max, eligible=self._may_be_insync)

    def _may_be_insync(self, broker_id: int, broker_epoch: int) -> bool:
        registration = self._broker.state.brokers.get(broker_id)
        # A broker of another epoch has restarted since it was heard of, and may have lost what it had.
        return registration is not None and not registration.fenced and registration.broker_epoch == broker_epoch

    def _roles_changed(self) -> None:
        # After all roles are given: followers must ask their new leaders, and coordinators need their partitions.
        self._fetch_loops.follow(self._followed())
        self._broker.reload_coordinators()

    def _followed(self) -> list[Partition]:
        """The replicas here whose leader is another broker."""
        if not self._broker.is_member:
            return []
        return [one for one in self.stored.values() if one.leadership is None and one.state.leader != OFFLINE]

    def _watch_lag(self) -> None:
        """From time to time, look for followers that lag."""
        interval_ms = min(LAG_CHECK_MS_MAX, self._broker.settings.number("replica.lag.time.max.ms") / 2)
        self._lag_timer = self._broker.clock.call_later_ms(interval_ms, self._watch_lag)
        for partition in self.led.values():
            partition.expire_followers()

"""The controller: decides about topics, partitions and settings, and keeps every decision in the metadata log.

`plan_…` functions are pure: they look at the state and return records, or refuse with a Kafka error code. `commit`
writes the records to the log before anybody sees their effect. Who leads is decided in `elections`.

Keeps: B4 the state is a function of the metadata log; B5 a change is durable before it is visible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Self
from uuid import UUID

from semel.broker.metadata.cluster_state import (
    INTERNAL_TOPICS,
    BrokerConfigSet,
    ClusterState,
    MetadataRecord,
    PartitionState,
    ProducerIdsTaken,
    Topic,
    TopicRemoved,
    TopicSet,
    apply_records,
)
from semel.broker.metadata.config import DYNAMIC_BROKER_KEYS, TOPIC_KEYS, check_broker_config, check_topic_config
from semel.broker.metadata.store import MetadataStore
from semel.broker.runtime.refused import Refused
from semel.errors import ConfigError
from semel.protocol.error_codes import ErrorCode
from semel.world.rng import Rng

# As in Apache Kafka: one write to the metadata log for a thousand
# producers. What a broker has left when it stops is never used.
PRODUCER_ID_BLOCK = 1000
# With "-" and five digits for the partition this is the 255 bytes that a file name may have.
TOPIC_NAME_CHARACTERS_MAX = 249
REPLICAS_MAX = 5_000  # of the whole cluster: each takes a folder, some files and a few KiB of memory
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Refuse a name that Kafka refuses."""
    if not name:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed")
    # The name becomes part of a folder's name, so it must not lead out of the broker's own folder.
    if name in (".", ".."):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: '{name}' is not allowed")
    if len(name) > TOPIC_NAME_CHARACTERS_MAX:
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic name is invalid: longer than {TOPIC_NAME_CHARACTERS_MAX} characters",
        )
    if not _TOPIC_NAME.fullmatch(name):
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic name is invalid: '{name}' has a character other than ASCII letters, digits, '.', '_' and '-'",
        )


def place_replicas(broker_ids: Sequence[int], partitions: int, factor: int, start: int) -> list[tuple[int, ...]]:
    """Spread partitions over brokers, the first replica of each being its preferred leader."""
    count = len(broker_ids)
    # Each partition begins one broker further, so that leaders are spread as well as replicas.
    return [tuple(broker_ids[(start + index + step) % count] for step in range(factor)) for index in range(partitions)]


@dataclass(slots=True)
class Planning:
    """What several topics that are planned together take up, beside what is there: names and replicas."""

    names: set[str]
    replicas: int

    @classmethod
    def beside(cls, state: ClusterState) -> Self:
        """Begin with what the cluster has."""
        partitions = (partition for topic in state.topics.values() for partition in topic.partitions)
        return cls(
            {_metric_name(name) for name in state.topics}, sum(len(partition.replicas) for partition in partitions)
        )

    def take_name(self, name: str) -> None:
        """Refuse a name that metrics could not tell from another topic's."""
        if _metric_name(name) in self.names:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with an existing topic.")
        self.names.add(_metric_name(name))

    def take_replicas(self, count: int) -> None:
        """Refuse more replicas than the cluster may have."""
        if self.replicas + count > REPLICAS_MAX:
            raise Refused(
                ErrorCode.POLICY_VIOLATION,
                f"{count} more replicas of partitions would make {self.replicas + count}; this cluster takes "
                f"{REPLICAS_MAX}. Delete topics, or ask for fewer partitions or a smaller replication factor.",
            )
        self.replicas += count


def _metric_name(name: str) -> str:
    # Kafka's metrics write a dot as an underscore, so `a.b` and `a_b` would be one.
    return name.replace(".", "_")


def _check_count(partitions: int) -> None:
    """Refuse a number of partitions that can only be a mistake, before anything is computed for each of them."""
    if partitions > REPLICAS_MAX:
        raise Refused(ErrorCode.POLICY_VIOLATION, f"{partitions} partitions are more than {REPLICAS_MAX}.")


class Controller:
    """The one place where cluster metadata changes."""

    def __init__(
        self,
        store: MetadataStore,
        broker_ids: Sequence[int],
        rng: Rng,
        publish: Callable[[ClusterState], None],
    ) -> None:
        """Claim the metadata log and rebuild the state from it; `publish` gets every new state."""
        self._store = store
        self._broker_ids = tuple(broker_ids)
        self._rng = rng
        self._publish = publish
        # The claim first: what an older controller may still have written then stands before everything that is read.
        self.epoch = store.claim()
        self.state = store.read()
        publish(self.state)

    def commit(self, records: Sequence[MetadataRecord]) -> None:
        """Write records to the log, then let everybody see what they change."""
        if not records:
            return
        # Raises before anything has changed here: for an older controller, or if the log cannot be written.
        self._store.append(self.epoch, records)
        self.state = apply_records(self.state, records)
        self._publish(self.state)

    def plan_topic(
        self,
        name: str,
        *,
        partitions: int,
        replication_factor: int,
        config: Mapping[str, str],
        assignments: Mapping[int, Sequence[int]] | None = None,
        planning: Planning | None = None,
    ) -> TopicSet:
        """Plan a new topic, or refuse it; those that are planned together share one `planning`."""
        check_topic_name(name)
        # Before the check of similar names, which would give another error for the same name.
        if name in self.state.topics:
            raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        planning = planning or Planning.beside(self.state)
        try:
            check_topic_config(config)
        except ConfigError as error:
            raise Refused(ErrorCode.INVALID_CONFIG, error.summary) from None
        placed = self._placed(partitions, replication_factor, assignments)
        new = tuple(map(self._new_partition, placed))
        planning.take_name(name)
        if name not in INTERNAL_TOPICS:  # groups and transactions work whatever clients have filled up
            planning.take_replicas(sum(map(len, placed)))
        return TopicSet(
            topic=Topic(name=name, id=self._rng.uuid(), partitions=new, config=MappingProxyType(dict(config)))
        )

    def _placed(
        self, partitions: int, factor: int, assignments: Mapping[int, Sequence[int]] | None
    ) -> list[tuple[int, ...]]:
        if assignments:
            return self._checked_assignments(assignments, first=0)
        if partitions < 1:
            raise Refused(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
        _check_count(partitions)
        if factor < 1:
            raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
        # All brokers count, also those that are dead now: they are expected back, and the others begin without them.
        if factor > len(self._broker_ids):
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {factor} time(s): "
                f"The target replication factor of {factor} cannot be reached because "
                f"only {len(self._broker_ids)} broker(s) are registered.",
            )
        # A random start, else the first broker would lead partition 0 of every topic.
        usable = self._usable(factor)
        return place_replicas(usable, partitions, factor, self._rng.integer(0, len(usable) - 1))

    def _usable(self, factor: int) -> list[int]:
        """Where new replicas go: to brokers that are alive, and to others only when there are too few of them."""
        alive = [broker_id for broker_id in self._broker_ids if self.state.is_alive(broker_id)]
        return alive if len(alive) >= factor else list(self._broker_ids)

    def _new_partition(self, replicas: tuple[int, ...]) -> PartitionState:
        """All replicas are empty, so all that are alive are in sync."""
        alive = tuple(replica for replica in replicas if self.state.is_alive(replica))
        if not alive:
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"none of the brokers {list(replicas)} is alive")
        # A broker that is not alive joins the in-sync replicas when it comes back and has caught up.
        return PartitionState(leader=alive[0], leader_epoch=0, replicas=replicas, isr=alive)

    def _checked_assignments(self, assignments: Mapping[int, Sequence[int]], first: int) -> list[tuple[int, ...]]:
        if sorted(assignments) != list(range(first, first + len(assignments))):
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
            )
        placed = [tuple(assignments[index]) for index in sorted(assignments)]
        for replicas in placed:
            if not replicas or len(set(replicas)) != len(replicas) or set(replicas) - set(self._broker_ids):
                raise Refused(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"replicas {list(replicas)} are empty, doubled or unknown"
                )
        return placed

    def plan_more_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        planning: Planning | None = None,
    ) -> TopicSet:
        """Plan to grow a topic to `count` partitions; those that are planned together share one `planning`."""
        topic = self.state.topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        have = len(topic.partitions)
        if topic.is_internal:
            raise Refused(
                ErrorCode.INVALID_PARTITIONS,
                f"The internal topic {name} cannot grow: its keys would no longer be found where they were written.",
            )
        if count <= have:
            raise Refused(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {name} currently has {have} partition(s); {count} would not be an increase.",
            )
        added = self._added_replicas(topic, count - have, assignments)
        partitions = topic.partitions + tuple(map(self._new_partition, added))
        (planning or Planning.beside(self.state)).take_replicas(sum(map(len, added)))
        return TopicSet(topic=replace(topic, partitions=partitions))

    def _added_replicas(
        self, topic: Topic, more: int, assignments: Sequence[Sequence[int]] | None
    ) -> list[tuple[int, ...]]:
        have = len(topic.partitions)
        if assignments is not None:
            if len(assignments) != more:
                raise Refused(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"{more} partition(s) are to be added, but {len(assignments)} assignment(s) were given",
                )
            return self._checked_assignments(dict(enumerate(assignments, have)), first=have)
        _check_count(have + more)
        factor = len(topic.partitions[0].replicas)
        # Goes on behind the last partition, so that the new ones do not all go to the same brokers.
        usable, last = self._usable(factor), topic.partitions[-1].replicas[0]
        start = usable.index(last) + 1 if last in usable else 0
        return place_replicas(usable, more, factor, start)

    def plan_removal(self, name: str, topic_id: UUID | None = None) -> TopicRemoved:
        """Plan to delete a topic; with an id, only if the name still stands for that topic."""
        topic = self.state.topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        if topic_id is not None and topic.id != topic_id:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        return TopicRemoved(name=name)

    def plan_topic_config(self, name: str, config: Mapping[str, str]) -> TopicSet:
        """Plan to replace a topic's own settings."""
        topic = self.state.topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        unknown = sorted(set(config) - set(TOPIC_KEYS))
        if unknown:
            raise Refused(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {unknown[0]}")
        try:
            check_topic_config(config)
        except ConfigError as error:
            raise Refused(ErrorCode.INVALID_CONFIG, error.summary) from None
        return TopicSet(topic=replace(topic, config=MappingProxyType(dict(config))))

    def plan_broker_config(self, broker: str, changes: Mapping[str, str | None]) -> BrokerConfigSet:
        """Plan to change dynamic broker settings; broker "" is the default of all, None removes a key."""
        fixed = sorted(set(changes) - DYNAMIC_BROKER_KEYS)
        if fixed:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: {', '.join(fixed)}")
        try:
            check_broker_config({name: value for name, value in changes.items() if value is not None})
        except ConfigError as error:
            raise Refused(ErrorCode.INVALID_REQUEST, error.summary) from None
        return BrokerConfigSet(broker=broker, changes=MappingProxyType(dict(changes)))

    def take_producer_ids(self) -> range:
        """Hand out a block of producer ids that nobody gets again, also after a restart."""
        first = self.state.producer_id_next
        # A block, since every commit is a write to the metadata log. What a broker has not used of it when it dies is
        # never used.
        self.commit([ProducerIdsTaken(id_next=first + PRODUCER_ID_BLOCK)])
        return range(first, first + PRODUCER_ID_BLOCK)

"""What the controller knows: brokers, topics, partitions, settings. Immutable; every change is a record applied to it.

Keeps: B4 the state is a function of the metadata log: applying its records from the start gives it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import groupby
from types import MappingProxyType
from uuid import UUID

from semel.broker.metadata.acls import Acl

# Nobody leads: as Metadata tells clients.
OFFLINE = -1
# Topic and partition. Not the `TopicPartition` of clients: a plain tuple costs less where one is made for each
# partition of each request.
PartitionKey = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Where one broker can be reached."""

    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """Who leads a partition and who copies it.

    `partition_epoch` counts every change, `leader_epoch` every election. While a reassignment is under way `replicas`
    holds the old and the new ones, `adding` and `removing` say which is which.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0
    # Only while a reassignment is under way; both are empty otherwise.
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One life of one broker; a fenced one leads nothing and is not shown to clients."""

    node: Node
    # Rises with every registration, so that news of an earlier life of the broker is recognised.
    broker_epoch: int
    fenced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One topic with its partitions in order."""

    name: str
    id: UUID
    partitions: tuple[PartitionState, ...]
    config: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def is_internal(self) -> bool:
        """Whether the broker itself owns it."""
        return self.name in INTERNAL_TOPICS


GROUP_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({GROUP_TOPIC, TRANSACTION_TOPIC})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterId:
    """The cluster was formatted with this id."""

    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerClaimed:
    """Another controller has taken over; nothing of an older one is written after this."""

    controller_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistered:
    """A broker has started; its broker epoch is its place in the metadata log."""

    node: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFenced:
    """A broker is fenced because it sends no heartbeats, or is no longer fenced."""

    broker_id: int
    fenced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSet:
    """A topic was created, grew, or got other settings."""

    topic: Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsChanged:
    """Leaders, in-sync replicas or replicas of some partitions of a topic changed."""

    topic: str
    partitions: Mapping[int, PartitionState]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRemoved:
    """A topic was deleted."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigSet:
    """Dynamic broker settings; broker "" holds the cluster-wide default. None removes a key."""

    broker: str
    changes: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsTaken:
    """Producer ids below this were handed out."""

    id_next: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialSet:
    """A SCRAM credential: salted keys, never the password. An iteration count of 0 removes it."""

    user: str
    mechanism: str
    iterations: int
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class AclAdded:
    """An entry of the access control lists was made."""

    acl: Acl


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRemoved:
    """An entry of the access control lists was deleted."""

    acl: Acl


MetadataRecord = (
    ClusterId
    | ControllerClaimed
    | BrokerRegistered
    | BrokerFenced
    | TopicSet
    | PartitionsChanged
    | TopicRemoved
    | BrokerConfigSet
    | ProducerIdsTaken
    | CredentialSet
    | AclAdded
    | AclRemoved
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The whole of it at one moment; `version` counts the records applied."""

    # How brokers and the publisher know which of two states is newer.
    version: int = 0
    cluster_id: str = ""
    controller_epoch: int = 0
    # Mappings are never changed in place: a change makes a new one, so identity tells readers what is untouched.
    brokers: Mapping[int, Registration] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    producer_id_next: int = 0
    credentials: Mapping[tuple[str, str], CredentialSet] = field(default_factory=dict)
    acls: Mapping[Acl, None] = field(default_factory=dict)  # a set that keeps the order

    def topic_by_id(self, topic_id: UUID | None) -> Topic | None:
        """Find a topic by its id."""
        name = self.topic_names.get(topic_id) if topic_id else None
        return self.topics[name] if name is not None else None

    def is_alive(self, broker_id: int) -> bool:
        """Whether a broker is registered and not fenced."""
        registration = self.brokers.get(broker_id)
        return registration is not None and not registration.fenced

    @property
    def nodes(self) -> list[Node]:
        """The brokers that clients see."""
        return [one.node for one in self.brokers.values() if not one.fenced]

    @property
    def controller_id(self) -> int:
        """The broker that clients see as the controller: any that is alive takes what is meant for it."""
        return next((one.node.id for one in self.brokers.values() if not one.fenced), OFFLINE)


def apply_record(state: ClusterState, record: MetadataRecord) -> ClusterState:  # noqa: C901, PLR0911 - one case each
    """Return the state after one more record."""
    state = replace(state, version=state.version + 1)
    match record:
        case ClusterId(cluster_id=cluster_id):
            return replace(state, cluster_id=cluster_id)
        case ControllerClaimed(controller_epoch=controller_epoch):
            return replace(state, controller_epoch=controller_epoch)
        case BrokerRegistered(node=node):
            # The version never repeats, so no two lives of a broker have the same epoch, as with offsets in KRaft.
            registration = Registration(node=node, broker_epoch=state.version, fenced=False)
            return _with_broker(state, registration)
        case BrokerFenced(broker_id=broker_id, fenced=fenced):
            return _with_broker(state, replace(state.brokers[broker_id], fenced=fenced))
        case PartitionsChanged(topic=name, partitions=changed):
            return _with_partitions(state, state.topics[name], changed)
        case TopicSet(topic=topic):
            names = {**state.topic_names, topic.id: topic.name}
            return replace(state, topics={**state.topics, topic.name: topic}, topic_names=names)
        case TopicRemoved(name=name):
            topics = {other: topic for other, topic in state.topics.items() if other != name}
            # Names are looked up by id in every fetch, so the table is kept with the state.
            return replace(state, topics=topics, topic_names={topic.id: topic.name for topic in topics.values()})
        case BrokerConfigSet(broker=broker, changes=changes):
            merged = {**state.broker_configs.get(broker, {}), **changes}
            kept = {key: value for key, value in merged.items() if value is not None}
            return replace(state, broker_configs={**state.broker_configs, broker: kept})
        case ProducerIdsTaken(id_next=id_next):
            return replace(state, producer_id_next=id_next)
        # The record was counted above, and is counted again below.
        case CredentialSet():
            return replace(_apply_credentials(state, [record]), version=state.version)
        case AclAdded() | AclRemoved():
            return replace(_apply_acls(state, [record]), version=state.version)


def apply_records(state: ClusterState, records: Iterable[MetadataRecord]) -> ClusterState:
    """Return the state after these records. Runs of one kind are taken in at once: a copy for each is quadratic."""
    # Only neighbours are joined, so the order of different kinds stays.
    for kind, run in groupby(records, key=type):
        if kind is TopicSet:
            topics, names = dict(state.topics), dict(state.topic_names)
            new = [record.topic for record in run if isinstance(record, TopicSet)]
            topics.update((topic.name, topic) for topic in new)
            names.update((topic.id, topic.name) for topic in new)
            state = replace(state, version=state.version + len(new), topics=topics, topic_names=names)
        elif kind is CredentialSet:
            state = _apply_credentials(state, [record for record in run if isinstance(record, CredentialSet)])
        elif kind in (AclAdded, AclRemoved):
            state = _apply_acls(state, [record for record in run if isinstance(record, (AclAdded, AclRemoved))])
        else:
            state = reduce(apply_record, run, state)
    return state


def _apply_acls(state: ClusterState, records: Sequence[AclAdded | AclRemoved]) -> ClusterState:
    acls = dict(state.acls)
    for record in records:
        if isinstance(record, AclAdded):
            acls[record.acl] = None
        else:
            # Two requests may delete the same entry, each planned on a state that still had it.
            acls.pop(record.acl, None)
    return replace(state, version=state.version + len(records), acls=acls)


def _with_broker(state: ClusterState, registration: Registration) -> ClusterState:
    brokers = {**state.brokers, registration.node.id: registration}
    # By number, so that the order does not tell who registered first.
    return replace(state, brokers=dict(sorted(brokers.items())))


def _with_partitions(state: ClusterState, topic: Topic, changed: Mapping[int, PartitionState]) -> ClusterState:
    partitions = tuple(changed.get(index, partition) for index, partition in enumerate(topic.partitions))
    return replace(state, topics={**state.topics, topic.name: replace(topic, partitions=partitions)})


def _apply_credentials(state: ClusterState, records: Sequence[CredentialSet]) -> ClusterState:
    kept = dict(state.credentials)
    for record in records:
        kept.pop((record.user, record.mechanism), None)
        # Without iterations the record says that the credential was deleted.
        if record.iterations:
            kept[record.user, record.mechanism] = record
    return replace(state, version=state.version + len(records), credentials=kept)

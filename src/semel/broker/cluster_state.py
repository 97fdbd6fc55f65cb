"""What the controller knows: brokers, topics, partitions, settings. Immutable; every change is a record applied to it.

Keeps: B4 the state is a function of the metadata log: applying its records from the start gives it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from uuid import UUID

OFFLINE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Where one broker can be reached."""

    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """Who leads a partition and who copies it."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


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
class TopicSet:
    """A topic was created or its partitions, leaders or replicas changed."""

    topic: Topic


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


MetadataRecord = ClusterId | TopicSet | TopicRemoved | BrokerConfigSet | ProducerIdsTaken | CredentialSet


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The whole of it at one moment; `version` counts the records applied."""

    version: int = 0
    cluster_id: str = ""
    topics: Mapping[str, Topic] = field(default_factory=dict)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    producer_id_next: int = 0
    credentials: Mapping[tuple[str, str], CredentialSet] = field(default_factory=dict)

    def topic_by_id(self, topic_id: UUID | None) -> Topic | None:
        """Find a topic by its id."""
        name = self.topic_names.get(topic_id) if topic_id else None
        return self.topics[name] if name is not None else None


def apply_record(state: ClusterState, record: MetadataRecord) -> ClusterState:
    """Return the state after one more record."""
    state = replace(state, version=state.version + 1)
    match record:
        case ClusterId(cluster_id=cluster_id):
            return replace(state, cluster_id=cluster_id)
        case TopicSet(topic=topic):
            names = {**state.topic_names, topic.id: topic.name}
            return replace(state, topics={**state.topics, topic.name: topic}, topic_names=names)
        case TopicRemoved(name=name):
            topics = {other: topic for other, topic in state.topics.items() if other != name}
            return replace(state, topics=topics, topic_names={topic.id: topic.name for topic in topics.values()})
        case BrokerConfigSet(broker=broker, changes=changes):
            merged = {**state.broker_configs.get(broker, {}), **changes}
            kept = {key: value for key, value in merged.items() if value is not None}
            return replace(state, broker_configs={**state.broker_configs, broker: kept})
        case ProducerIdsTaken(id_next=id_next):
            return replace(state, producer_id_next=id_next)
        case CredentialSet():
            return _apply_credential(state, record)


def _apply_credential(state: ClusterState, record: CredentialSet) -> ClusterState:
    kept = {key: value for key, value in state.credentials.items() if key != (record.user, record.mechanism)}
    if record.iterations:
        kept[record.user, record.mechanism] = record
    return replace(state, credentials=kept)

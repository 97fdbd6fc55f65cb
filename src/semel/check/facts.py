"""What is known of a cluster, its clients and queries: plain values, and `Unknown` where nobody could look.

Keeps: a fact that could not be gathered is never taken for a good one: who asks for it gets FactMissing, and
       `judging.py` makes that the verdict UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from semel.clients.setting_names import ClientSettings
from semel.errors import ConfigError
from semel.guarantee import Guarantee
from semel.wire.admin import GroupInfo, OpenProducer, TransactionInfo
from semel.wire.topology import PartitionInfo, TopicPartition

T = TypeVar("T")

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that could not be gathered, and why."""

    why: str


class FactMissing(Exception):
    """A rule asked for a fact that nobody could gather."""


def known(fact: T | Unknown) -> T:
    """Give the fact, or raise FactMissing."""
    if isinstance(fact, Unknown):
        raise FactMissing(fact.why)
    return fact


def setting(settings: Mapping[str, str] | Unknown, name: str) -> str:
    """Give a setting as text; one that the cluster does not have is a missing fact."""
    values = known(settings)
    if name not in values:
        raise FactMissing(f"the cluster does not tell {name}")
    return values[name]


def number(settings: Mapping[str, str] | Unknown, name: str) -> int:
    """Give a setting as a whole number."""
    text = setting(settings, name)
    if not text.removeprefix("-").isdecimal():
        raise FactMissing(f"{name} is {text!r}, not a number")
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic. `partitions` is empty when it does not exist; `newest_ms` has the time of its newest record."""

    name: str
    partitions: tuple[PartitionInfo, ...] | Unknown
    settings: Mapping[str, str] | Unknown
    newest_ms: int | Unknown | None = None
    open_producers: Mapping[TopicPartition, tuple[OpenProducer, ...]] | Unknown = field(default_factory=dict)

    @property
    def exists(self) -> bool:
        """Whether there is such a topic."""
        return bool(known(self.partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a group stands in a partition.

    `offset_young` is the first offset of the younger half of what is kept by time, `bytes_behind` about how much of a
    topic that keeps `bytes_max` it has not read; each is None where the topic has no such limit.
    """

    offset_next: int
    log_start: int
    log_end: int
    offset_young: int | None = None
    bytes_behind: int | None = None
    bytes_max: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """A consumer group; `positions` has the partitions that it committed for."""

    name: str
    info: GroupInfo | Unknown
    positions: Mapping[TopicPartition, Position] | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """The settings of one client, and where they were found."""

    name: str
    settings: ClientSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFacts:
    """The options of one Spark query by lower-case name, and where they were found."""

    name: str
    options: Mapping[str, str]

    def text(self, name: str, default: str = "") -> str:
        """An option as text."""
        return self.options.get(name.lower(), default)

    def number(self, name: str) -> int | None:
        """An option as a whole number."""
        text = self.text(name)
        if text and not text.isdecimal():
            raise ConfigError(f"{self.name}: {name} is {text!r}", you_want=f"{name}=a whole number")
        return int(text) if text else None

    @property
    def source(self) -> str:
        """The format of the source."""
        return self.text("source.format", "kafka").lower()

    @property
    def sink(self) -> str:
        """The format of the sink."""
        return self.text("sink.format").lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that rules look at."""

    guarantee: Guarantee
    now_ms: int
    clients: tuple[ClientFacts, ...] = ()
    queries: tuple[QueryFacts, ...] = ()
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    internal: Mapping[str, TopicFacts] = field(default_factory=dict)
    brokers: Mapping[int, Mapping[str, str] | Unknown] = field(default_factory=dict)
    groups: Mapping[str, GroupFacts] = field(default_factory=dict)
    ledgers: Mapping[str, GroupFacts] = field(default_factory=dict)
    transactions: Mapping[str, TransactionInfo | Unknown | None] = field(default_factory=dict)
    starts: Mapping[str, Mapping[TopicPartition, int | None] | Unknown] = field(default_factory=dict)
    all_transactions: Mapping[str, int] | Unknown = field(default_factory=dict)

    def client(self, name: str) -> ClientFacts:
        """A client by where its settings were found."""
        return next(client for client in self.clients if client.name == name)

    def query(self, name: str) -> QueryFacts:
        """A query by where its options were found."""
        return next(query for query in self.queries if query.name == name)

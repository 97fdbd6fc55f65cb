"""What is known of a cluster, its clients and queries: plain values, and `Unknown` where nobody could look.

Keeps: a fact that could not be gathered is never taken for a good one: who asks for it gets FactMissing, and
       `judging.py` makes that the verdict UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from semel.clients.setting_names import ClientSettings
from semel.errors import ConfigError
from semel.guarantee import Guarantee
from semel.wire.admin import GroupInfo, ProducerInfo, TransactionInfo
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
    open_producers: Mapping[TopicPartition, tuple[ProducerInfo, ...]] | Unknown = field(default_factory=dict)

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
class FileLine:
    """Where in a file; lines count from 1."""

    file: str
    line: int


def _place_of(place: FileLine | None, lines: Mapping[str, int], names: Iterable[str]) -> FileLine | None:
    line = next((lines[name] for name in names if name in lines), None)
    return place if place is None or line is None else replace(place, line=line)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """The settings of one client, where they were found, and why they are taken for settings of their library."""

    name: str
    settings: ClientSettings
    place: FileLine | None = None
    lines: Mapping[str, int] = field(default_factory=dict)
    because: str = ""

    def place_of(self, settings: Iterable[str]) -> FileLine | None:
        """Where the first of these settings is written; where all of them begin, when none is."""
        return _place_of(self.place, self.lines, settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFacts:
    """The options of one Spark query by lower-case name, and where they were found.

    `unread` has the options whose value only the running program knows, with the reason.
    """

    name: str
    options: Mapping[str, str]
    unread: Mapping[str, str] = field(default_factory=dict)
    elsewhere: str = ""
    place: FileLine | None = None
    lines: Mapping[str, int] = field(default_factory=dict)

    def place_of(self, options: Iterable[str]) -> FileLine | None:
        """Where the first of these options is written; where all of them begin, when none is."""
        return _place_of(self.place, self.lines, (name.lower() for name in options))

    def text(self, name: str, default: str = "") -> str:
        """An option as text; FactMissing when the file does not tell."""
        key = name.lower()
        if key in self.unread:
            raise FactMissing(f"{name} is {self.unread[key]}")
        # Part of the options comes from elsewhere, and this one may be among them: its default must not be assumed.
        if self.elsewhere and key not in self.options:
            raise FactMissing(f"{name} may be set: {self.elsewhere}")
        return self.options.get(key, default)

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
    connect: str = "--bootstrap-server HOST:PORT"  # how a command of Apache Kafka reaches this cluster
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

    @property
    def has_one_broker(self) -> bool:
        """Whether the cluster consists of one broker: one is up, and no replica is anywhere else."""
        seen = set(self.brokers)
        for topic in (*self.topics.values(), *self.internal.values()):
            if isinstance(topic.partitions, Unknown):
                return False
            # A broker that is down is in no list of brokers, but replicas on it show that it belongs to the cluster.
            seen |= {broker for one in topic.partitions for broker in one.replicas}
        return len(seen) == 1

    def place_of(self, name: str, settings: Iterable[str]) -> FileLine | None:
        """Where a client or query of this name has these settings; None for what is in no file."""
        for client in self.clients:
            if client.name == name:
                return client.place_of(settings)
        for query in self.queries:
            if query.name == name:
                return query.place_of(settings)
        return None

    def client(self, name: str) -> ClientFacts:
        """A client by where its settings were found."""
        return next(client for client in self.clients if client.name == name)

    def query(self, name: str) -> QueryFacts:
        """A query by where its options were found."""
        return next(query for query in self.queries if query.name == name)

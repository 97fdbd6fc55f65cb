"""Everything that rules want to know of a live cluster, each fact asked for by itself.

Keeps: a question that is refused or not answered leaves that one fact unknown and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from semel.check.facts import (
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    FactMissing,
    Facts,
    GroupFacts,
    Position,
    TopicFacts,
    Unknown,
    number,
)
from semel.check.gathering.starts import open_at
from semel.errors import BrokerError, SemelError
from semel.guarantee import Guarantee
from semel.wire.admin import (
    GroupInfo,
    ResourceKind,
    TransactionInfo,
    describe_group,
    describe_transaction,
    is_missing,
    list_transactions,
    log_sizes,
    open_producers,
    settings_of,
)
from semel.wire.cluster import WireCluster
from semel.wire.deadline import Deadline
from semel.wire.offsets import EARLIEST, LATEST, NO_OFFSET, committed_offsets, list_offsets
from semel.wire.topology import Isolation, PartitionInfo, TopicPartition

T = TypeVar("T")
# For ListOffsets: the record with the largest timestamp, which need not be the last one (KIP-734).
NEWEST = -3
FACT_MS_MAX = 10_000
ALL_MS_MAX = 120_000


def attempt(question: Callable[[], T]) -> T | Unknown:
    """Give the fact, or why it is not known: a refusal and a lost connection are answers too."""
    try:
        return question()
    except SemelError as error:
        return Unknown(error.summary)
    except FactMissing as missing:
        return Unknown(str(missing))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to look at."""

    guarantee: Guarantee
    topics: Collection[str] = ()
    groups: Collection[str] = ()
    ledgers: Collection[str] = ()
    transactional_ids: Collection[str] = ()
    starts: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)


class ClusterFacts:
    """Asks one cluster."""

    def __init__(self, cluster: WireCluster, now_ms: int) -> None:
        """One fact may take `default.api.timeout.ms`, and ten seconds at most; all of them two minutes."""
        self._cluster = cluster
        self._now_ms = now_ms
        self._whole = Deadline.after_ms(ALL_MS_MAX)
        self._fact_ms_max = min(FACT_MS_MAX, cluster.settings.api_timeout_ms)

    def gather(self, wanted: Wanted) -> Facts:
        """Ask for everything; ConnectionFailure only when no broker at all can be reached."""
        broker_ids = self._cluster.broker_ids(self._deadline())
        topics = {name: self._topic(name) for name in dict.fromkeys(wanted.topics)}
        internal = {name: self._plain_topic(name) for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)}
        # Looking for a coordinator creates its topic. Where there is none, there is nothing to ask it about.
        group = self._group if internal[OFFSETS_TOPIC].partitions != () else _no_group
        transaction = self._transaction if internal[TRANSACTIONS_TOPIC].partitions != () else _no_transaction
        return Facts(
            guarantee=wanted.guarantee,
            now_ms=self._now_ms,
            topics=topics,
            internal=internal,
            brokers={each: self._settings(ResourceKind.BROKER, str(each)) for each in broker_ids},
            groups={name: group(name, topics) for name in dict.fromkeys(wanted.groups)},
            ledgers={name: group(name, topics) for name in dict.fromkeys(wanted.ledgers)},
            transactions={name: transaction(name) for name in dict.fromkeys(wanted.transactional_ids)},
            starts={name: self._starts(places) for name, places in wanted.starts.items()},
            all_transactions=self._ask(list_transactions),
        )

    def _starts(self, places: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None] | Unknown:
        return self._ask(lambda cluster, deadline: open_at(cluster, places, deadline))

    def _deadline(self) -> Deadline:
        # A share of the whole: one broker that does not answer must not use up the time for all other facts.
        return self._whole.within_ms(self._fact_ms_max)

    def _ask(self, question: Callable[[WireCluster, Deadline], T]) -> T | Unknown:
        return attempt(lambda: question(self._cluster, self._deadline()))

    def _settings(self, kind: ResourceKind, name: str) -> dict[str, str] | Unknown:
        return self._ask(lambda cluster, deadline: settings_of(cluster, kind, name, deadline))

    def _partitions(self, name: str) -> tuple[PartitionInfo, ...] | Unknown:
        def question(cluster: WireCluster, deadline: Deadline) -> tuple[PartitionInfo, ...]:
            found = cluster.topics(deadline, [name]).get(name)
            return tuple(found.partitions.values()) if found is not None else ()

        return self._ask(question)

    def _plain_topic(self, name: str) -> TopicFacts:
        partitions = self._partitions(name)
        # The settings of a topic that does not exist would be an error, and say nothing about it.
        settings = {} if partitions == () else self._settings(ResourceKind.TOPIC, name)
        return TopicFacts(name=name, partitions=partitions, settings=settings)

    def _topic(self, name: str) -> TopicFacts:
        plain = self._plain_topic(name)
        if isinstance(plain.partitions, Unknown):
            return replace(plain, newest_ms=plain.partitions, open_producers=plain.partitions)
        every = [TopicPartition(name, one.partition) for one in plain.partitions]
        return replace(
            plain,
            newest_ms=self._newest(every),
            open_producers=self._ask(lambda cluster, deadline: open_producers(cluster, every, deadline)),
        )

    def _newest(self, every: list[TopicPartition]) -> int | Unknown | None:
        def question(cluster: WireCluster, deadline: Deadline) -> int | None:
            listed = list_offsets(cluster, dict.fromkeys(every, NEWEST), deadline=deadline)
            times = [one.timestamp_ms for one in listed.values() if one.offset != NO_OFFSET]
            return max(times, default=None)

        return self._ask(question)

    def _transaction(self, name: str) -> TransactionInfo | Unknown | None:
        def question(cluster: WireCluster, deadline: Deadline) -> TransactionInfo | None:
            try:
                return describe_transaction(cluster, name, deadline)
            except BrokerError as error:
                if is_missing(error.code):
                    return None
                raise

        return self._ask(question)

    def _group(self, name: str, topics: dict[str, TopicFacts]) -> GroupFacts:
        info = self._ask(lambda cluster, deadline: describe_group(cluster, name, deadline))
        positions = self._ask(lambda cluster, deadline: self._positions(name, topics, cluster, deadline))
        return GroupFacts(name=name, info=info, positions=positions)

    def _positions(
        self, group: str, topics: dict[str, TopicFacts], cluster: WireCluster, deadline: Deadline
    ) -> dict[TopicPartition, Position]:
        # Not `require_stable`: a transaction that is under way may move it, but until then the group stands here.
        found = committed_offsets(cluster, group, deadline=deadline, require_stable=False)
        committed = {place: row.offset_next for place, row in found.items() if not topics or place.topic in topics}
        starts = list_offsets(cluster, dict.fromkeys(committed, EARLIEST), deadline=deadline)
        # The end of the log itself: retention deletes what an open transaction still hides, too.
        ends = list_offsets(
            cluster, dict.fromkeys(committed, LATEST), deadline=deadline, isolation=Isolation.READ_UNCOMMITTED
        )
        young = list_offsets(cluster, self._halves(committed, topics), deadline=deadline)
        limits = {
            place: size for place in committed if (size := _limit(topics.get(place.topic), "retention.bytes")) >= 0
        }
        sizes = log_sizes(cluster, limits, deadline) if limits else {}
        return {
            place: Position(
                offset_next=offset_next,
                log_start=starts[place].offset,
                log_end=ends[place].offset,
                offset_young=_or_end(young[place].offset, ends[place].offset) if place in young else None,
                bytes_behind=_behind(sizes.get(place), offset_next, starts[place].offset, ends[place].offset),
                bytes_max=limits.get(place, -1),
            )
            for place, offset_next in committed.items()
        }

    def _halves(self, places: Collection[TopicPartition], topics: dict[str, TopicFacts]) -> dict[TopicPartition, int]:
        """The moment half of a topic's retention ago, for those that delete by time."""
        halves = {}
        for place in places:
            kept_ms = _limit(topics.get(place.topic), "retention.ms")
            if kept_ms >= 0:
                # Half of it, so that there is time left to do something about it.
                halves[place] = max(0, self._now_ms - kept_ms // 2)
        return halves


def _limit(topic: TopicFacts | None, setting: str) -> int:
    """The number in a retention setting; -1 for no limit, and for a topic that was not asked about."""
    return -1 if topic is None else number(topic.settings, setting)


def _behind(size_bytes: int | None, offset_next: int, log_start: int, log_end: int) -> int | None:
    """About how many bytes are unread, as if all records were of one size."""
    if size_bytes is None or log_end <= log_start:
        return None
    return size_bytes * (log_end - max(offset_next, log_start)) // (log_end - log_start)


def _no_group(name: str, _: dict[str, TopicFacts]) -> GroupFacts:
    return GroupFacts(name=name, info=GroupInfo(state="Dead", members=0), positions={})


def _no_transaction(_: str) -> None:
    return None


def _or_end(offset: int, log_end: int) -> int:
    """The offset that was found; the end of the log where no record is as young as that."""
    return log_end if offset == NO_OFFSET else offset

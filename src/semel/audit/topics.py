"""Topics as sides of an audit: what the cluster says about them at one moment, and the rows between two offsets.

Why the ledger is read twice: the output may grow between a look at the ledger and a look at the output topics. Only if
the ledger is the same before and after, the two belong to one moment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, assert_never

from semel.audit.bounds import NO_PRODUCER, Asked, Bounds, PartitionEnds, TopicFacts, plan_bounds
from semel.audit.finding import Gap, Incomplete, Place
from semel.audit.ledgers import TableLedger, counted_of
from semel.audit.places import Edge, Topic
from semel.audit.sides import Side
from semel.errors import BrokerError, ConfigError, SemelError
from semel.guarantee import Guarantee
from semel.pipeline.facts import LedgerState, gather_facts
from semel.protocol.error_codes import ErrorCode
from semel.sinks.stamps import HEADERS_TYPE
from semel.wire.admin import ResourceKind, open_producers, settings_of
from semel.wire.offsets import EARLIEST, LATEST, NO_OFFSET, list_offsets
from semel.wire.topology import Isolation, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from semel.wire.cluster import WireCluster

    Located: TypeAlias = tuple[Topic, WireCluster]

# A pipeline that commits more often than both can be looked at is not to be followed for ever.
LEDGER_TRIES_MAX = 20
SCHEMA = "key binary, value binary, partition int, offset bigint, timestamp timestamp"
ASIDE = ("partition", "offset", "timestamp", "headers")


def bound_topics(
    left: Located | None,
    rights: Sequence[Located],
    pipeline: str = "",
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE,
) -> tuple[Bounds | None, list[Bounds]]:
    """Decide which offsets of all topics are read; with a pipeline, at a moment in which its ledger stood still."""
    if not pipeline:
        ours = plan_bounds(Place.LEFT, look_at(*left), _asked(*left)) if left is not None else None
        return ours, [plan_bounds(Place.RIGHT, look_at(*one), _asked(*one)) for one in rights]
    if left is None or not rights:
        raise ConfigError(
            "a ledger counts offsets of a source topic, and lives with the output",
            you_want="--pipeline with a topic on the left and, on the right, its output topics or its one table",
        )
    look_at(*left)  # of a topic that is not there, or not seen, the ledger would have no entries
    before = _read_ledger(pipeline, left, rights[0])
    for _ in range(LEDGER_TRIES_MAX):
        theirs = [
            plan_bounds(Place.RIGHT, look_at(*one, with_holders=True), _asked(*one, producer_id=_producer(before)))
            for one in rights
        ]
        after = _read_ledger(pipeline, left, rights[0])
        if after is not None and before == after:
            ours = plan_bounds(Place.LEFT, look_at(*left), _asked(*left, ledger=after.held))
            doubt = _doubt(pipeline, guarantee, is_owned=after.producer_id is not None)
            return _with_doubt(Place.LEFT, ours, doubt), [_with_doubt(Place.RIGHT, one, doubt) for one in theirs]
        before = after
    raise SemelError(
        f"the ledger of {pipeline!r} moved or was undecided each time that the output was looked at",
        because="the source can be judged only up to where the output goes",
        next_command=f"semel pipeline status {pipeline} --bootstrap {rights[0][0].bootstrap}",
    )


def bound_source(left: Located, ledger: TableLedger, pipeline: str, guarantee: Guarantee) -> tuple[Bounds, Bounds]:
    """Which offsets of a source are judged by a table, and what the ledger leaves open on either side."""
    topic, cluster = left
    facts = look_at(*left)
    held = counted_of(ledger.held, pipeline=pipeline, topic=topic.name, topic_id=_topic_id(topic, cluster))
    ours = plan_bounds(Place.LEFT, facts, _asked(*left, ledger=held))
    doubt = _doubt(pipeline, guarantee, is_owned=True)
    theirs = Bounds(ranges={}, incomplete=())
    return _with_doubt(Place.LEFT, ours, doubt), _with_doubt(Place.RIGHT, theirs, doubt)


def _doubt(pipeline: str, guarantee: Guarantee, *, is_owned: bool) -> Incomplete | None:
    """What a ledger does not say that moves before or behind the rows; exactly once moves both in one transaction."""
    match guarantee:
        case Guarantee.AT_MOST_ONCE:
            text = f"{pipeline} writes rows after its ledger: the last ones may still be under way"
            return Incomplete(side=Place.RIGHT, gap=Gap.LEDGER, text=text)
        case Guarantee.AT_LEAST_ONCE:
            text = f"{pipeline} writes rows before its ledger: some that it does not count may be there already"
        case Guarantee.EXACTLY_ONCE:
            if is_owned:
                return None
            text = (
                f"nobody has written in a transaction as {pipeline}: rows may be there that its ledger does not count"
            )
        case _:
            assert_never(guarantee)
    return Incomplete(side=Place.LEFT, gap=Gap.LEDGER, text=text)


def _with_doubt(side: Place, bounds: Bounds, doubt: Incomplete | None) -> Bounds:
    if doubt is None or doubt.side is not side:
        return bounds
    return replace(bounds, incomplete=(*bounds.incomplete, doubt))


def look_at(topic: Topic, cluster: WireCluster, *, with_holders: bool = False) -> TopicFacts:
    """Ask the cluster for the ends and the clean-up of a topic; ConfigError where there is no such topic."""
    info = cluster.topics(cluster.deadline(), [topic.name]).get(topic.name)
    if info is None:
        raise ConfigError(f"there is no topic {topic.name!r}", you_wrote=topic.text)
    places = [TopicPartition(topic.name, number) for number in info.partitions]
    first, stable, end = (
        list_offsets(cluster, dict.fromkeys(places, edge), deadline=cluster.deadline(), isolation=isolation)
        for edge, isolation in (
            (EARLIEST, Isolation.READ_COMMITTED),
            (LATEST, Isolation.READ_COMMITTED),
            (LATEST, Isolation.READ_UNCOMMITTED),
        )
    )
    # Asked only where something is open: every leader would have to answer otherwise.
    held = [one for one in places if with_holders and stable[one].offset < end[one].offset]
    producers = open_producers(cluster, held, cluster.deadline()) if held else {}
    holders = {
        place: one.producer_id
        for place, found in producers.items()
        for one in found
        if one.offset_first == stable[place].offset
    }
    return TopicFacts(
        name=topic.name,
        partitions={
            one.partition: PartitionEnds(
                offset_first=first[one].offset,
                # The answers are of different moments; a transaction may have ended in between.
                offset_stable=min(stable[one].offset, end[one].offset),
                offset_next=end[one].offset,
                held_by=holders.get(one, NO_PRODUCER),
            )
            for one in places
        },
        is_compacted=_is_compacted(topic, cluster),
    )


def _is_compacted(topic: Topic, cluster: WireCluster) -> bool | None:
    try:
        settings = settings_of(cluster, ResourceKind.TOPIC, topic.name, cluster.deadline())
    except BrokerError as error:
        # Who may read a topic need not be allowed to see its settings: then it is not known, which `bounds` says.
        if error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return None
        raise
    return "compact" in settings.get("cleanup.policy", "")


def topic_side(
    spark: SparkSession, topic: Topic, bounds: Bounds, connection: Mapping[str, str], *, with_headers: bool = False
) -> Side:
    """The records between the bounds, as rows."""
    schema = f"{SCHEMA}, headers {HEADERS_TYPE}" if with_headers else SCHEMA
    ranges = {number: ends for number, ends in bounds.ranges.items() if ends[0] < ends[1]}
    if ranges:
        frame = (
            spark.read.format("semel")
            .schema(schema)
            .options(**connection)
            .option("kafka.bootstrap.servers", topic.bootstrap)
            .option("kafka.isolation.level", topic.isolation)
            .option("assign", json.dumps({topic.name: sorted(ranges)}))
            .option("startingOffsets", json.dumps({topic.name: {str(one): ends[0] for one, ends in ranges.items()}}))
            .option("endingOffsets", json.dumps({topic.name: {str(one): ends[1] for one, ends in ranges.items()}}))
            .load()
        )
    else:
        frame = spark.createDataFrame([], schema)
    return Side(
        frame,
        name=topic.text,
        coordinate=f"concat('{topic.name}-', partition, '@', offset)",
        time="timestamp",
        lane=f"concat('{topic.name}-', partition)",
        aside=ASIDE,
        keeps_hashes=True,
        incomplete=bounds.incomplete,
    )


def _asked(
    topic: Topic,
    cluster: WireCluster,
    *,
    ledger: Mapping[int, tuple[int, int]] | None = None,
    producer_id: int | None = None,
) -> Asked:
    return Asked(
        begin=_offsets(topic, cluster, topic.begin),
        end=_offsets(topic, cluster, topic.end),
        ledger=ledger,
        is_committed_only=topic.isolation is Isolation.READ_COMMITTED,
        producer_id=producer_id,
    )


def _offsets(topic: Topic, cluster: WireCluster, edge: Edge | None) -> Mapping[int, int] | None:
    """The offsets of one end of a window, by partition; a time behind the last record is the end of the log."""
    if edge is None:
        return None
    info = cluster.topic(topic.name, cluster.deadline())
    if edge.time_ms is None:
        strangers = sorted(edge.offsets.keys() - info.partitions.keys())
        if strangers:
            raise ConfigError(f"{topic.name} has no partition {strangers[0]}", you_wrote=topic.text)
        return edge.offsets
    places = [TopicPartition(topic.name, number) for number in info.partitions]
    found = list_offsets(cluster, dict.fromkeys(places, edge.time_ms), deadline=cluster.deadline())
    # No record is as young as that, and a broker then answers with no offset.
    late = {one: LATEST for one in places if found[one].offset == NO_OFFSET}
    ends = (
        list_offsets(cluster, late, deadline=cluster.deadline(), isolation=Isolation.READ_UNCOMMITTED) if late else {}
    )
    return {one.partition: (ends if one in late else found)[one].offset for one in places}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ledger:
    """What the output holds of each partition of the source, and who writes it."""

    held: Mapping[int, tuple[int, int]]
    producer_id: int | None


def _producer(ledger: _Ledger | None) -> int | None:
    return ledger.producer_id if ledger is not None else None


def _read_ledger(pipeline: str, left: Located, home: Located) -> _Ledger | None:
    """Ask for a pipeline's ledger; None while a transaction changes it."""
    topic, cluster = left
    # What a lost marker left open (E21) is not asked: it ends what may be read of a partition, which `look_at` sees.
    facts = gather_facts(home[1], pipeline)
    if facts.ledger_state is LedgerState.UNDECIDED:
        return None
    return _Ledger(
        held=counted_of(
            facts.source_entries,
            pipeline=pipeline,
            topic=topic.name,
            topic_id=_topic_id(topic, cluster),
            next_command=f"semel pipeline status {pipeline} --bootstrap {home[0].bootstrap}",
        ),
        producer_id=facts.owner.producer_id if facts.owner is not None else None,
    )


def _topic_id(topic: Topic, cluster: WireCluster) -> str:
    return str(cluster.topic(topic.name, cluster.deadline()).topic_id or "")

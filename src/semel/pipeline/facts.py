"""What the cluster says about a pipeline: ledger, owner, source and output topics. Nothing is changed by asking."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from semel.errors import BrokerError, SemelError
from semel.protocol.error_codes import ErrorCode
from semel.sinks.kafka import settling
from semel.sinks.kafka.evidence import holds_records
from semel.sinks.kafka.ledger import read_ledger
from semel.sinks.kafka.ownership import check_has_no_members
from semel.sinks.ledger import Held, Ledger, is_same_topic
from semel.sinks.recovery import Evidence
from semel.wire.admin import TransactionInfo, describe_transaction, is_missing
from semel.wire.cluster import WireCluster
from semel.wire.group_offsets import CommittedOffset, committed_offsets
from semel.wire.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.topology import Isolation, TopicInfo, TopicPartition

# How long an entry that a transaction is changing is waited for, before it is called undecided.
DECIDED_MS_MAX = 2_000
# How often what is open is looked for while its owner changes.
LOOKS_MAX = 5
# How long leaders are asked what is open. A broker that died is noticed after 9 s (broker.session.timeout.ms), and its
# partitions get other leaders then; those without one for longer hardly get one while somebody waits.
UNSETTLED_MS_MAX = 15_000
ONGOING = "Ongoing"


class LedgerState(StrEnum):
    """What is known of the ledger."""

    NONE = "none"
    DECIDED = "decided"
    UNDECIDED = "undecided"  # a transaction that is not ended, or whose end a coordinator has not heard of, changes it


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFacts:
    """The cluster's side of a pipeline at one moment."""

    name: str
    ledger: Ledger
    ledger_state: LedgerState
    committed: Mapping[TopicPartition, CommittedOffset]
    """The ledger as the group keeps it."""
    owner: TransactionInfo | None
    """None when nobody ever wrote in a transaction under this name, or it was long ago."""
    unsettled: settling.Unsettled | None = None
    """What the owner's last transaction has open although it is decided (E21); None also if this user may not look."""
    not_looked: str = "nobody asked"
    """Why it is not known whether something is open like that: then `unsettled` says nothing; empty when it is."""
    bootstrap: str = ""
    """The addresses that were asked."""
    outputs: tuple[str, ...]
    """The output topics, from the ledger or as they were named; empty when neither says them."""
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    earliest: Mapping[TopicPartition, int] = field(default_factory=dict)
    latest: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The end of what a read_committed reader sees."""
    log_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    output_holds_records: bool | None = None
    """None when the output topics are not known."""

    @property
    def is_unknown(self) -> bool:
        """Whether the cluster has never heard of this name, or has forgotten it."""
        return self.ledger_state is LedgerState.NONE and self.owner is None

    @property
    def is_open(self) -> bool:
        """Whether a driver has a transaction open, which the next start aborts."""
        return self.owner is not None and self.owner.state == ONGOING

    @property
    def topic_ids(self) -> dict[str, str]:
        """Ids of the topics as they are now."""
        return {name: str(info.topic_id) for name, info in self.topics.items() if info.topic_id is not None}

    @property
    def evidence(self) -> Evidence:
        """What a decision needs beside the ledger."""
        return Evidence(
            topic_ids=self.topic_ids,
            earliest=self.earliest,
            output_holds_records=bool(self.output_holds_records),
        )

    @property
    def source_entries(self) -> dict[TopicPartition, Held]:
        """The entries that count offsets of source partitions; a source without Kafka offsets has none (E8)."""
        return dict(self.ledger.held)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Where the output ends, of the topics that exist now: what `startingOffsets="ledger"` finds."""
        ids = self.topic_ids
        return {
            place: held.offset_next
            for place, held in self.source_entries.items()
            if self.exists(place) and is_same_topic(held.topic_id, ids.get(place.topic, ""))
        }

    def exists(self, place: TopicPartition) -> bool:
        """Whether the cluster has this partition."""
        return place.topic in self.topics and place.partition in self.topics[place.topic].partitions

    def partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Every partition that these topics have now."""
        return [
            TopicPartition(name, number)
            for name in sorted(set(topics))
            if name in self.topics
            for number in sorted(self.topics[name].partitions)
        ]


def gather_facts(
    cluster: WireCluster,
    name: str,
    *,
    partitions: Collection[TopicPartition] = (),
    outputs: Collection[str] = (),
) -> PipelineFacts:
    """Ask for all but what is open; `partitions` are those that a checkpoint knows, `outputs` what the user named.

    What is open (E21) is asked by `with_unsettled`, by those who show it or judge by it: it needs leaders of partitions
    that have nothing else to do with the pipeline, and one that is missing would hide everything here.
    """
    # A group with members belongs to a consumer, and its offsets are no ledger (E9).
    check_has_no_members(cluster, name, cluster.deadline())
    committed, state = _read_committed(cluster, name, partitions)
    ledger = read_ledger(name, committed, bootstrap=cluster.settings.addresses)
    written = tuple(outputs) or (ledger.last.targets if ledger.last is not None else ())
    base = PipelineFacts(
        name=name,
        ledger=ledger,
        ledger_state=state,
        committed=committed,
        owner=owner_of(cluster, name),
        bootstrap=cluster.settings.addresses,
        outputs=written,
    )
    sources = {one.topic for one in partitions} | {one.topic for one in base.source_entries}
    # One question for all of them, so that their ids and partitions are of one moment.
    topics = cluster.topics(cluster.deadline(), sorted(sources | set(written)))
    places = [TopicPartition(topic, number) for topic, info in topics.items() for number in info.partitions]
    targets = [place for place in places if place.topic in written]
    return replace(
        base,
        topics=topics,
        earliest=_edges(cluster, places, EARLIEST),
        latest=_edges(cluster, places, LATEST),
        # With what is not decided: only a position behind these lies beyond the log.
        log_ends=_edges(cluster, places, LATEST, Isolation.READ_UNCOMMITTED),
        output_holds_records=holds_records(cluster, targets) if targets else None,
    )


def _read_committed(
    cluster: WireCluster, name: str, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, CommittedOffset], LedgerState]:
    """The ledger, and whether it is decided.

    Why by name too: asked for all, a coordinator says nothing of an entry whose first commit is undecided (E12).
    """
    try:
        found = committed_offsets(cluster, name, deadline=cluster.deadline(DECIDED_MS_MAX))
        missing = [one for one in partitions if one not in found]
        if missing:
            found |= committed_offsets(cluster, name, missing, deadline=cluster.deadline(DECIDED_MS_MAX))
    except BrokerError as error:
        if error.code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
            raise
        # An operator has to see what there is; that it may still change is said beside it.
        found = committed_offsets(cluster, name, deadline=cluster.deadline(), require_stable=False)
        return found, LedgerState.UNDECIDED
    return found, LedgerState.DECIDED if found else LedgerState.NONE


def owner_of(cluster: WireCluster, name: str) -> TransactionInfo | None:
    """Who has, or had, the pipeline's transactional id."""
    try:
        return describe_transaction(cluster, name, cluster.deadline())
    except BrokerError as error:
        # Coordinators forget a name that had no transaction for `transactional.id.expiration.ms`.
        if is_missing(error.code):
            return None
        raise


def with_unsettled(cluster: WireCluster, facts: PipelineFacts) -> PipelineFacts:
    """The same with what the owner's last transaction has open although it is decided, or why that is not known.

    No error: these facts are shown, and what else they say is needed most when a part of the cluster is down. Whoever
    writes looks for himself, and is refused if he cannot (`settling.take_over`).
    """
    owner = facts.owner
    try:
        for _ in range(LOOKS_MAX):
            if owner is None or owner.state == ONGOING:
                return replace(facts, owner=owner, not_looked="")
            found = _look(cluster, facts, owner)
            # A driver that runs begins a transaction of the next epoch at any time, and what is open then is its own.
            # It has ended before that whatever was open of the last one. And a coordinator that was still telling the
            # partitions of the end may have told them in between: then the leaders are asked again.
            before, owner = owner, owner if found is None else owner_of(cluster, facts.name)
            if owner == before:
                return replace(facts, owner=owner, unsettled=found, not_looked="")
    except SemelError as error:
        why = f"{error.summary}; {error.because}" if error.because else error.summary
        return replace(facts, not_looked=why)
    # It goes on while it is looked at, which nothing does whose markers are lost.
    return replace(facts, owner=owner, not_looked="")


def _look(cluster: WireCluster, facts: PipelineFacts, owner: TransactionInfo) -> settling.Unsettled | None:
    told = settling.ending_of(owner)
    deadline = cluster.deadline().within_ms(UNSETTLED_MS_MAX)
    reach = settling.reach_of(cluster, facts.name, deadline)
    if reach.targets is None:
        # As a start would, that has these topics in its sink. Without them every topic of the cluster is asked.
        reach = replace(reach, targets=facts.partitions_of(facts.outputs))
    return settling.look_everywhere(cluster, facts.name, owner.producer_id, reach, told=told, deadline=deadline)


def _edges(
    cluster: WireCluster,
    places: Collection[TopicPartition],
    edge: int,
    isolation: Isolation = Isolation.READ_COMMITTED,
) -> dict[TopicPartition, int]:
    if not places:
        return {}
    found = list_offsets(cluster, dict.fromkeys(places, edge), deadline=cluster.deadline(), isolation=isolation)
    return {one: listed.offset for one, listed in found.items()}

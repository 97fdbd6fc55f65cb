"""Take a pipeline over, and end what its last transaction left open although it was decided.

A transaction is decided by its coordinator, which then writes a marker to every partition of it. Apache Kafka 4.3.1 can
lose these markers: when its only node is killed between the answer to EndTxn and the markers, the coordinator that
starts again finds no leaders yet, leaves the partitions out, and calls the transaction complete. Its rows and its
ledger entries are then open for good: readers wait, and the next transaction of the same producer would end them with
its own marker, also rows that were aborted.

So a driver that takes over asks the leaders whether the producer still has something open. If it has, a transaction of
the new epoch takes these partitions in and ends them as the lost markers would have done.

Keeps: E21 rows of a decided transaction are ended as it was decided, before anything else is written.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count

from semel.errors import BrokerError, OutcomeUnknownError, UnsupportedVersionError
from semel.protocol.coordinator_partition import GROUP_TOPIC, TRANSACTION_TOPIC, coordinator_partition
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import Marker, decode_marker, iter_headers
from semel.sinks.commands import repair_command
from semel.sinks.kafka.ledger import read_ledger
from semel.sinks.kafka.runs import GROUP_MARKER
from semel.sinks.ledger import Entry
from semel.sinks.run_ids import QUERY_PREFIX
from semel.wire.admin import ProducerInfo, TransactionInfo, describe_transaction, is_missing, producers_of
from semel.wire.cluster import WireCluster
from semel.wire.deadline import Deadline
from semel.wire.fetch import fetch
from semel.wire.group_offsets import committed_offsets
from semel.wire.offsets import EARLIEST, LATEST, NO_OFFSET, list_offsets
from semel.wire.send_queue import ProducerIdentity
from semel.wire.topology import Isolation, TopicPartition
from semel.wire.transaction import TransactionClient

log = logging.getLogger(__name__)
# A whole partition may have to be read; longer than this nobody wants to wait for a start.
LOOK_MS_MAX = 10_000
FETCH_BYTES_MAX = 4 << 20
# What a coordinator calls a transaction, and what becomes of it: one that is open is aborted by the next owner.
OUTCOMES = {
    "PrepareCommit": True,
    "CompleteCommit": True,
    "Ongoing": False,
    "PrepareAbort": False,
    "CompleteAbort": False,
    "PrepareEpochFence": False,
}
_HIDDEN = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """What a decided transaction has left open, and how it ended; None when nothing tells."""

    producer_epoch: int
    # Where rows wait, and where ledger entries do, which are offsets of groups.
    rows: tuple[TopicPartition, ...]
    entries: tuple[TopicPartition, ...]
    outcome: bool | None
    why: str

    def __str__(self) -> str:
        return ", ".join(map(str, (*self.rows, *self.entries)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the transaction of an epoch ended, as its coordinator or its driver says."""

    producer_epoch: int
    is_commit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Where a pipeline may have something open."""

    # The partitions that it writes to. None: nobody can tell, so every topic is looked at, if there was a transaction.
    targets: Collection[TopicPartition] | None
    # Batch jobs have a group for each run, and nobody knows them all.
    has_runs: bool = False


def is_of_runs(last: Entry) -> bool:
    """Whether a batch job committed last; then its pipeline has no query, and the other way round (E19)."""
    return last.query_id.startswith(QUERY_PREFIX)


def take_over(
    cluster: WireCluster, transaction: TransactionClient, reach: Reach, deadline: Deadline, *, new_owner: bool = False
) -> ProducerIdentity:
    """Take the next producer epoch; gives it once nothing of an earlier transaction is open any more.

    Why a leader that does not answer is an error for every caller (a start, a source that knows its pipeline, a reset,
    a release): what it has open would be ended by the next transaction's own marker, however it was decided.
    """
    # Before `begin`, which changes what the coordinator says of the last transaction.
    told = last_ending(cluster, transaction, deadline)
    identity = transaction.begin(deadline, new_owner=new_owner)
    name = transaction.transactional_id
    found = find_unsettled(cluster, name, identity.producer_id, reach, told=told, deadline=deadline)
    if found is None:
        return identity
    settle(cluster, transaction, found, deadline)
    # One more epoch: rows of the next transaction must not share one with those that were just ended.
    return transaction.begin(deadline)


def output_partitions(cluster: WireCluster, pipeline: str, deadline: Deadline) -> list[TopicPartition] | None:
    """Every partition that a pipeline writes to, by its ledger; None when that does not say, or they are hidden."""
    last = _last_entry(cluster, pipeline, deadline)
    return None if last is None else _partitions_of(cluster, last.targets, deadline)


def reach_of(cluster: WireCluster, pipeline: str, deadline: Deadline) -> Reach:
    """Where a pipeline may have something open, by its ledger.

    Why an empty ledger counts as one with runs: it may be that of a batch job whose first commit is open. The ledger of
    a query proves that there are none, since jobs and queries do not share a pipeline (E19).
    """
    last = _last_entry(cluster, pipeline, deadline)
    if last is None:
        return Reach(targets=None, has_runs=True)
    return Reach(targets=_partitions_of(cluster, last.targets, deadline), has_runs=is_of_runs(last))


def _last_entry(cluster: WireCluster, pipeline: str, deadline: Deadline) -> Entry | None:
    # Entries that are not decided are enough: another commit of the same pipeline changes neither answer.
    committed = committed_offsets(cluster, pipeline, deadline=deadline, require_stable=False)
    return read_ledger(pipeline, committed, bootstrap=cluster.settings.addresses).last


def _partitions_of(cluster: WireCluster, names: Collection[str], deadline: Deadline) -> list[TopicPartition] | None:
    if not names:
        return None
    try:
        topics = cluster.topics(deadline, names)
    except BrokerError as error:
        if error.code not in _HIDDEN:
            raise
        return None
    return [TopicPartition(name, number) for name, info in topics.items() for number in info.partitions]


def look_everywhere(
    cluster: WireCluster, name: str, producer_id: int, reach: Reach, *, told: Ending | None, deadline: Deadline
) -> Unsettled | None:
    """What leaders still have open of the last transaction, in every topic if nobody knows the output."""
    if not reach.targets:
        reach = replace(reach, targets=all_partitions(cluster, deadline))
    return find_unsettled(cluster, name, producer_id, reach, told=told, deadline=deadline)


def settle(cluster: WireCluster, transaction: TransactionClient, found: Unsettled, deadline: Deadline) -> None:
    """End what is open as it was decided; OutcomeUnknownError where nothing proves how that was."""
    name = transaction.transactional_id
    if found.outcome is None:
        raise ending_unknown(name, found, cluster.settings.addresses)
    log.warning(
        "pipeline %s: its last transaction was %s (%s), but the coordinator never told %s; told now",
        name,
        "committed" if found.outcome else "aborted",
        found.why,
        found,
    )
    transaction.add_partitions(found.rows, deadline)
    for place in found.entries:
        transaction.add_group(_group_at(cluster, name, place, deadline), deadline)
    transaction.end(deadline, commit=found.outcome)


def ending_unknown(name: str, found: Unsettled, bootstrap: str) -> OutcomeUnknownError:
    """What a start is refused with where nothing proves how the last transaction ended."""
    return OutcomeUnknownError(
        f"pipeline {name!r}: its last transaction is open on {found}, and nothing tells how it ended",
        because=found.why,
        you_want="the outcome as the readers of its output need it: committed if they have seen some of its rows, "
        "aborted if its micro-batch is to be run again",
        next_command=repair_command(name, bootstrap),
    )


def find_unsettled(
    cluster: WireCluster,
    name: str,
    producer_id: int,
    reach: Reach,
    *,
    told: Ending | None,
    deadline: Deadline,
) -> Unsettled | None:
    """Ask the leaders; None when nothing is open, or when this client may not ask."""
    targets = reach.targets
    if targets is None:
        targets = all_partitions(cluster, deadline) if told is not None else ()
    homes = _homes(cluster, name, deadline, all_of_them=reach.has_runs)
    seen = _visible_producers(cluster, targets, homes, deadline)
    known = _mine(seen, producer_id)
    still = {place: one for place, one in known.items() if one.is_open}
    if not still:
        return None
    # Of several the newest: the last transaction is the one in question.
    epoch = max(one.producer_epoch for one in still.values())
    rows = {place for place in still if place.topic != GROUP_TOPIC}
    hidden = [place for place in homes if place not in seen]
    outcome: bool | None
    if told is not None and told.producer_epoch == epoch:
        outcome, why = told.is_commit, "its coordinator says so"
    else:
        outcome, why = _by_markers(cluster, producer_id, epoch, [*targets, *homes[: 0 if hidden else 1]], known)
        if hidden and outcome is False:
            outcome, why = None, f"no partition of the output has its marker, and {hidden[0]} may not be looked at"
    if reach.targets is None and not rows:
        outcome, why = None, "its ledger entries are open, and nobody knows its output here, or may look at it"
    return Unsettled(
        producer_epoch=epoch,
        # What may not be looked at is ended as well, rows and entries together: nothing is harmed by a second marker.
        rows=tuple(sorted(rows | {place for place in targets if reach.targets is not None and place not in seen})),
        entries=tuple(hidden[:1] if hidden else sorted(place for place in homes if place in still)),
        outcome=outcome,
        why=why,
    )


def _describe(cluster: WireCluster, transactional_id: str, deadline: Deadline) -> TransactionInfo | None:
    try:
        return describe_transaction(cluster, transactional_id, deadline)
    except UnsupportedVersionError:
        return None
    except BrokerError as error:
        if is_missing(error.code):
            return None
        raise


def ending_of(info: TransactionInfo | None) -> Ending | None:
    """What a coordinator's description says; None when it has begun nothing since it was taken over."""
    if info is None or info.state not in OUTCOMES:
        return None
    return Ending(producer_epoch=info.producer_epoch, is_commit=OUTCOMES[info.state])


def last_ending(cluster: WireCluster, transaction: TransactionClient, deadline: Deadline) -> Ending | None:
    """How the last transaction ended: its own as this client knows, an earlier driver's as the coordinator says."""
    if transaction.identity is not None and transaction.outcome is not None:
        return Ending(producer_epoch=transaction.identity.producer_epoch, is_commit=transaction.outcome)
    return ending_of(_describe(cluster, transaction.transactional_id, deadline))


def _group_count(cluster: WireCluster, deadline: Deadline) -> int:
    """How many partitions the groups' topic has; 0 before the first group, and for those who may not see it."""
    try:
        return len(cluster.topic(GROUP_TOPIC, deadline).partitions)
    except BrokerError as error:
        if not is_missing(error.code) and error.code not in _HIDDEN:
            raise
        return 0


def _homes(cluster: WireCluster, name: str, deadline: Deadline, *, all_of_them: bool) -> list[TopicPartition]:
    """Where the pipeline's ledger entries stand, its own group's first."""
    total = _group_count(cluster, deadline)
    if not total:
        return []
    home = coordinator_partition(name, total)
    others = [number for number in range(total) if number != home] if all_of_them else []
    return [TopicPartition(GROUP_TOPIC, number) for number in (home, *others)]


def _group_at(cluster: WireCluster, name: str, place: TopicPartition, deadline: Deadline) -> str:
    """Some group of the pipeline whose offsets stand in this partition; a marker there is for all groups."""
    total = _group_count(cluster, deadline)
    names = chain([name], (f"{name}{GROUP_MARKER}{number}" for number in count()))
    return next(group for group in names if coordinator_partition(group, total) == place.partition)


def all_partitions(cluster: WireCluster, deadline: Deadline) -> list[TopicPartition]:
    """Every partition that rows can be in."""
    topics = cluster.topics(deadline, None)
    return [
        TopicPartition(name, number)
        for name, info in topics.items()
        if name not in (GROUP_TOPIC, TRANSACTION_TOPIC)
        for number in info.partitions
    ]


def _visible_producers(
    cluster: WireCluster, targets: Collection[TopicPartition], homes: Collection[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, tuple[ProducerInfo, ...]]:
    """The producers of these partitions, without those that this client may not see or that brokers do not tell."""
    places = {*targets, *homes}
    if not places:
        return {}
    try:
        return producers_of(cluster, places, deadline)
    except UnsupportedVersionError:
        return {}
    except BrokerError as error:
        if error.code not in _HIDDEN:
            raise
        log.info("what earlier transactions left open is not looked for everywhere: %s", error.summary)
        return _visible_producers(cluster, targets, (), deadline) if homes else {}


def _mine(
    found: Mapping[TopicPartition, tuple[ProducerInfo, ...]], producer_id: int
) -> dict[TopicPartition, ProducerInfo]:
    return {place: one for place, known in found.items() for one in known if one.producer_id == producer_id}


def _by_markers(
    cluster: WireCluster,
    producer_id: int,
    epoch: int,
    targets: Iterable[TopicPartition],
    known: Mapping[TopicPartition, ProducerInfo],
) -> tuple[bool | None, str]:
    """How it ended, by a marker that did arrive. Where none did, no reader has seen a row of it: then it is aborted.

    A leader forgets producers after a day: then its whole partition is read, as far as there is time.
    """
    deadline = cluster.deadline(LOOK_MS_MAX)
    for place in targets:
        one = known.get(place)
        if one is not None and (one.is_open or one.producer_epoch < epoch):
            continue
        marker, is_whole = _find_marker(cluster, place, producer_id, epoch, since=one, deadline=deadline)
        if marker is not None:
            return marker is Marker.COMMIT, f"{place} has its marker"
        if not is_whole:
            return None, f"{place} could not be read to its end in {LOOK_MS_MAX} ms"
    return False, "no partition has a marker of it, so nobody has seen its rows or its ledger entries"


def _find_marker(
    cluster: WireCluster,
    place: TopicPartition,
    producer_id: int,
    epoch: int,
    *,
    since: ProducerInfo | None,
    deadline: Deadline,
) -> tuple[Marker | None, bool]:
    """Look for a marker; and whether the partition was read to its end."""

    def edge(time_ms: int) -> int:
        wanted = {place: time_ms}
        return list_offsets(cluster, wanted, deadline=deadline, isolation=Isolation.READ_UNCOMMITTED)[place].offset

    # From the time of its last record on: the marker cannot stand before it.
    at_time = NO_OFFSET if since is None else edge(since.last_timestamp_ms)
    offset, end = edge(EARLIEST) if at_time == NO_OFFSET else at_time, edge(LATEST)
    while offset < end:
        if deadline.expired:
            return None, False
        answer = fetch(
            cluster,
            {place: offset},
            deadline=deadline,
            isolation=Isolation.READ_UNCOMMITTED,
            partition_bytes_max=FETCH_BYTES_MAX,
        ).get(place)
        # No leader answered in time; the deadline ends the loop.
        if answer is None:
            continue
        for position, header in iter_headers(answer.records):
            offset = max(offset, header.offset_next)
            if header.is_control and (header.producer_id, header.producer_epoch) == (producer_id, epoch):
                return decode_marker(answer.records, header, position)[0], True
    return None, True

"""What the driver asks of the cluster: partitions, ends of logs, leader epochs, the ledger.

Keeps: a partition whose leader cannot be reached holds up no other partition of a running stream.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from semel.errors import BrokerError, ConnectionFailure
from semel.protocol.error_codes import ErrorCode
from semel.sinks.kafka.ledger import read_ledger
from semel.sinks.kafka.settling import Reach, output_partitions, take_over
from semel.sinks.ledger import is_same_topic
from semel.spark.options import SourceOptions
from semel.wire.cluster import WireCluster, shared_cluster
from semel.wire.offsets import (
    EARLIEST,
    LATEST,
    NO_OFFSET,
    EpochEnd,
    ListedOffset,
    committed_offsets,
    epoch_ends,
    list_offsets,
)
from semel.wire.topology import Isolation, TopicInfo, TopicPartition
from semel.wire.transaction import TransactionClient

_log = logging.getLogger(__name__)
# How long one leader may keep the others of a stream waiting.
# A healthy leader answers in milliseconds, but one that is being elected needs seconds.
LEADER_WAIT_MS_MAX = 5_000
SILENT_LEADER_WAIT_MS_MAX = 500
TAKE_OVER_TIMEOUT_MS = 60_000
# A driver that lives decides its transaction within moments.
UNDECIDED_MS_MAX = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The cluster at one moment; `latest` lacks the partitions whose leader gave no answer."""

    topics: Mapping[str, TopicInfo]
    partitions: tuple[TopicPartition, ...]
    latest: Mapping[TopicPartition, ListedOffset]
    silent: Mapping[TopicPartition, str]


class KafkaView:
    """Asks through connections that the whole process shares, so they stay open between questions.

    A leader that did not answer last time gets less time to answer now.
    """

    def __init__(self, options: SourceOptions, *, takes_over: bool = False) -> None:
        """Connect to nothing yet. `takes_over`: who reads a pipeline's ledger here is about to drive that pipeline."""
        self._options = options
        self._takes_over = takes_over
        self._silent_leaders: frozenset[int] = frozenset()

    @property
    def cluster(self) -> WireCluster:
        """The shared connections."""
        return shared_cluster(self._options.wire)

    def topics(self) -> dict[str, TopicInfo]:
        """Ask what exists of what is subscribed."""
        cluster = self.cluster
        return cluster.topics(cluster.deadline(), self._options.subscription.topics_asked)

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """First offset of each."""
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """End of each: the last stable offset under read_committed."""
        return self._offsets(dict.fromkeys(partitions, LATEST))

    def log_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """End of each whatever transactions are open."""
        return self._offsets(dict.fromkeys(partitions, LATEST), Isolation.READ_UNCOMMITTED)

    def at_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """First offset at or after a time; None when there is none."""
        found = self._offsets(times_ms)
        return {one: None if offset == NO_OFFSET else offset for one, offset in found.items()}

    def ledger(self, pipeline: str) -> dict[TopicPartition, int]:
        """Where the output of a pipeline ends, of the topics that exist now.

        Entries of a topic that was deleted do not count for the one that has its name today. Whoever plans from the
        ledger takes the pipeline over first: an older driver that goes on would move the ledger after it was read here,
        and one that died with an open transaction leaves it undecided until that times out.
        """
        if self._takes_over:
            self._take_over(pipeline)
        return self._held(pipeline)

    def ledger_of_running(self, pipeline: str) -> dict[TopicPartition, int]:
        """The same for a query that has begun: its own sink may own the pipeline already, and is not to be fenced.

        Between two micro-batches the sink has no transaction open. An entry that stays undecided is somebody else's.
        """
        try:
            return self._held(pipeline, UNDECIDED_MS_MAX)
        except BrokerError as error:
            if error.code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
                raise
        self._take_over(pipeline)
        return self._held(pipeline)

    def _take_over(self, pipeline: str) -> None:
        """What an earlier driver left open is ended, wherever it wrote: the ledger says where, if there is one."""
        cluster = self.cluster
        transaction = TransactionClient(cluster, pipeline, timeout_ms=TAKE_OVER_TIMEOUT_MS)
        # Where the pipeline's output is, as far as its ledger says: an open transaction can only be there.
        targets = output_partitions(cluster, pipeline, cluster.deadline())
        take_over(cluster, transaction, Reach(targets=targets), cluster.deadline())

    def _held(self, pipeline: str, wait_ms_max: float | None = None) -> dict[TopicPartition, int]:
        cluster = self.cluster
        # A short wait only while a query runs, see `ledger_of_running`.
        committed = committed_offsets(cluster, pipeline, deadline=cluster.deadline(wait_ms_max))
        held = read_ledger(pipeline, committed, bootstrap=cluster.settings.addresses).held
        ids = topic_ids(self.topics(), held)
        return {
            one: entry.offset_next
            for one, entry in held.items()
            if is_same_topic(entry.topic_id, ids.get(one.topic, ""))
        }

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        """Where leader epochs ended."""
        if not epochs:
            return {}
        cluster = self.cluster
        return epoch_ends(cluster, epochs, deadline=cluster.deadline())

    def _offsets(
        self, wanted: Mapping[TopicPartition, int], isolation: Isolation | None = None
    ) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        cluster = self.cluster
        chosen = isolation or self._options.isolation
        found = list_offsets(cluster, wanted, deadline=cluster.deadline(), isolation=chosen)
        return {one: listed.offset for one, listed in found.items()}

    def look(self) -> Seen:
        """Look at every partition; if a leader does not answer, only its own partitions are missing."""
        topics = self.topics()
        partitions = tuple(self._options.subscription.select(topics))
        latest: dict[TopicPartition, ListedOffset] = {}
        silent: dict[TopicPartition, str] = {}
        silent_leaders: set[int] = set()
        for leader, places in _by_leader(topics, partitions).items():
            try:
                latest |= self._latest_of(leader, places)
            # Also a leader that has moved: its partitions are looked at again in the next trigger.
            except (ConnectionFailure, BrokerError) as error:
                silent |= dict.fromkeys(places, error.summary)
                silent_leaders.add(leader)
        self._silent_leaders = frozenset(silent_leaders)
        return Seen(topics=topics, partitions=partitions, latest=latest, silent=silent)

    def _latest_of(self, leader: int, places: Collection[TopicPartition]) -> dict[TopicPartition, ListedOffset]:
        if leader < 0:
            raise ConnectionFailure("there is no leader")
        cluster = self.cluster
        wait_ms_max = SILENT_LEADER_WAIT_MS_MAX if leader in self._silent_leaders else LEADER_WAIT_MS_MAX
        deadline = cluster.deadline(min(wait_ms_max, self._options.wire.api_timeout_ms))
        wanted = dict.fromkeys(places, LATEST)
        return list_offsets(cluster, wanted, deadline=deadline, isolation=self._options.isolation)


def topic_ids(topics: Mapping[str, TopicInfo], partitions: Collection[TopicPartition]) -> dict[str, str]:
    """Give the ids of the topics of these partitions, as text; brokers before 2.8 know none."""
    named = sorted({one.topic for one in partitions})
    return {name: str(topics[name].topic_id) for name in named if name in topics and topics[name].topic_id is not None}


def _by_leader(
    topics: Mapping[str, TopicInfo], partitions: Collection[TopicPartition]
) -> dict[int, list[TopicPartition]]:
    grouped: dict[int, list[TopicPartition]] = {}
    for one in partitions:
        grouped.setdefault(topics[one.topic].partitions[one.partition].leader, []).append(one)
    return grouped

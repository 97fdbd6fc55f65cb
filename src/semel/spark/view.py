"""What the driver asks of the cluster: partitions, ends of logs, leader epochs, the ledger.

Keeps: a partition whose leader cannot be reached holds up no other partition of a running stream.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from semel.errors import BrokerError, ConnectionFailure
from semel.protocol.error_codes import ErrorCode
from semel.spark.options import SourceOptions
from semel.wire.cluster import WireCluster, shared_cluster
from semel.wire.offsets import (
    EARLIEST,
    LATEST,
    NO_OFFSET,
    CommittedOffset,
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
LEADER_WAIT_MS_MAX = 5_000
SILENT_LEADER_WAIT_MS_MAX = 500
# A driver that lives decides its transaction within moments.
UNDECIDED_MS_MAX = 3_000
TAKE_OVER_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The cluster at one moment; `latest` lacks the partitions whose leader gave no answer."""

    topics: Mapping[str, TopicInfo]
    partitions: tuple[TopicPartition, ...]
    latest: Mapping[TopicPartition, ListedOffset]
    silent: Mapping[TopicPartition, str]


class KafkaView:
    """Reads through this process's shared cluster, so that connections outlive a question.

    A leader that gave no answer last time is given less time now.
    """

    def __init__(self, options: SourceOptions) -> None:
        """Connect to nothing yet."""
        self._options = options
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

    def ledger(self, pipeline: str) -> dict[TopicPartition, CommittedOffset]:
        """What the exactly-once sink of a pipeline has committed.

        A driver that died with offsets in its transaction leaves the ledger undecided until that transaction times out.
        Whoever starts from the ledger takes the pipeline over, so what the last owner left open is ended here.
        """
        cluster = self.cluster
        try:
            return committed_offsets(cluster, pipeline, deadline=cluster.deadline(UNDECIDED_MS_MAX))
        except BrokerError as error:
            if error.code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
                raise
        TransactionClient(cluster, pipeline, timeout_ms=TAKE_OVER_TIMEOUT_MS).begin(cluster.deadline())
        return committed_offsets(cluster, pipeline, deadline=cluster.deadline())

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
        """See every partition; a leader that gives no answer costs its partitions their place, not the others."""
        topics = self.topics()
        partitions = tuple(self._options.subscription.select(topics))
        latest: dict[TopicPartition, ListedOffset] = {}
        silent: dict[TopicPartition, str] = {}
        silent_leaders: set[int] = set()
        for leader, places in _by_leader(topics, partitions).items():
            try:
                latest |= self._latest_of(leader, places)
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

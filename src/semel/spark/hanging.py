"""Watch for transactions that never end: the last stable offset stands still while the log grows.

Keeps: a read_committed stream that waits for an open transaction says so, once, with producer and offset.
Why:   such a stream looks idle. A transaction may be open for as long as its timeout, so a warning comes only after a
       while, and the extra questions are asked only then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from semel.errors import SemelError
from semel.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from semel.spark.options import SourceOptions
from semel.wire.cluster import WireCluster
from semel.wire.topology import Isolation, TopicPartition

_log = logging.getLogger(__name__)
# The default transaction timeout of Java's producer: before it nothing is wrong.
STANDS_STILL_MS = 60_000


class LogEnds(Protocol):
    """What the watch asks of the cluster."""

    @property
    def cluster(self) -> WireCluster:
        """Connections."""
        ...

    def log_ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Ends of logs whatever transactions are open."""
        ...


def _now_ms() -> float:
    return time.monotonic() * 1000


class HangingWatch:
    """Remembers for each partition since when its last stable offset has not moved."""

    def __init__(self, options: SourceOptions, view: LogEnds, now_ms: Callable[[], float] = _now_ms) -> None:
        """Know nothing yet."""
        self._active = options.isolation is Isolation.READ_COMMITTED
        self._bootstrap = options.wire.addresses
        self._view = view
        self._now_ms = now_ms
        self._since: dict[TopicPartition, tuple[int, float]] = {}
        self._told: dict[TopicPartition, int] = {}

    def look(self, stable: Mapping[TopicPartition, int]) -> None:
        """Compare with what was seen before; warn about transactions that hold a partition up."""
        if not self._active:
            return
        now = self._now_ms()
        for place, offset in stable.items():
            if place not in self._since or self._since[place][0] != offset:
                self._since[place] = (offset, now)
        still = [place for place, (_, since) in self._since.items() if now - since >= STANDS_STILL_MS]
        if still:
            self._ask(still, now)

    def _ask(self, still: list[TopicPartition], now: float) -> None:
        try:
            ends = self._view.log_ends(still)
        except SemelError as error:
            _log.debug("ends of logs are unknown: %s", error.summary)
            return
        for place in still:
            stable, _ = self._since[place]
            # Asked again after another minute, whatever comes out.
            self._since[place] = (stable, now)
            # Told once for each offset: the log would fill with the same line otherwise.
            if ends[place] > stable and self._told.get(place) != stable:
                self._told[place] = stable
                self._warn(place, stable, ends[place])

    def _warn(self, place: TopicPartition, stable: int, end: int) -> None:
        _log.warning(
            "%s: an open transaction%s holds read_committed readers at offset %d while the log ends at %d; "
            "abort it with: kafka-transactions.sh --bootstrap-server %s abort --topic %s --partition %d"
            " --start-offset %d",
            place,
            self._owner(place, stable),
            stable,
            end,
            self._bootstrap,
            place.topic,
            place.partition,
            stable,
        )

    def _owner(self, place: TopicPartition, stable: int) -> str:
        try:
            return self._find_owner(place, stable)
        except SemelError:
            return ""

    def _find_owner(self, place: TopicPartition, stable: int) -> str:
        cluster = self._view.cluster
        deadline = cluster.deadline(5_000)
        connection = cluster.connection(cluster.leader(place, deadline), deadline)
        request = DescribeProducersRequest(topics=[TopicRequest(name=place.topic, partition_indexes=[place.partition])])
        answer = connection.call(request, DescribeProducersResponse, deadline)
        for row in (row for topic in answer.topics for part in topic.partitions for row in part.active_producers):
            # The transaction whose first record is the last stable offset is the one that holds it.
            if row.current_txn_start_offset == stable:
                return f" of producer id {row.producer_id} (producer epoch {row.producer_epoch})"
        return ""

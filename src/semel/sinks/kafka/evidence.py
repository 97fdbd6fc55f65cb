"""What the cluster says beside the ledger, as far as a decision needs it: topic ids, first offsets, output records.

Why: a decision at every micro-batch must cost nothing, so a driver that has committed before asks nothing here. One
     that has just started asks for the source topics' ids, and for more only where the ledger has no entry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from semel.errors import SemelError
from semel.sinks.base import MicroBatch
from semel.sinks.ledger import Ledger, is_same_topic
from semel.sinks.recovery import Evidence
from semel.wire.cluster import WireCluster
from semel.wire.fetch import fetch
from semel.wire.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.topology import Isolation, TopicPartition

LOOK_MS_MAX = 10_000
FETCH_BYTES_MAX = 1 << 20


def topic_ids(cluster: WireCluster, topics: Iterable[str]) -> dict[str, str]:
    """Ids of topics as they are now; brokers before 2.8 know none."""
    found = cluster.topics(cluster.deadline(), sorted(set(topics)))
    return {name: str(info.topic_id) for name, info in found.items() if info.topic_id is not None}


def gather(
    cluster: WireCluster, ledger: Ledger, micro_batch: MicroBatch, targets: Collection[TopicPartition]
) -> Evidence:
    """Ask what a decision about this micro-batch needs."""
    # Of the output as well: an output topic that was created again holds nothing of what the ledger counts.
    ids = topic_ids(cluster, {one.topic for one in (*targets, *(micro_batch.offsets or {}))})
    if ledger.is_empty:
        return Evidence(topic_ids=ids, output_holds_records=holds_records(cluster, targets))
    unknown = [
        partition
        for partition in micro_batch.offsets or {}
        if _needs_earliest(ledger, micro_batch, partition, ids.get(partition.topic, ""))
    ]
    return Evidence(topic_ids=ids, earliest=_edges(cluster, unknown, EARLIEST))


def _needs_earliest(ledger: Ledger, micro_batch: MicroBatch, partition: TopicPartition, topic_id: str) -> bool:
    """Whether the ledger, or the checkpoint, says nothing about this partition of this topic."""
    held = ledger.held.get(partition)
    is_held = held is not None and is_same_topic(held.topic_id, topic_id)
    begins = micro_batch.offsets_before or {}
    return not is_held or partition not in begins


def _edges(cluster: WireCluster, partitions: Collection[TopicPartition], edge: int) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    wanted = dict.fromkeys(partitions, edge)
    found = list_offsets(cluster, wanted, deadline=cluster.deadline(), isolation=Isolation.READ_COMMITTED)
    return {one: listed.offset for one, listed in found.items()}


def holds_records(cluster: WireCluster, partitions: Collection[TopicPartition]) -> bool:
    """Whether a read_committed reader would find a record, or retention has removed some.

    What an aborted transaction left behind does not count. Where that cannot be found out in time, the answer is yes:
    then somebody is asked, and nothing is written twice.
    """
    first, end = _edges(cluster, partitions, EARLIEST), _edges(cluster, partitions, LATEST)
    # The log does not begin at 0: there were records, whether or not they are there now.
    if any(offset > 0 for offset in first.values()):
        return True
    try:
        return any(_has_record(cluster, one, end[one]) for one in partitions if end[one] > 0)
    except SemelError:
        return True


def _has_record(cluster: WireCluster, partition: TopicPartition, end: int) -> bool:
    from semel.protocol.columns import decode_columns  # noqa: PLC0415  (kernels: only who gets here needs them)

    deadline = cluster.deadline(LOOK_MS_MAX)
    offset = 0
    while offset < end:
        answer = fetch(cluster, {partition: offset}, deadline=deadline, partition_bytes_max=FETCH_BYTES_MAX)
        # Its leader has just moved or had nothing yet; the deadline of the whole look ends this.
        if partition not in answer:
            continue
        decoded = decode_columns(
            answer[partition].records,
            topic=partition.topic,
            partition=partition.partition,
            aborted=answer[partition].aborted,
            read_committed=True,
            offset_start=offset,
            offset_end=end,
        )
        # No time left to read everything: then yes, which asks somebody instead of writing twice.
        if decoded.rows.num_rows or deadline.expired:
            return True
        offset = decoded.offset_next
    return False

"""Who leads a partition, decided from the cluster's state alone: pure functions that return the records of a change.

Keeps: R4 a leader is an in-sync replica that is alive, unless unclean election is allowed and there is none;
       R5 the last in-sync replica never leaves the set: it alone is known to have everything that was acknowledged;
       R6 every election raises the leader epoch, so that what an older leader still does is recognised as old.
Why:   candidates are taken in assignment order, as in Apache Kafka; there are no eligible leader replicas (KIP-966).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from semel.broker.metadata.cluster_state import (
    OFFLINE,
    BrokerFenced,
    BrokerRegistered,
    ClusterState,
    MetadataRecord,
    Node,
    PartitionsChanged,
    PartitionState,
    Topic,
    apply_record,
)

MayBeUnclean = Callable[[Topic], bool]


def chained(state: ClusterState, *steps: Callable[[ClusterState], Iterable[MetadataRecord]]) -> list[MetadataRecord]:
    """The records of several steps, each planned on the state that the ones before it lead to."""
    records: list[MetadataRecord] = []
    for step in steps:
        planned = list(step(state))
        for record in planned:
            state = apply_record(state, record)
        records += planned
    return records


def elected(partition: PartitionState, alive: Callable[[int], bool], *, unclean: bool) -> PartitionState:
    """Give the partition a leader: the present one if it may stay, else the first that may lead, else none."""
    # In the order of the assignment: its first replica is the one that an operator wanted to lead.
    candidates = [replica for replica in partition.replicas if replica in partition.isr and alive(replica)]
    # No election without need: each one makes clients ask again where the leader is.
    if partition.leader in candidates:
        return partition
    if candidates:
        return led_by(partition, candidates[0])
    if unclean:
        survivors = [replica for replica in partition.replicas if alive(replica)]
        if survivors:  # whatever only the dead ones had is lost
            # The new leader's log is the truth from now on, so nobody else is in sync with it.
            return replace(led_by(partition, survivors[0]), isr=(survivors[0],))
    return partition if partition.leader == OFFLINE else led_by(partition, OFFLINE)


def led_by(partition: PartitionState, leader: int) -> PartitionState:
    """The same replicas under another leader."""
    return replace(partition, leader=leader, leader_epoch=partition.leader_epoch + 1)


def without(partition: PartitionState, broker_id: int) -> PartitionState:
    """The in-sync replicas without one of them, unless it is the last."""
    isr = tuple(replica for replica in partition.isr if replica != broker_id)
    # The last one stays although it is gone: it alone is known to have all that was acknowledged, and may lead again.
    return replace(partition, isr=isr) if isr else partition


def changes(state: ClusterState, change: Callable[[Topic, PartitionState], PartitionState]) -> list[MetadataRecord]:
    """One record for each topic in which the change has any effect; every effect counts as one partition epoch."""
    records: list[MetadataRecord] = []
    for topic in state.topics.values():
        partitions = {
            # Also where only the set of in-sync replicas changed: proposals made against the state before must fail.
            index: replace(changed, partition_epoch=partition.partition_epoch + 1)
            for index, partition in enumerate(topic.partitions)
            if (changed := change(topic, partition)) != partition
        }
        if partitions:
            records.append(PartitionsChanged(topic=topic.name, partitions=partitions))
    return records


def plan_fenced(state: ClusterState, broker_id: int, unclean: MayBeUnclean) -> list[MetadataRecord]:
    """A broker is gone: others lead what it led, and go on without it."""
    if not state.is_alive(broker_id):
        return []

    def change(topic: Topic, partition: PartitionState) -> PartitionState:
        # It was behind already, so nobody loses anything by its going.
        if broker_id not in partition.isr and partition.leader != broker_id:
            return partition
        smaller = without(partition, broker_id)
        return elected(smaller, lambda one: one != broker_id and state.is_alive(one), unclean=unclean(topic))

    return [BrokerFenced(broker_id=broker_id, fenced=True), *changes(state, change)]


def plan_offline(state: ClusterState, unclean: MayBeUnclean) -> list[MetadataRecord]:
    """Give a leader to every partition that has none and can have one."""

    def change(topic: Topic, partition: PartitionState) -> PartitionState:
        return elected(partition, state.is_alive, unclean=unclean(topic)) if partition.leader == OFFLINE else partition

    return changes(state, change)


def plan_unfenced(state: ClusterState, broker_id: int, unclean: MayBeUnclean) -> list[MetadataRecord]:
    """A broker is back: it may lead what nobody leads; it joins the in-sync replicas once it has caught up."""
    # Planned on the state after it: the broker itself may lead what nobody leads.
    back = BrokerFenced(broker_id=broker_id, fenced=False)
    return [back, *plan_offline(apply_record(state, back), unclean)]


def plan_registered(state: ClusterState, node: Node, unclean: MayBeUnclean) -> list[MetadataRecord]:
    """A broker has started: its previous life has ended, even if that was not noticed."""
    return chained(
        state,
        lambda now: plan_fenced(now, node.id, unclean),
        lambda _: [BrokerRegistered(node=node)],
        lambda now: plan_offline(now, unclean),
    )


def plan_cluster_started(state: ClusterState) -> list[MetadataRecord]:
    """All brokers are about to start: none is known to be alive, and every leader gets a new leader epoch.

    A leader that lost the end of its log in the crash would otherwise write other records under the same offsets and
    epoch, and no follower could tell.
    """
    # A crash of the whole process leaves them alive in the log. They register again when they start.
    fenced = [BrokerFenced(broker_id=one, fenced=True) for one in state.brokers if state.is_alive(one)]

    def change(_: Topic, partition: PartitionState) -> PartitionState:
        return partition if partition.leader == OFFLINE else led_by(partition, partition.leader)

    return [*fenced, *changes(state, change)]


def plan_leader(state: ClusterState, topic: Topic, index: int, broker_id: int) -> list[MetadataRecord]:
    """Make one in-sync replica the leader; empty when it may not lead, or does already."""
    partition = topic.partitions[index]
    if partition.leader == broker_id or broker_id not in partition.isr or not state.is_alive(broker_id):
        return []
    return [partition_changed(topic, index, led_by(partition, broker_id))]


def partition_changed(topic: Topic, index: int, partition: PartitionState) -> PartitionsChanged:
    """The record of one partition's change."""
    epoch = topic.partitions[index].partition_epoch + 1
    return PartitionsChanged(topic=topic.name, partitions={index: replace(partition, partition_epoch=epoch)})


def in_assignment_order(partition: PartitionState, isr: Sequence[int]) -> tuple[int, ...]:
    """In-sync replicas in the order in which they are assigned."""
    return tuple(replica for replica in partition.replicas if replica in isr)

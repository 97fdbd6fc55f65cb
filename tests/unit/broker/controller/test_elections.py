"""Who leads, decided from the cluster's state alone, and what a controller may write.

Keeps: R4 leaders are in sync and alive; R5 the last in-sync replica stays; R6 every election raises the leader epoch;
       R7 an older controller writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.broker.controller.controller import Controller
from semel.broker.controller.elections import (
    elected,
    plan_cluster_started,
    plan_fenced,
    plan_leader,
    plan_registered,
    plan_unfenced,
)
from semel.broker.controller.reassignment import cancelled, completed, is_under_way, started
from semel.broker.log.config import LogConfig
from semel.broker.log.partition_log import PartitionLog
from semel.broker.metadata.cluster_state import (
    OFFLINE,
    BrokerRegistered,
    ClusterId,
    ClusterState,
    MetadataRecord,
    Node,
    PartitionState,
    Topic,
    TopicSet,
    apply_record,
)
from semel.broker.metadata.store import MetadataStore
from semel.broker.runtime.refused import Refused
from semel.protocol.error_codes import ErrorCode
from semel.world.clock import RealClock
from semel.world.rng import SeededRng
from semel.world.virtual_disk import VirtualDisk

PLACE = PartitionState(leader=1, leader_epoch=4, replicas=(1, 2, 3), isr=(1, 2, 3))


def node(broker_id: int) -> Node:
    return Node(id=broker_id, host="host", port=9000 + broker_id)


def cluster(*places: PartitionState) -> ClusterState:
    state = ClusterState()
    for broker_id in (1, 2, 3):
        state = apply_record(state, BrokerRegistered(node=node(broker_id)))
    return apply_record(state, TopicSet(topic=Topic(name="orders", id=UUID(int=1), partitions=places)))


def after(state: ClusterState, records: Sequence[MetadataRecord]) -> ClusterState:
    for record in records:
        state = apply_record(state, record)
    return state


def fenced(state: ClusterState, *brokers: int, unclean: bool = False) -> ClusterState:
    for broker_id in brokers:
        state = after(state, plan_fenced(state, broker_id, lambda _: unclean))
    return state


def only(state: ClusterState) -> PartitionState:
    return state.topics["orders"].partitions[0]


def test_the_next_insync_replica_in_assignment_order_leads() -> None:
    place = only(fenced(cluster(PLACE), 1))
    assert (place.leader, place.leader_epoch, place.isr) == (2, 5, (2, 3))
    assert place.partition_epoch == PLACE.partition_epoch + 1


def test_a_dead_follower_leaves_the_set_and_the_leader_stays() -> None:
    place = only(fenced(cluster(PLACE), 3))
    assert (place.leader, place.leader_epoch, place.isr) == (1, 4, (1, 2))


def test_nobody_leads_when_only_lagging_replicas_are_left() -> None:
    place = only(fenced(cluster(replace(PLACE, isr=(1,))), 1))
    assert (place.leader, place.leader_epoch, place.isr) == (OFFLINE, 5, (1,))


def test_with_unclean_election_a_lagging_replica_leads_alone() -> None:
    place = only(fenced(cluster(replace(PLACE, isr=(1,))), 1, unclean=True))
    assert (place.leader, place.leader_epoch, place.isr) == (2, 5, (2,))


def test_the_last_insync_replica_leads_again_when_it_is_back() -> None:
    dead = fenced(cluster(PLACE), 1, 2, 3)
    assert only(dead).isr == (3,)
    assert only(dead).leader == OFFLINE
    lagging = after(dead, plan_unfenced(dead, 1, lambda _: False))
    assert only(lagging).leader == OFFLINE
    back = after(lagging, plan_unfenced(lagging, 3, lambda _: False))
    assert (only(back).leader, only(back).isr) == (3, (3,))
    assert only(back).leader_epoch > only(dead).leader_epoch


def test_a_new_life_of_a_broker_ends_the_old_one() -> None:
    state = cluster(PLACE)
    again = after(state, plan_registered(state, node(1), lambda _: False))
    assert again.brokers[1].broker_epoch > state.brokers[1].broker_epoch
    assert again.is_alive(1)
    assert (only(again).leader, only(again).isr) == (2, (2, 3)), "what the old life led, others lead"


def test_alone_a_new_life_leads_again_under_a_new_epoch() -> None:
    state = cluster(PartitionState(leader=1, leader_epoch=4, replicas=(1,), isr=(1,)))
    place = only(after(state, plan_registered(state, node(1), lambda _: False)))
    assert (place.leader, place.leader_epoch) == (1, 6)


def test_when_all_start_all_lead_on_under_new_epochs() -> None:
    state = cluster(PLACE, replace(PLACE, leader=OFFLINE, isr=(3,)))
    started = after(state, plan_cluster_started(state))
    first, second = started.topics["orders"].partitions
    assert (first.leader, first.leader_epoch, first.isr) == (1, 5, (1, 2, 3))
    assert (second.leader, second.leader_epoch) == (OFFLINE, 4)
    assert not started.nodes


def test_only_an_insync_replica_that_is_alive_can_be_made_leader() -> None:
    state = fenced(cluster(replace(PLACE, isr=(1, 2))), 3)
    topic = state.topics["orders"]
    assert plan_leader(state, topic, 0, 3) == []
    assert plan_leader(state, topic, 0, 1) == []
    assert only(after(state, plan_leader(state, topic, 0, 2))).leader == 2


@given(
    isr=st.sets(st.sampled_from([1, 2, 3]), min_size=1),
    alive=st.sets(st.sampled_from([1, 2, 3])),
    leader=st.sampled_from([OFFLINE, 1, 2, 3]),
    unclean=st.booleans(),
)
def test_no_draw_elects_somebody_who_may_not_lead(isr: set[int], alive: set[int], leader: int, unclean: bool) -> None:
    before = replace(PLACE, leader=leader, isr=tuple(sorted(isr)))
    place = elected(before, alive.__contains__, unclean=unclean)
    assert place.isr
    assert place.leader == OFFLINE or (place.leader in alive and place.leader in place.isr)
    assert (place.leader_epoch > before.leader_epoch) == (place.leader != before.leader)
    if not unclean:
        assert place.isr == before.isr
    if alive & isr or (unclean and alive):
        assert place.leader != OFFLINE


# --- reassignment


def always(_: int) -> bool:
    return True


def test_a_moved_partition_keeps_its_old_replicas_until_the_new_ones_are_in_sync() -> None:
    before = replace(PLACE, replicas=(1, 2), isr=(1, 2))
    moving = started(before, (2, 3), always)
    assert (moving.replicas, moving.adding, moving.removing) == ((2, 3, 1), (3,), (1,))
    assert (moving.leader, moving.isr) == (1, (1, 2))
    assert completed(moving, always) == moving
    done = completed(replace(moving, isr=(2, 3, 1)), always)
    assert (done.replicas, done.isr, done.leader) == ((2, 3), (2, 3), 2)
    assert done.leader_epoch == before.leader_epoch + 1
    assert not is_under_way(done)


def test_a_move_can_be_taken_back() -> None:
    before = replace(PLACE, replicas=(1, 2), isr=(1, 2))
    assert cancelled(started(before, (3,), always), always).replicas == (1, 2)
    turned = started(started(before, (3,), always), (1,), always)
    assert (turned.replicas, turned.isr, is_under_way(turned)) == ((1,), (1,), False)


def test_a_move_is_not_completed_without_replicas_in_sync() -> None:
    moving = started(replace(PLACE, replicas=(1,), isr=(1,)), (2,), always)
    assert completed(moving, always).replicas == (2, 1)
    orphan = replace(moving, isr=(2,), leader=2)
    assert cancelled(orphan, always) == orphan, "the old ones have fallen behind: there is no way back"


# --- the metadata log


def test_an_older_controller_can_write_nothing() -> None:
    folder = Path("/data/controller")
    disk = VirtualDisk(SeededRng(1))
    disk.make_dirs(folder)
    store = MetadataStore(PartitionLog.open(disk, folder, LogConfig(), now_ms=0, clean=False), RealClock())
    published: list[ClusterState] = []
    old = Controller(store, [1], SeededRng(1), published.append)
    old.commit([ClusterId(cluster_id="first")])
    new = Controller(store, [1], SeededRng(1), published.append)
    assert new.state.cluster_id == "first"
    count = len(published)
    with pytest.raises(Refused) as caught:
        old.commit([ClusterId(cluster_id="second")])
    assert caught.value.code == ErrorCode.NOT_CONTROLLER
    assert len(published) == count
    assert store.read() == new.state

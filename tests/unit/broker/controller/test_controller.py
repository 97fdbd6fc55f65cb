"""The controller: what it refuses, where it places replicas, and that its log alone is its memory (B3, B4, B5)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from semel.broker.controller.controller import Controller, check_topic_name, place_replicas
from semel.broker.controller.elections import partition_changed, plan_fenced, plan_registered
from semel.broker.log.config import FlushPolicy, LogConfig
from semel.broker.log.partition_log import PartitionLog
from semel.broker.metadata.cluster_state import (
    BrokerConfigSet,
    BrokerRegistered,
    ClusterId,
    ClusterState,
    CredentialSet,
    MetadataRecord,
    Node,
    PartitionState,
)
from semel.broker.metadata.records import decode_record, encode_record
from semel.broker.metadata.store import MetadataStore
from semel.broker.runtime.refused import Refused
from semel.errors import CorruptBatchError
from semel.protocol.error_codes import ErrorCode
from semel.world.clock import RealClock
from semel.world.rng import SeededRng
from semel.world.virtual_disk import VirtualDisk

FOLDER = Path("/data/controller")
NOW_MS = 1_700_000_000_000


class Stage:
    """A disk, and controllers that come and go on it."""

    def __init__(self) -> None:
        self.disk = VirtualDisk(SeededRng(1))
        self.disk.make_dirs(FOLDER)
        self.published: list[ClusterState] = []

    def controller(self, flush: FlushPolicy = FlushPolicy.EVERY) -> Controller:
        log = PartitionLog.open(self.disk, FOLDER, LogConfig(flush_policy=flush), now_ms=NOW_MS, clean=False)
        controller = Controller(MetadataStore(log, RealClock()), [1, 2, 3], SeededRng(2), self.published.append)
        if not controller.state.brokers:
            nodes = [Node(id=broker_id, host="host", port=9000 + broker_id) for broker_id in (1, 2, 3)]
            controller.commit([BrokerRegistered(node=node) for node in nodes])
        return controller


@pytest.fixture
def stage() -> Stage:
    return Stage()


def refusal(controller: Controller, name: str, **changes: object) -> ErrorCode:
    wanted: dict[str, object] = {"partitions": 1, "replication_factor": 1, "config": {}, **changes}
    with pytest.raises(Refused) as caught:
        controller.plan_topic(name, **wanted)  # type: ignore[arg-type]
    return ErrorCode(caught.value.code)


def test_an_id_that_is_gone_does_not_delete_the_topic_that_has_its_name_now(stage: Stage) -> None:
    controller = stage.controller()
    controller.commit([controller.plan_topic("orders", partitions=1, replication_factor=1, config={})])
    first = controller.state.topics["orders"].id
    controller.commit([controller.plan_removal("orders", first)])
    controller.commit([controller.plan_topic("orders", partitions=1, replication_factor=1, config={})])
    with pytest.raises(Refused) as caught:
        controller.plan_removal("orders", first)
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_ID
    assert "orders" in controller.state.topics


def test_the_log_gives_the_state_again(stage: Stage) -> None:
    first = stage.controller()
    first.commit([ClusterId(cluster_id="c")])
    first.commit([first.plan_topic("orders", partitions=6, replication_factor=3, config={"retention.ms": "5"})])
    first.commit([first.plan_topic("gone", partitions=1, replication_factor=1, config={})])
    first.commit([first.plan_more_partitions("orders", 8), first.plan_removal("gone")])
    first.commit([first.plan_topic_config("orders", {"cleanup.policy": "compact"})])
    first.commit([BrokerConfigSet(broker="", changes={"log.retention.ms": "7", "gone": None})])
    first.commit([CredentialSet(user="u", mechanism="SCRAM-SHA-256", iterations=4096, salt=b"s", stored_key=b"k")])
    first.commit(plan_fenced(first.state, 2, lambda _: False))
    moved = PartitionState(leader=1, leader_epoch=5, replicas=(1, 2), isr=(1,), adding=(2,), removing=(3,))
    first.commit([partition_changed(first.state.topics["orders"], 3, moved)])
    first.commit(plan_registered(first.state, Node(id=2, host="host", port=1, rack="r"), lambda _: False))
    again = stage.controller()
    assert again.epoch == first.epoch + 1
    taken_over = replace(first.state, version=first.state.version + 1, controller_epoch=again.epoch)
    assert again.state == taken_over
    assert len(again.state.topics["orders"].partitions) == 8
    assert again.state.topic_by_id(first.state.topics["orders"].id) == first.state.topics["orders"]


def test_what_was_published_survives_a_crash_of_the_machine(stage: Stage) -> None:
    first = stage.controller()
    first.commit([first.plan_topic("orders", partitions=1, replication_factor=1, config={})])
    stage.disk.crash(keep_unsynced=False)
    published = stage.published[-1]
    assert stage.controller().state.topics == published.topics


def test_without_syncing_a_crash_of_the_machine_may_take_it(stage: Stage) -> None:
    first = stage.controller(FlushPolicy.OS)
    first.commit([first.plan_topic("orders", partitions=1, replication_factor=1, config={})])
    stage.disk.crash(keep_unsynced=False)
    assert stage.controller().state.topics == {}


def test_a_change_that_cannot_be_written_is_not_seen(stage: Stage) -> None:
    controller = stage.controller()
    stage.published.clear()
    stage.disk.capacity_bytes = 0
    with pytest.raises(Exception, match="could not be written"):
        controller.commit([ClusterId(cluster_id="c")])
    assert stage.published == []
    assert controller.state.cluster_id == ""


def test_producer_ids_are_never_handed_out_twice(stage: Stage) -> None:
    first = stage.controller().take_producer_ids()
    second = stage.controller().take_producer_ids()
    assert len(first) == len(second) == 1000
    assert not set(first) & set(second)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "\u00e4", "x" * 250])
def test_names_that_kafka_refuses(name: str) -> None:
    with pytest.raises(Refused) as caught:
        check_topic_name(name)
    assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_topics_that_make_no_sense_are_refused(stage: Stage) -> None:
    controller = stage.controller()
    controller.commit([controller.plan_topic("a.b", partitions=1, replication_factor=1, config={})])
    assert refusal(controller, "a.b") is ErrorCode.TOPIC_ALREADY_EXISTS
    assert refusal(controller, "a_b") is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refusal(controller, "n", partitions=0) is ErrorCode.INVALID_PARTITIONS
    assert refusal(controller, "n", replication_factor=0) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert refusal(controller, "n", replication_factor=4) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert refusal(controller, "n", config={"retention.ms": "soon"}) is ErrorCode.INVALID_CONFIG
    assert refusal(controller, "n", config={"no.such": "1"}) is ErrorCode.INVALID_CONFIG
    assert refusal(controller, "n", assignments={0: [1, 1]}) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refusal(controller, "n", assignments={0: [9]}) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refusal(controller, "n", assignments={1: [1]}) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_replicas_are_spread_and_leaders_take_turns() -> None:
    placed = place_replicas([1, 2, 3], partitions=6, factor=2, start=1)
    assert placed == [(2, 3), (3, 1), (1, 2), (2, 3), (3, 1), (1, 2)]
    assert all(len(set(replicas)) == 2 for replicas in placed)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"name": 1}'])
def test_a_record_that_makes_no_sense_is_an_error(damage: bytes) -> None:
    record: MetadataRecord = ClusterId(cluster_id="c")
    key, value = encode_record(record)
    assert decode_record(key, value) == record
    with pytest.raises(CorruptBatchError):
        decode_record(b"topic", damage)
    with pytest.raises(CorruptBatchError):
        decode_record(b"unheard of", value)

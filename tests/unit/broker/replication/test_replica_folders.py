"""The folders of a broker's replicas: whose they are, what a start keeps, when deleted ones are gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import pytest

from semel.broker.log.config import FlushPolicy, LogConfig
from semel.broker.metadata.cluster_state import PartitionState
from semel.broker.replication.partition import Partition
from semel.broker.replication.replica_folders import REMOVALS_AT_ONCE_MAX, ReplicaFolders
from semel.world import SeededRng, VirtualNetwork, run_virtual, virtual_world
from semel.world.loop import VirtualLoop
from semel.world.world import VirtualWorld

ROOT = Path("/data/broker-1")
OLD, NEW = UUID(int=1), UUID(int=2)


def play(scene: Callable[[VirtualWorld], Awaitable[None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        rng = SeededRng(loop.seed)
        await scene(virtual_world("broker-1", loop=loop, network=VirtualNetwork(loop, rng.fork("network")), rng=rng))

    run_virtual(1, main)


def begin(world: VirtualWorld) -> ReplicaFolders:
    folders = ReplicaFolders(ROOT, world, broker_id=1, flush_policy=FlushPolicy.OS)
    folders.begin_life()
    return folders


def open_replica(world: VirtualWorld, folders: ReplicaFolders, index: int, topic_id: UUID = OLD) -> Partition:
    return Partition.open(
        topic="orders",
        topic_id=topic_id,
        index=index,
        state=PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0),
        folder=folders.prepare(f"orders-{index}", topic_id),
        config=LogConfig(),
        clean=False,
        world=world,
    )


def test_only_a_life_that_ended_in_order_is_believed_and_only_once() -> None:
    async def scene(world: VirtualWorld) -> None:
        folders = ReplicaFolders(ROOT, world, broker_id=1, flush_policy=FlushPolicy.OS)
        assert not folders.begin_life()
        folders.mark_clean_stop()
        assert folders.begin_life()
        assert not folders.begin_life(), "the life that began just now has not ended in order"

    play(scene)


def test_a_start_keeps_the_folders_of_its_topics_and_no_other() -> None:
    async def scene(world: VirtualWorld) -> None:
        folders = begin(world)
        for index in range(3):
            open_replica(world, folders, index).close()
        world.disk.make_dirs(ROOT / "orders-3")  # without an id: a crash came before it was written
        folders.remove_orphans({"orders-0": OLD, "orders-1": NEW, "orders-3": OLD})
        assert world.disk.list_dir(ROOT) == ["orders-0"]

    play(scene)


def test_a_folder_whose_id_cannot_be_written_is_not_left() -> None:
    async def scene(world: VirtualWorld) -> None:
        folders = begin(world)
        world.disk.fill()
        with pytest.raises(OSError, match="No space left"):
            folders.prepare("orders-0", OLD)
        assert world.disk.list_dir(ROOT) == []

    play(scene)


def test_deleted_replicas_are_removed_in_portions() -> None:
    async def scene(world: VirtualWorld) -> None:
        folders = begin(world)
        for index in range(REMOVALS_AT_ONCE_MAX + 1):
            folders.remove_later(open_replica(world, folders, index))
        assert len(world.disk.list_dir(ROOT)) == REMOVALS_AT_ONCE_MAX + 1
        await world.clock.sleep_ms(1)
        assert world.disk.list_dir(ROOT) == []

    play(scene)


def test_a_topic_of_the_same_name_does_not_find_the_old_records() -> None:
    async def scene(world: VirtualWorld) -> None:
        folders = begin(world)
        old = open_replica(world, folders, 0)
        world.disk.make_dirs(ROOT / "orders-0" / "old")
        folders.remove_later(old)
        open_replica(world, folders, 0, NEW)
        assert "old" not in world.disk.list_dir(ROOT / "orders-0")
        await world.clock.sleep_ms(1)
        folders.remove_orphans({"orders-0": NEW})
        assert world.disk.list_dir(ROOT) == ["orders-0"], "the folder of the new topic stays"

    play(scene)


def test_what_was_left_for_later_is_gone_after_a_stop_and_there_after_a_crash() -> None:
    async def scene(world: VirtualWorld) -> None:
        folders = begin(world)
        folders.remove_later(open_replica(world, folders, 0))
        folders.stop()
        await folders.remove_rest()
        assert world.disk.list_dir(ROOT) == []
        folders.remove_later(open_replica(world, folders, 1))
        folders.stop()
        folders.abandon()
        await world.clock.sleep_ms(1)
        assert world.disk.list_dir(ROOT) == ["orders-1"], "the next start finds no topic for it"

    play(scene)

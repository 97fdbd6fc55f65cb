"""The metadata log on a disk that fails: what was not made durable is not seen, now or later (B5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.broker.controller.controller import Controller
from semel.broker.log.config import FlushPolicy, LogConfig
from semel.broker.log.partition_log import PartitionLog
from semel.broker.metadata.cluster_state import ClusterId, ClusterState
from semel.broker.metadata.store import MetadataStore
from semel.protocol.error_codes import ErrorCode
from semel.world.clock import RealClock
from semel.world.disk import File
from semel.world.rng import SeededRng
from semel.world.virtual_disk import UNLIMITED_BYTES, VirtualDisk
from tests.unit.broker.replication.replicated import SESSION_MS, Trio, play

FOLDER = Path("/data/controller")


def open_store(disk: VirtualDisk) -> MetadataStore:
    config = LogConfig(flush_policy=FlushPolicy.EVERY)
    return MetadataStore(PartitionLog.open(disk, FOLDER, config, now_ms=0, clean=False), RealClock())


def test_what_could_not_be_synced_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = VirtualDisk(SeededRng(1))
    disk.make_dirs(FOLDER)
    published: list[ClusterState] = []
    controller = Controller(open_store(disk), [1], SeededRng(1), published.append)
    controller.commit([ClusterId(cluster_id="first")])

    def fail(_: File) -> None:
        raise OSError("the disk does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(disk, "sync_now", fail)
        with pytest.raises(OSError, match="does not answer"):
            controller.commit([ClusterId(cluster_id="second")])
    assert published[-1].cluster_id == controller.state.cluster_id == "first"
    assert open_store(disk).read() == controller.state
    controller.commit([ClusterId(cluster_id="third")])
    assert open_store(disk).read().cluster_id == "third"


def test_a_controller_whose_disk_was_full_fences_later() -> None:
    async def scene(trio: Trio) -> None:
        trio.worlds[0].disk.capacity_bytes = 0
        trio.core.pause(1)
        await trio.settle(3 * SESSION_MS)
        assert trio.partition.leader == 1, "a decision that cannot be written is not made"
        trio.worlds[0].disk.capacity_bytes = UNLIMITED_BYTES
        await trio.until(lambda: trio.partition.leader == 2, "another leader")
        assert await trio.produce("a") is ErrorCode.NONE

    play(scene)

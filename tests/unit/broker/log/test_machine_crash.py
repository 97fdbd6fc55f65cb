"""A machine that stops: what was synced is there again, in every part of a broker's folder.

Keeps: L3 what was synced survives a crash; with flush policy `every`, nobody reads what is not synced.
"""

from pathlib import Path

import pytest

from semel.broker.cluster import ClusterCore
from semel.broker.cluster_settings import ClusterSettings, TopicSpec
from semel.broker.log.config import FlushPolicy
from semel.protocol.record_batch import DraftRecord, encode_batch
from semel.world import SeededRng, VirtualNetwork, run_virtual, virtual_world
from semel.world.loop import VirtualLoop


@pytest.mark.parametrize("torn", [True, False])
def test_a_synced_partition_is_there_after_the_machine_stopped(torn: bool) -> None:
    async def main(loop: VirtualLoop) -> int:
        rng = SeededRng(loop.seed)
        network = VirtualNetwork(loop, rng.fork("network"))
        worlds = [virtual_world(f"broker-{n}", loop=loop, network=network, rng=rng) for n in range(2)]
        settings = ClusterSettings(
            data=Path("/data"), brokers=1, topics=[TopicSpec(name="orders")], flush=FlushPolicy.EVERY
        )
        cluster = ClusterCore(settings, worlds.__getitem__)
        await cluster.start()
        partition = cluster.brokers[1].partitions["orders", 0]
        batch = encode_batch([DraftRecord(key=None, value=b"paid", timestamp_ms=1)])
        partition.append(memoryview(bytearray(batch)))
        seen_before_sync = partition.log.high_watermark
        await partition.flush(1)
        assert (seen_before_sync, partition.log.high_watermark) == (0, 1)
        cluster.kill(1)
        worlds[1].disk.crash(torn=torn)
        await cluster.restart(1)
        return cluster.brokers[1].partitions["orders", 0].log.log_end_offset

    assert run_virtual(1, main) == 1

"""The stage of one run: brokers, network and disks in virtual time, with the levers that faults pull."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from semel.broker.cluster import ClusterCore
from semel.broker.cluster_settings import ClusterSettings, TopicSpec
from semel.broker.coordinator.shell import stored_batches
from semel.history import Inject, Place, Replica
from semel.sim.client import Address, Client
from semel.sim.recorder import Recorder
from semel.world.clock import VirtualClock
from semel.world.loop import VirtualLoop
from semel.world.rng import SeededRng
from semel.world.virtual_network import VirtualNetwork
from semel.world.world import VirtualWorld, virtual_world

if TYPE_CHECKING:
    from semel.sim.options import Options

TOPIC = "orders"
# One partition each, so that groups and transactions meet at the same coordinator and get in each other's way.
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "auto.create.topics.enable": "false",
    "replica.lag.time.max.ms": "1500",  # short beside the faults, so that replicas fall out of sync and come back
}
# Clocks jump, and a date far ahead is no reason to refuse a record here.
TOPIC_CONFIG = {"message.timestamp.after.max.ms": str(2**63 - 1)}
CONTROLLER = 0


def _settings(replication_factor: int) -> dict[str, str]:
    """Acknowledged means on two of three brokers, for the coordinators' topics as for every other."""
    return SETTINGS | {
        "min.insync.replicas": str(min(replication_factor, 2)),
        "offsets.topic.replication.factor": str(replication_factor),
        "transaction.state.log.replication.factor": str(replication_factor),
        "transaction.state.log.min.isr": str(min(replication_factor, 2)),
    }


class Stage:
    """Everything of one run but its clients' intentions."""

    def __init__(self, loop: VirtualLoop, options: Options, *, brokers: int) -> None:
        """Nothing runs before `start`."""
        self.options = options
        self.rng = SeededRng(loop.seed)
        self.network = VirtualNetwork(loop, self.rng.fork("network"), latency_ms_max=options.latency_ms_max)
        self.recorder = Recorder(VirtualClock(loop))
        # 0 is the controller's world, as `ClusterCore` asks for it.
        self.worlds = {node: self._world(loop, f"broker-{node}") for node in range(brokers + 1)}
        self.clients: list[Client] = []
        self.places: list[Place] = [(TOPIC, index) for index in range(options.partitions)]
        self._loop = loop
        self._addresses: list[Address] = []
        settings = ClusterSettings(
            data=Path("/data"),
            brokers=brokers,
            topics=[
                TopicSpec(
                    name=TOPIC,
                    partitions=options.partitions,
                    replication_factor=options.replication_factor,
                    config=TOPIC_CONFIG,
                )
            ],
            flush=options.flush,
            config=_settings(options.replication_factor),
        )
        self.cluster = ClusterCore(settings, self.worlds.__getitem__)

    def _world(self, loop: asyncio.AbstractEventLoop, name: str) -> VirtualWorld:
        return virtual_world(name, loop=loop, network=self.network, rng=self.rng)

    async def start(self) -> None:
        """Bring the cluster up."""
        await self.cluster.start()
        # Remembered from the start: brokers keep their addresses, and a client must find them while some are dead.
        self._addresses = [(node.host, node.port) for node in self.cluster.nodes]

    def client(self, name: str) -> Client:
        """A client with a host of its own."""
        made = Client(name, self._world(self._loop, name), self._addresses, self.recorder)
        self.clients.append(made)
        return made

    def tell(self, text: str, *, kind: str = "") -> None:
        """Write down that a fault of this kind struck, or without one that something ended."""
        self.recorder.note("faults", Inject(kind=kind, text=text))

    @property
    def is_whole(self) -> bool:
        """Whether every replica is in sync and every leader can show all that it holds."""
        # Also the high watermarks: a leader that has not heard from its followers shows less than it holds.
        return all(
            len(partition.isr) == len(partition.replicas) and self._shows_all(topic.name, index, partition.leader)
            for topic in self.cluster.state.topics.values()
            for index, partition in enumerate(topic.partitions)
        )

    def _shows_all(self, topic: str, index: int, leader: int) -> bool:
        broker = self.cluster.brokers.get(leader)
        partition = None if broker is None else broker.replicas.get((topic, index))
        return partition is not None and partition.log.high_watermark == partition.log.log_end_offset

    def look_inside(self) -> None:
        """Write down what every running replica holds at this moment."""
        # No await in between: all replicas are seen at one moment, or they could not be compared.
        for broker_id, broker in sorted(self.cluster.brokers.items()):
            for place, partition in sorted(broker.replicas.items()):
                batches = tuple(
                    (head.base_offset, head.leader_epoch, head.crc) for *_, head in stored_batches(partition)
                )
                look = Replica(
                    place=place, broker=broker_id, high_watermark=partition.log.high_watermark, batches=batches
                )
                self.recorder.note(f"broker-{broker_id}", look)

"""Three brokers in virtual time, asked as a client would ask them, for the tests of replication and elections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from semel.broker.broker import Broker
from semel.broker.cluster import ClusterCore
from semel.broker.cluster_settings import ClusterSettings
from semel.broker.coordinator.shell import stored_batches
from semel.broker.metadata.cluster_state import PartitionState
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from semel.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from semel.protocol.record_batch import DraftRecord, decode_records, encode_batch
from semel.world import SeededRng, VirtualNetwork, run_virtual, virtual_world
from semel.world.loop import VirtualLoop
from semel.world.world import VirtualWorld

TOPIC = "orders"
KEY = (TOPIC, 0)
CLIENT = 99
SESSION_MS = 2_000
VIRTUAL_MS_MAX = 600_000.0
STEPS_MAX = 200_000
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "replica.lag.time.max.ms": "3000",
}


class Trio:
    """A cluster of three with one partition on all of them, led by broker 1."""

    def __init__(self, loop: VirtualLoop, topic_config: Mapping[str, str], config: Mapping[str, str]) -> None:
        rng = SeededRng(loop.seed)
        network = VirtualNetwork(loop, rng.fork("network"))
        self.worlds: list[VirtualWorld] = [
            virtual_world(f"broker-{n}", loop=loop, network=network, rng=rng) for n in range(4)
        ]
        settings = ClusterSettings(data=Path("/data"), brokers=3, config={**SETTINGS, **config})
        self.core = ClusterCore(settings, self.worlds.__getitem__)
        self.clock = self.worlds[0].clock
        self._topic_config = topic_config

    async def start(self) -> None:
        await self.core.start()
        controller = self.core.controller
        planned = controller.plan_topic(
            TOPIC, partitions=1, replication_factor=3, config=self._topic_config, assignments={0: [1, 2, 3]}
        )
        controller.commit([planned])

    @property
    def partition(self) -> PartitionState:
        return self.core.state.topics[TOPIC].partitions[0]

    @property
    def leader(self) -> Broker:
        return self.core.brokers[self.partition.leader]

    async def settle(self, ms: float = 1_000) -> None:
        """Let some time pass."""
        await self.clock.sleep_ms(ms)

    async def until(self, condition: Callable[[], bool], what: str, ms_max: float = 30_000) -> None:
        """Wait for something that must come."""
        waited = 0.0
        while not condition():
            assert waited < ms_max, f"not so after {ms_max} ms: {what}; {self.describe()}"
            await self.settle(10)
            waited += 10

    async def all_in_sync(self) -> None:
        await self.until(lambda: sorted(self.partition.isr) == [1, 2, 3], "all replicas in sync")

    async def produce(self, value: str, *, acks: int = -1, to: int | None = None, timeout_ms: int = 1_000) -> ErrorCode:
        """Send one record to the leader, or to whom the test says."""
        batch = encode_batch([DraftRecord(key=None, value=value.encode(), timestamp_ms=self.clock.wall_ms())])
        rows = [PartitionProduceData(index=0, records=memoryview(bytearray(batch)))]
        request = ProduceRequest(
            acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=TOPIC, partition_data=rows)]
        )
        response = await self.core.brokers[to or self.partition.leader].answer_link(CLIENT, request, 9)
        assert isinstance(response, ProduceResponse)
        return ErrorCode(response.responses[0].partition_responses[0].error_code)

    async def fetch(self, offset: int, *, to: int | None = None) -> PartitionData:
        """Read as a consumer does."""
        rows = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)]
        request = FetchRequest(topics=[FetchTopic(topic=TOPIC, partitions=rows)])
        response = await self.core.brokers[to or self.partition.leader].answer_link(CLIENT, request, 12)
        assert isinstance(response, FetchResponse)
        return response.responses[0].partitions[0]

    def values(self, broker_id: int) -> list[str]:
        """What stands in one broker's log."""
        replica = self.core.brokers[broker_id].replicas[KEY]
        return [
            (record.value or b"").decode()
            for data, position, header in stored_batches(replica)
            for record in decode_records(data, header, position)
        ]

    def isolate(self, broker_id: int) -> None:
        """Cut a broker off from everybody."""
        for other in range(4):
            if other != broker_id:
                self.core.cut(broker_id, other)

    def describe(self) -> str:
        """The state of the partition, for a test that fails."""
        ends = {
            one: (broker.replicas[KEY].log.log_end_offset, broker.replicas[KEY].log.high_watermark)
            for one, broker in sorted(self.core.brokers.items())
            if KEY in broker.replicas
        }
        return f"{self.partition}; log end and high watermark: {ends}"


def play(
    scene: Callable[[Trio], Awaitable[None]],
    *,
    seed: int = 1,
    topic_config: Mapping[str, str] | None = None,
    config: Mapping[str, str] | None = None,
) -> None:
    """Run a scene on a fresh cluster, and stop it in order."""

    async def main(loop: VirtualLoop) -> None:
        trio = Trio(loop, topic_config or {}, config or {})
        await trio.start()
        await scene(trio)
        await trio.core.stop()

    run_virtual(seed, main, virtual_ms_max=VIRTUAL_MS_MAX, steps_max=STEPS_MAX)

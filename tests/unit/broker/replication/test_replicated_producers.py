"""Who writes to a partition, asked of every replica: a follower answers from its own copy, as Apache Kafka's do."""

from __future__ import annotations

from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from semel.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from semel.protocol.record_batch import DraftRecord, encode_batch
from tests.unit.broker.replication.replicated import CLIENT, TOPIC, Trio, play

PRODUCER_ID = 7


async def producers(trio: Trio, broker_id: int, topic: str = TOPIC) -> tuple[ErrorCode, list[int]]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
    answer = await trio.core.brokers[broker_id].answer_link(CLIENT, request, 0)
    assert isinstance(answer, DescribeProducersResponse)
    row = answer.topics[0].partitions[0]
    return ErrorCode(row.error_code), [one.producer_id for one in row.active_producers]


async def write(trio: Trio) -> None:
    draft = DraftRecord(key=None, value=b"paid", timestamp_ms=trio.clock.wall_ms())
    batch = encode_batch([draft], producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=0)
    rows = [PartitionProduceData(index=0, records=memoryview(bytearray(batch)))]
    data = [TopicProduceData(name=TOPIC, partition_data=rows)]
    sent = await trio.leader.answer_link(CLIENT, ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=data), 9)
    assert isinstance(sent, ProduceResponse)
    assert sent.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def test_every_replica_knows_the_producer() -> None:
    async def scene(trio: Trio) -> None:
        await trio.all_in_sync()
        await write(trio)
        for broker_id in (1, 2, 3):
            assert await producers(trio, broker_id) == (ErrorCode.NONE, [PRODUCER_ID])

    play(scene)


def test_a_broker_without_a_replica_refuses() -> None:
    async def scene(trio: Trio) -> None:
        controller = trio.core.controller
        planned = controller.plan_topic("small", partitions=1, replication_factor=1, config={}, assignments={0: [1]})
        controller.commit([planned])
        assert await producers(trio, 2, "small") == (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])
        assert await producers(trio, 2, "nowhere") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])

    play(scene)

"""Topics for tests, made and looked at without a client."""

from __future__ import annotations

from collections.abc import Mapping

from semel.engine.embedded import Cluster
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from semel.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from semel.protocol.record_batch import DraftRecord, encode_batch
from tests.support.wire import Wire


def create_topic(
    cluster: Cluster, name: str, *, partitions: int = 1, replicas: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic."""
    rows = [CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=rows)
    with Wire.to_broker(cluster) as wire:
        answer = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0]


def all_in_sync(cluster: Cluster) -> bool:
    """Whether every partition has a leader and all of its replicas follow."""
    places = [place for topic in cluster.core.state.topics.values() for place in topic.partitions]
    return all(len(place.isr) == len(place.replicas) and place.leader > 0 for place in places)


def produce(cluster: Cluster, topic: str, count: int, *, partition: int = 0, producer_id: int = -1) -> None:
    """Append `count` records, each in a batch of its own."""
    with Wire.to_leader(cluster, topic, partition) as wire:
        for sequence in range(count):
            record = DraftRecord(key=b"k", value=b"v" * 100, timestamp_ms=1_700_000_000_000 + sequence)
            is_plain = producer_id < 0
            batch = encode_batch(
                [record],
                producer_id=producer_id,
                producer_epoch=-1 if is_plain else 0,
                base_sequence=-1 if is_plain else sequence,
            )
            data = TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=partition, records=memoryview(batch))]
            )
            answer = wire.ask(ProduceRequest(acks=-1, topic_data=[data]), ProduceResponse, version=9)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE

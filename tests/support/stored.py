"""What a partition's log really holds, and how to put bytes there: raw Fetch and Produce requests."""

from __future__ import annotations

from semel.engine.embedded import Cluster
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from semel.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from semel.protocol.record_batch import BatchHeader, iter_headers
from tests.support.wire import Wire

FETCH_VERSION = 12
PRODUCE_VERSION = 9
BYTES_MAX = 50_000_000


def append_batch(cluster: Cluster, topic: str, batch: bytes, *, partition: int = 0) -> PartitionProduceResponse:
    """Send the batch as it is and return the broker's answer, an error included."""
    data = PartitionProduceData(index=partition, records=memoryview(batch))
    request = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    with Wire.to_leader(cluster, topic, partition) as wire:
        answer = wire.ask(request, ProduceResponse, version=PRODUCE_VERSION)
    return answer.responses[0].partition_responses[0]


def stored_bytes(cluster: Cluster, topic: str, *, partition: int = 0, offset: int = 0) -> bytes:
    """Give the record batches from this offset on, as the broker sends them."""
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=BYTES_MAX)
    request = FetchRequest(max_bytes=BYTES_MAX, topics=[FetchTopic(topic=topic, partitions=[asked])])
    with Wire.to_leader(cluster, topic, partition) as wire:
        data = wire.ask(request, FetchResponse, version=FETCH_VERSION).responses[0].partitions[0]
    assert data.error_code == ErrorCode.NONE, data
    return bytes(data.records) if isinstance(data.records, memoryview | bytes) else b""


def stored_headers(cluster: Cluster, topic: str, *, partition: int = 0) -> list[BatchHeader]:
    """Give the header of every batch in the partition."""
    return [header for _, header in iter_headers(stored_bytes(cluster, topic, partition=partition))]

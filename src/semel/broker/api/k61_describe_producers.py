"""DescribeProducers (key 61, v0): who writes to partitions, and whose transaction is open there.

Differs:  docs/DIFFERENCES.md#k61
Versions: v0 first flexible.
Sources:  KIP-664.
"""

from __future__ import annotations

from semel.broker.api.k00_produce import missing_partition
from semel.broker.controller.controller import check_topic_name
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.runtime.refused import Refused
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def refuse(request: DescribeProducersRequest, code: ErrorCode) -> DescribeProducersResponse:
    """Answer with this error for every partition."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[PartitionResponse(partition_index=row, error_code=code) for row in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


@api(DescribeProducersRequest, DescribeProducersResponse, first=0, last=0, refuse=refuse)
async def answer(context: Context, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Describe the producers of each partition that is stored here, led or copied."""
    topics = []
    for topic in request.topics:
        rows = []
        for index in topic.partition_indexes:
            rows.append(_describe(context, topic.name, index))
            # A partition may remember many thousand producers: by default each is kept for a day after its last batch.
            await context.count_rows(1 + len(rows[-1].active_producers))
        topics.append(TopicResponse(name=topic.name, partitions=rows))
    return DescribeProducersResponse(topics=topics)


def _describe(context: Context, topic: str, index: int) -> PartitionResponse:
    # Also of partitions that are only copied here, as in Apache Kafka: it helps to find hanging transactions.
    partition = context.broker.replicas.get((topic, index))
    if partition is None:
        return _missing(context, topic, index)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp_ms,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.transaction_first_offset,
            )
            for entry in partition.log.producers.entries.values()
        ],
    )


def _missing(context: Context, topic: str, index: int) -> PartitionResponse:
    try:
        # A wrong name is another error than a topic that is not there.
        check_topic_name(topic)
    except Refused as refused:
        return PartitionResponse(
            partition_index=index, error_code=ErrorCode(refused.code), error_message=refused.summary
        )
    code = missing_partition(context, topic, index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    message = None if topic in context.broker.state.topics else f"The topic '{topic}' does not exist."
    return PartitionResponse(partition_index=index, error_code=code, error_message=message)

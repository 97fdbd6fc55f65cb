"""DescribeTopicPartitions (key 75, v0): partitions of topics, page by page.

Keeps:    B9 a page comes from one cluster state, never from two.
Differs:  docs/DIFFERENCES.md#k75
Versions: v0 first flexible.
Sources:  KIP-966.
"""

from __future__ import annotations

from semel.broker.api.k03_metadata import ALL_TOPIC_OPERATIONS
from semel.broker.cluster_state import Topic
from semel.broker.context import Context
from semel.broker.controller import check_topic_name
from semel.broker.refused import Refused
from semel.broker.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

PARTITIONS_PER_PAGE_MAX = 2000


def refuse(request: DescribeTopicPartitionsRequest, code: ErrorCode) -> DescribeTopicPartitionsResponse:
    """The same error for every topic."""
    rows = [DescribeTopicPartitionsResponseTopic(name=topic.name, error_code=code) for topic in request.topics]
    return DescribeTopicPartitionsResponse(topics=rows)


@api(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, first=0, last=0, refuse=refuse)
async def answer(context: Context, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Describe topics in the order of their names, from the cursor on, up to the limit; none named asks for all."""
    names, cursor = _names(context, request), request.cursor
    if cursor is not None and (cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names)):
        return refuse(request, ErrorCode.INVALID_REQUEST)
    response = DescribeTopicPartitionsResponse(topics=[])
    rows: list[DescribeTopicPartitionsResponseTopic] = []
    left = max(min(PARTITIONS_PER_PAGE_MAX, request.response_partition_limit), 1)
    for name in names:
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        row = _describe(context, name, first, left)
        rows.append(row)
        left -= len(row.partitions)
        index_next = first + len(row.partitions)
        if name in context.broker.state.topics and index_next < len(context.broker.state.topics[name].partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=index_next)
            break
    response.topics = rows
    return response


def _names(context: Context, request: DescribeTopicPartitionsRequest) -> list[str]:
    first = request.cursor.topic_name if request.cursor is not None else ""
    names = {topic.name for topic in request.topics} or set(context.broker.state.topics)
    return sorted(name for name in names if name >= first)


def _describe(context: Context, name: str, first: int, count: int) -> DescribeTopicPartitionsResponseTopic:
    topic = context.broker.state.topics.get(name)
    if topic is None:
        return DescribeTopicPartitionsResponseTopic(
            name=name, error_code=_fault(name), topic_authorized_operations=ALL_TOPIC_OPERATIONS
        )
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=_partitions(context, topic, first, count),
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )


def _fault(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except Refused as refused:
        return ErrorCode(refused.code)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _partitions(
    context: Context, topic: Topic, first: int, count: int
) -> list[DescribeTopicPartitionsResponsePartition]:
    alive = {node.id for node in context.broker.state.nodes}
    return [
        DescribeTopicPartitionsResponsePartition(
            partition_index=index,
            leader_id=place.leader,
            leader_epoch=place.leader_epoch,
            replica_nodes=place.replicas,
            isr_nodes=place.isr,
            eligible_leader_replicas=(),
            last_known_elr=(),
            offline_replicas=[replica for replica in place.replicas if replica not in alive],
        )
        for index, place in list(enumerate(topic.partitions))[first : first + count]
    ]

"""DescribeTopicPartitions (key 75, v0): partitions of topics, page by page.

Keeps:    B9 a page comes from one cluster state, never from two.
Differs:  docs/DIFFERENCES.md#k75
Versions: v0 first flexible.
Sources:  KIP-966.
"""

from __future__ import annotations

from semel.broker.controller.controller import check_topic_name
from semel.broker.metadata.acls import Operation, Resource
from semel.broker.metadata.cluster_state import ClusterState, Topic
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.runtime.refused import Refused
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

# The default of Apache Kafka's max.request.partition.size.limit.
PARTITIONS_PER_PAGE_MAX = 2000


def refuse(request: DescribeTopicPartitionsRequest, code: ErrorCode) -> DescribeTopicPartitionsResponse:
    """Answer with this error for every topic."""
    rows = [DescribeTopicPartitionsResponseTopic(name=topic.name, error_code=code) for topic in request.topics]
    return DescribeTopicPartitionsResponse(topics=rows)


@api(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, first=0, last=0, refuse=refuse)
async def answer(context: Context, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Describe topics in the order of their names, from the cursor on, up to the limit; none named asks for all."""
    state, cursor = context.broker.state, request.cursor
    names = _names(state, request)
    if cursor is not None and (cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names)):
        return refuse(request, ErrorCode.INVALID_REQUEST)
    response = DescribeTopicPartitionsResponse(topics=[])
    rows: list[DescribeTopicPartitionsResponseTopic] = []
    # At least one, else a client that asks for pages of none would never get on.
    left = max(min(PARTITIONS_PER_PAGE_MAX, request.response_partition_limit), 1)
    for number, name in enumerate(names):
        await context.pause_after(number)
        if not _may_describe(context, name):
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        # Checked only now, when there is a next topic: a full page may be the last one.
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        row = _describe(context, state, name, first, left)
        rows.append(row)
        left -= len(row.partitions)
        index_next = first + len(row.partitions)
        if name in state.topics and index_next < len(state.topics[name].partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=index_next)
            break
    # Hidden topics are named only to those who asked for them by name.
    for number, name in enumerate(names if request.topics else ()):
        await context.pause_after(number)
        if not _may_describe(context, name):
            rows.append(_hidden(name))
    response.topics = rows
    return response


def _may_describe(context: Context, topic: str) -> bool:
    return context.may(Operation.DESCRIBE, Resource.TOPIC, topic)


def _hidden(name: str) -> DescribeTopicPartitionsResponseTopic:
    """The same answer whether the topic exists or not, so that who may not describe it learns nothing."""
    return DescribeTopicPartitionsResponseTopic(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _names(state: ClusterState, request: DescribeTopicPartitionsRequest) -> list[str]:
    first = request.cursor.topic_name if request.cursor is not None else ""
    names = {topic.name for topic in request.topics} or set(state.topics)
    # In the order of names: the cursor names the place where the next page begins.
    return sorted(name for name in names if name >= first)


def _describe(
    context: Context, state: ClusterState, name: str, first: int, count: int
) -> DescribeTopicPartitionsResponseTopic:
    topic = state.topics.get(name)
    operations = context.operations(Resource.TOPIC, name)
    if topic is None:
        return DescribeTopicPartitionsResponseTopic(
            name=name, error_code=_error_code(name), topic_authorized_operations=operations
        )
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=_partitions(state, topic, first, count),
        topic_authorized_operations=operations,
    )


def _error_code(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except Refused as refused:
        return ErrorCode(refused.code)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _partitions(
    state: ClusterState, topic: Topic, first: int, count: int
) -> list[DescribeTopicPartitionsResponsePartition]:
    alive = {node.id for node in state.nodes}
    return [
        DescribeTopicPartitionsResponsePartition(
            partition_index=index,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
            # KIP-966 has more than pages: eligible leader replicas, which this controller does not keep.
            eligible_leader_replicas=(),
            last_known_elr=(),
            offline_replicas=[replica for replica in partition.replicas if replica not in alive],
        )
        for index, partition in list(enumerate(topic.partitions))[first : first + count]
    ]

"""ListPartitionReassignments (key 46, v0): the partitions on their way to other brokers.

Differs:  docs/DIFFERENCES.md#k46
Versions: v0 first flexible.
Sources:  KIP-455.
"""

from __future__ import annotations

from collections.abc import Iterable

from semel.broker.controller.reassignment import is_under_way
from semel.broker.metadata.cluster_state import ClusterState, Topic
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def refuse(_: ListPartitionReassignmentsRequest, code: ErrorCode) -> ListPartitionReassignmentsResponse:
    """Answer with this error and no partitions."""
    return ListPartitionReassignmentsResponse(error_code=code, error_message=None)


@api(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, first=0, last=0, refuse=refuse)
async def answer(context: Context, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """List what is under way of the partitions asked for; null asks for all."""
    asked = None if request.topics is None else [(topic.name, topic.partition_indexes) for topic in request.topics]
    rows = [_topic(topic, indexes) for topic, indexes in _wanted(context.broker.state, asked)]
    return ListPartitionReassignmentsResponse(error_message=None, topics=[row for row in rows if row.partitions])


def _wanted(
    state: ClusterState, asked: Iterable[tuple[str, Iterable[int]]] | None
) -> Iterable[tuple[Topic, Iterable[int]]]:
    if asked is None:
        return [(topic, range(len(topic.partitions))) for topic in state.topics.values()]
    # Topics that do not exist are left out, as in Apache Kafka: nothing of them is moving.
    return [(state.topics[name], indexes) for name, indexes in asked if name in state.topics]


def _topic(topic: Topic, indexes: Iterable[int]) -> OngoingTopicReassignment:
    rows = [
        OngoingPartitionReassignment(
            partition_index=index,
            replicas=partition.replicas,
            adding_replicas=partition.adding,
            removing_replicas=partition.removing,
        )
        for index in indexes
        if 0 <= index < len(topic.partitions) and is_under_way(partition := topic.partitions[index])
    ]
    return OngoingTopicReassignment(name=topic.name, partitions=rows)

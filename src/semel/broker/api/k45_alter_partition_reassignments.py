"""AlterPartitionReassignments (key 45, v0-1): move partitions to other brokers, or take a move back.

Keeps:    R5 the old replicas stay until the new ones are in sync.
Differs:  docs/DIFFERENCES.md#k45
Versions: v0 first flexible; v1 may forbid another number of replicas.
Sources:  KIP-455, KIP-860.
"""

from __future__ import annotations

from collections.abc import Sequence

from semel.broker.controller.elections import partition_changed
from semel.broker.controller.reassignment import cancelled, is_under_way, started
from semel.broker.metadata.cluster_state import ClusterState, PartitionsChanged, PartitionState, Topic
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.runtime.refused import Refused
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def refuse(request: AlterPartitionReassignmentsRequest, code: ErrorCode) -> AlterPartitionReassignmentsResponse:
    """Answer with this error at the top and for every partition."""
    rows = [
        ReassignableTopicResponse(
            name=topic.name, partitions=[_row(one.partition_index, code, None) for one in topic.partitions]
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=None, responses=rows)


def _row(index: int, code: ErrorCode, message: str | None) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(partition_index=index, error_code=code, error_message=message)


@api(AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, first=0, last=1, refuse=refuse)
async def answer(context: Context, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    """Decide each partition on its own; a move goes on in the background once it has started."""
    rows = []
    for topic in request.topics:
        partitions = []
        for number, one in enumerate(topic.partitions):
            partitions.append(_alter(context, topic.name, one, may_resize=request.allow_replication_factor_change))
            await context.pause_after(number)
        rows.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None, responses=rows
    )


def _alter(
    context: Context, name: str, asked: ReassignablePartition, *, may_resize: bool
) -> ReassignablePartitionResponse:
    controller = context.broker.controller
    try:
        planned = plan_move(controller.state, name, asked.partition_index, asked.replicas, may_resize=may_resize)
        controller.commit([planned])
    except Refused as refused:
        return _row(asked.partition_index, ErrorCode(refused.code), refused.summary)
    return _row(asked.partition_index, ErrorCode.NONE, None)


def plan_move(
    state: ClusterState, name: str, index: int, target: Sequence[int] | None, *, may_resize: bool = True
) -> PartitionsChanged:
    """The record that begins a move, or with no target takes the present one back; Refused when it makes no sense."""
    topic = state.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{index}.")
    partition = topic.partitions[index]
    if target is None:
        return partition_changed(topic, index, _taken_back(partition, state))
    _check_target(state, topic, partition, target, may_resize=may_resize)
    return partition_changed(topic, index, started(partition, tuple(target), state.is_alive))


def _taken_back(partition: PartitionState, state: ClusterState) -> PartitionState:
    if not is_under_way(partition):
        raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    # `cancelled` changes nothing if the old replicas have all fallen behind: going back would lose records (R5).
    back = cancelled(partition, state.is_alive)
    if is_under_way(back):
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Only the new replicas are in sync: there is no way back.")
    return back


def _check_target(
    state: ClusterState, topic: Topic, partition: PartitionState, target: Sequence[int], *, may_resize: bool
) -> None:
    unknown = sorted(set(target) - set(state.brokers))
    if not target or len(set(target)) != len(target) or unknown:
        message = f"replicas {list(target)} of {topic.name} are empty, doubled or unknown"
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    # Those being added do not count: the factor is what it was before the move that is under way.
    before = len(partition.replicas) - len(partition.adding)
    if not may_resize and len(target) != before:
        message = f"The replication factor is changed from {before} to {len(target)}"
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, message)

"""ListOffsets (key 2, v1-10): the first, last or timed offset of partitions.

Keeps:    B8 the last offset of a read_committed reader is the last stable offset.
Differs:  docs/DIFFERENCES.md#k02
Versions: v2 isolation level; v4 leader epoch; v6 first flexible; v7 max timestamp; v8 earliest local; v9 latest tiered;
          v10 timeout.
Sources:  KIP-79, KIP-98, KIP-320, KIP-734, KIP-405.
"""

from __future__ import annotations

from semel.broker.api.k00_produce import missing_partition
from semel.broker.context import Context
from semel.broker.log_types import OffsetAndTimestamp
from semel.broker.partition import Partition
from semel.broker.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
FIRST_VERSIONS = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
NO_LEADER_EPOCH = -1
OFFSET_NOT_AVAILABLE_FIRST = 5


def refuse(request: ListOffsetsRequest, code: ErrorCode) -> ListOffsetsResponse:
    """The same error for every partition."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=row.partition_index, error_code=code)
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@api(ListOffsetsRequest, ListOffsetsResponse, first=1, last=10, refuse=refuse)
async def answer(context: Context, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Look each partition up; one that is asked for twice is refused."""
    asked: dict[str, dict[int, list[ListOffsetsPartition]]] = {}
    for topic in request.topics:
        rows = asked.setdefault(topic.name, {})
        for row in topic.partitions:
            rows.setdefault(row.partition_index, []).append(row)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=name,
                partitions=[_answer_once(context, name, same, request.isolation_level) for same in rows.values()],
            )
            for name, rows in asked.items()
        ]
    )


def _answer_once(
    context: Context, topic: str, same: list[ListOffsetsPartition], isolation_level: int
) -> ListOffsetsPartitionResponse:
    if len(same) > 1:
        index = same[0].partition_index
        return ListOffsetsPartitionResponse(partition_index=index, error_code=ErrorCode.INVALID_REQUEST)
    return _look_up(context, topic, same[0], isolation_level)


def _look_up(
    context: Context, topic: str, row: ListOffsetsPartition, isolation_level: int
) -> ListOffsetsPartitionResponse:
    response = ListOffsetsPartitionResponse(partition_index=row.partition_index)
    partition = context.broker.partitions.get((topic, row.partition_index))
    if partition is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        response.error_code = missing_partition(context, topic, row.partition_index, unknown)
        return response
    response.error_code = _fault(context, partition, row)
    if response.error_code:
        return response
    found = _find(partition, row.timestamp, isolation_level)
    if not partition.is_settled and (found is None or row.timestamp == LATEST):
        # A new leader does not know yet how far its predecessor let clients read.
        is_known = context.version >= OFFSET_NOT_AVAILABLE_FIRST
        response.error_code = ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE
        return response
    if found is not None:
        response.offset, response.timestamp = found.offset, found.timestamp_ms
        response.leader_epoch = found.leader_epoch
    return response


def _fault(context: Context, partition: Partition, row: ListOffsetsPartition) -> ErrorCode:
    if row.timestamp < 0 and context.version < FIRST_VERSIONS.get(row.timestamp, context.version + 1):
        return ErrorCode.UNSUPPORTED_VERSION
    if row.current_leader_epoch < NO_LEADER_EPOCH:
        return ErrorCode.FENCED_LEADER_EPOCH
    return partition.check_leader_epoch(row.current_leader_epoch)


def _find(partition: Partition, timestamp: int, isolation_level: int) -> OffsetAndTimestamp | None:
    log = partition.log
    limit = partition.readable_to(isolation_level)
    match timestamp:
        case _ if timestamp == LATEST:
            return OffsetAndTimestamp(offset=limit, timestamp_ms=-1, leader_epoch=partition.leader_epoch)
        case _ if timestamp in (EARLIEST, EARLIEST_LOCAL):
            first = log.log_start_offset
            epoch = partition.leader_epoch if first == log.log_end_offset else log.epochs.epoch_at(first)
            return OffsetAndTimestamp(offset=first, timestamp_ms=-1, leader_epoch=epoch)
        case _ if timestamp == MAX_TIMESTAMP:
            found = log.max_timestamp_offset()
        case _ if timestamp >= 0:
            found = log.offset_for_timestamp(timestamp)
        case _:
            return None
    return found if found is not None and found.offset < limit else None

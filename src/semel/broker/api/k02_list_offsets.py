"""ListOffsets (key 2, v1-10): the first, last or timed offset of partitions.

Keeps:    B8 the last offset of a read_committed reader is the last stable offset.
Differs:  docs/DIFFERENCES.md#k02
Versions: v2 isolation level; v4 leader epoch; v6 first flexible; v7 max timestamp; v8 earliest local; v9 latest tiered;
          v10 timeout.
Sources:  KIP-79, KIP-98, KIP-320, KIP-734, KIP-405.
"""

from __future__ import annotations

from semel.broker.api.k00_produce import missing_partition
from semel.broker.log.types import OffsetAndTimestamp
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.replication.partition import Partition
from semel.broker.runtime.yielding import run_pausing
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
# The version that first has each. With an older one it is refused, as in Apache Kafka.
FIRST_VERSIONS = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
NO_LEADER_EPOCH = -1
OFFSET_NOT_AVAILABLE_FIRST = 5


def refuse(request: ListOffsetsRequest, code: ErrorCode) -> ListOffsetsResponse:
    """Answer with this error for every partition."""
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
    """Look up each partition; one that is asked for twice is refused."""
    asked: dict[str, dict[int, list[ListOffsetsPartition]]] = {}
    for topic in request.topics:
        rows = asked.setdefault(topic.name, {})
        for row in topic.partitions:
            # Gathered over the whole request, since the same topic may be named in two entries.
            rows.setdefault(row.partition_index, []).append(row)
    topics: list[ListOffsetsTopicResponse] = []
    for name, rows in asked.items():
        found = [await _answer_once(context, name, same, request.isolation_level) for same in rows.values()]
        topics.append(ListOffsetsTopicResponse(name=name, partitions=found))
    return ListOffsetsResponse(topics=topics)


async def _answer_once(
    context: Context, topic: str, same: list[ListOffsetsPartition], isolation_level: int
) -> ListOffsetsPartitionResponse:
    # As in Apache Kafka. Of two answers for one partition nobody could say which is which.
    if len(same) > 1:
        index = same[0].partition_index
        return ListOffsetsPartitionResponse(partition_index=index, error_code=ErrorCode.INVALID_REQUEST)
    return await _look_up(context, topic, same[0], isolation_level)


async def _look_up(
    context: Context, topic: str, row: ListOffsetsPartition, isolation_level: int
) -> ListOffsetsPartitionResponse:
    response = ListOffsetsPartitionResponse(partition_index=row.partition_index)
    partition = context.broker.partitions.get((topic, row.partition_index))
    if partition is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        response.error_code = missing_partition(context, topic, row.partition_index, unknown)
        return response
    response.error_code = _error_code(context, partition, row)
    if response.error_code:
        return response
    found = await _find(context, partition, row.timestamp, isolation_level)
    if not partition.is_settled and (found is None or row.timestamp == LATEST):
        # A new leader does not know yet how far its predecessor let clients read.
        is_known = context.version >= OFFSET_NOT_AVAILABLE_FIRST
        response.error_code = ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE
        return response
    if found is not None:
        response.offset, response.timestamp = found.offset, found.timestamp_ms
        response.leader_epoch = found.leader_epoch
    return response


def _error_code(context: Context, partition: Partition, row: ListOffsetsPartition) -> ErrorCode:
    if row.timestamp < 0 and context.version < FIRST_VERSIONS.get(row.timestamp, context.version + 1):
        return ErrorCode.UNSUPPORTED_VERSION
    # No leader had such an epoch, so it is older than ours.
    if row.current_leader_epoch < NO_LEADER_EPOCH:
        return ErrorCode.FENCED_LEADER_EPOCH
    return partition.check_leader_epoch(row.current_leader_epoch)


async def _find(
    context: Context, partition: Partition, timestamp: int, isolation_level: int
) -> OffsetAndTimestamp | None:
    log = partition.log
    limit = partition.readable_to(isolation_level)
    match timestamp:
        case _ if timestamp == LATEST:
            # The limit depends on the isolation level: a reader of
            # committed records must not wait for what it cannot read.
            return OffsetAndTimestamp(offset=limit, timestamp_ms=-1, leader_epoch=partition.leader_epoch)
        # Nothing is ever tiered here, so all of the log is local.
        case _ if timestamp in (EARLIEST, EARLIEST_LOCAL):
            first = log.log_start_offset
            # An empty log has no record whose epoch could be answered.
            epoch = partition.leader_epoch if first == log.log_end_offset else log.epochs.epoch_at(first)
            return OffsetAndTimestamp(offset=first, timestamp_ms=-1, leader_epoch=epoch)
        case _ if timestamp == MAX_TIMESTAMP:
            found = await run_pausing(log.max_timestamp_offset(), context.broker.world.clock)
        case _ if timestamp >= 0:
            # May read and decompress a whole segment, so others are served in between.
            found = await run_pausing(log.offset_for_timestamp(timestamp), context.broker.world.clock)
        # LATEST_TIERED: nothing is tiered, which is answered with -1.
        case _:
            return None
    # A record above the limit is one that the asker cannot read yet.
    return found if found is not None and found.offset < limit else None

"""OffsetForLeaderEpoch (key 23, v2-4): where a leader epoch ended, to find out what was truncated.

Differs:  docs/DIFFERENCES.md#k23
Versions: v2 current leader epoch; v3 replica id; v4 first flexible.
Sources:  KIP-101, KIP-279, KIP-320.
"""

from __future__ import annotations

from semel.broker.api.k00_produce import missing_partition
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def refuse(request: OffsetForLeaderEpochRequest, code: ErrorCode) -> OffsetForLeaderEpochResponse:
    """Answer with this error for every partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[EpochEndOffset(partition=row.partition, error_code=code) for row in topic.partitions],
            )
            for topic in request.topics
        ]
    )


@api(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, first=2, last=4, refuse=refuse)
async def answer(context: Context, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Look up each partition's epoch."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_look_up(context, topic.topic, row) for row in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _look_up(context: Context, topic: str, row: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = context.broker.partitions.get((topic, row.partition))
    if partition is None:
        code = missing_partition(context, topic, row.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return EpochEndOffset(partition=row.partition, error_code=code)
    # A leader that was replaced without knowing it would answer from a log that others have left.
    code = partition.check_leader_epoch(row.current_leader_epoch)
    if code:
        return EpochEndOffset(partition=row.partition, error_code=code)
    end = partition.log.offset_for_leader_epoch(row.leader_epoch)
    return EpochEndOffset(partition=row.partition, leader_epoch=end.leader_epoch, end_offset=end.offset_next)

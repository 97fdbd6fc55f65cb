"""OffsetDelete (key 47, v0): forget a group's offsets of partitions that no member reads.

Differs:  docs/DIFFERENCES.md#k47
Versions: v0 only.
Sources:  KIP-496.
"""

from __future__ import annotations

from collections.abc import Mapping

from semel.broker.controller.topics import has_partition
from semel.broker.groups.offsets.types import DeleteOffsetsRequest, DeleteOffsetsResponse
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def refuse(request: OffsetDeleteRequest, code: ErrorCode) -> OffsetDeleteResponse:
    """Answer with this error at the top and for every partition."""
    return OffsetDeleteResponse(error_code=code, topics=_topics(request, {}, code))


@api(OffsetDeleteRequest, OffsetDeleteResponse, first=0, last=0, refuse=refuse)
async def answer(context: Context, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Delete the offsets of partitions that exist; the others are refused one by one."""
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    coordinator = context.broker.groups.find(request.group_id)
    if isinstance(coordinator, ErrorCode):
        return OffsetDeleteResponse(error_code=coordinator)
    asked = [(topic.name, row.partition_index) for topic in request.topics for row in topic.partitions]
    # The group is asked even if nothing is left: an unknown group is an error of its own.
    known = tuple(pair for pair in asked if has_partition(context.broker.state, *pair))
    delete = DeleteOffsetsRequest(group_id=request.group_id, partitions=known)
    response = await coordinator.ask(lambda core, token, now_ms: core.delete_offsets(token, delete, now_ms))
    assert isinstance(response, DeleteOffsetsResponse)
    if response.error_code:
        return OffsetDeleteResponse(error_code=response.error_code)
    codes = {(row.topic, row.partition): row.error_code for row in response.results}
    return OffsetDeleteResponse(topics=_topics(request, codes, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


def _topics(
    request: OffsetDeleteRequest, codes: Mapping[tuple[str, int], ErrorCode], otherwise: ErrorCode
) -> list[OffsetDeleteResponseTopic]:
    return [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(
                    partition_index=row.partition_index,
                    error_code=codes.get((topic.name, row.partition_index), otherwise),
                )
                for row in topic.partitions
            ],
        )
        for topic in request.topics
    ]

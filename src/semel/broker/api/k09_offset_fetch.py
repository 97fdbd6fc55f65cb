"""OffsetFetch (key 9, v1-10): read how far groups have committed.

Keeps:    an offset is shown only once it is durable; with require_stable, never one that a transaction may replace.
Differs:  docs/DIFFERENCES.md#k09
Versions: v2 null means all partitions, and a top-level error; v5 leader epoch; v6 first flexible; v7 require stable;
          v8 many groups; v9 member epoch; v10 topic ids.
Sources:  KIP-88, KIP-320, KIP-447, KIP-709, KIP-848.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from semel.broker.context import Context
from semel.broker.group_types import FetchedOffset, FetchOffsetsRequest
from semel.broker.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

VERSION_GROUPS = 8
VERSION_TOPIC_IDS = 10
NO_OFFSET = -1
NO_MEMBER = (None, -1)


def refuse(request: OffsetFetchRequest, code: ErrorCode) -> OffsetFetchResponse:
    """The error at the top, for every group, and for every partition (v1 has no other place for it)."""
    return OffsetFetchResponse(
        error_code=code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(partition_index=index, committed_offset=NO_OFFSET, error_code=code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
        groups=[OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in request.groups],
    )


@api(OffsetFetchRequest, OffsetFetchResponse, first=1, last=10, refuse=refuse)
async def answer(context: Context, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Look each group's offsets up."""
    if context.version >= VERSION_GROUPS:
        return OffsetFetchResponse(groups=[_group(context, group, request.require_stable) for group in request.groups])
    wanted = None
    if request.topics is not None:
        wanted = tuple((topic.name, index) for topic in request.topics for index in topic.partition_indexes)
    found = _fetch(context, request.group_id, wanted, require_stable=request.require_stable)
    if isinstance(found, ErrorCode):
        return refuse(request, found)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=row.partition,
                        committed_offset=row.offset_next,
                        committed_leader_epoch=row.leader_epoch,
                        metadata=row.metadata,
                        error_code=row.error_code,
                    )
                    for row in rows
                ],
            )
            for name, rows in groupby(found, attrgetter("topic"))
        ]
    )


def _fetch(
    context: Context,
    group_id: str,
    wanted: tuple[tuple[str, int], ...] | None,
    *,
    require_stable: bool,
    member: tuple[str | None, int] = NO_MEMBER,
) -> Sequence[FetchedOffset] | ErrorCode:
    coordinator = context.broker.groups.find(group_id)
    if isinstance(coordinator, ErrorCode):
        return coordinator
    asked = FetchOffsetsRequest(
        group_id=group_id,
        partitions=wanted,
        require_stable=require_stable,
        member_id=member[0],
        member_epoch=member[1],
    )
    fault = coordinator.core.fault_of_fetch(asked)
    if fault is not ErrorCode.NONE:
        return fault
    found = coordinator.core.fetch_offsets(asked)
    return found if wanted is not None else sorted(found, key=lambda row: (row.topic, row.partition))


def _group(context: Context, group: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup:
    named = None if group.topics is None else [(_name(context, topic), topic) for topic in group.topics]
    wanted = None
    if named is not None:
        wanted = tuple((name, index) for name, topic in named if name for index in topic.partition_indexes)
    member = (group.member_id, group.member_epoch)
    found = _fetch(context, group.group_id, wanted, require_stable=require_stable, member=member)
    if isinstance(found, ErrorCode):
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=found)
    topics = [_found(context, name, rows) for name, rows in groupby(found, attrgetter("topic"))]
    if context.version >= VERSION_TOPIC_IDS:
        # A topic that was deleted has no id to name it by.
        topics = [topic for topic in topics if topic.topic_id is not None]
        topics += [_unknown(topic) for name, topic in named or () if name is None]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _name(context: Context, topic: OffsetFetchRequestTopics) -> str | None:
    if context.version < VERSION_TOPIC_IDS:
        return topic.name
    known = context.broker.state.topic_by_id(topic.topic_id)
    return known.name if known else None


def _found(context: Context, name: str, rows: Iterable[FetchedOffset]) -> OffsetFetchResponseTopics:
    known = context.broker.state.topics.get(name)
    return OffsetFetchResponseTopics(
        name=name,
        topic_id=known.id if known else None,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=row.partition,
                committed_offset=row.offset_next,
                committed_leader_epoch=row.leader_epoch,
                metadata=row.metadata,
                error_code=row.error_code,
            )
            for row in rows
        ],
    )


def _unknown(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    code = ErrorCode.UNKNOWN_TOPIC_ID
    rows = [
        OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, error_code=code)
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=rows)

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

from semel.broker.groups.offsets.types import FetchedOffset, FetchOffsetsRequest
from semel.broker.metadata.acls import Operation, Resource
from semel.broker.network.context import Context
from semel.broker.network.registry import api
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
# Before version 9 nobody says who asks.
NO_MEMBER = (None, -1)


def refuse(request: OffsetFetchRequest, code: ErrorCode) -> OffsetFetchResponse:
    """Answer with this error at the top, for every group, and for every partition (v1 has no other place for it)."""
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
    """Look up each group's offsets."""
    if context.version >= VERSION_GROUPS:
        rows = []
        for number, group in enumerate(request.groups):
            # Each group is looked up in one stretch and the pause comes after it, so no
            # answer mixes two moments of one group.
            rows.append(_group(context, group, request.require_stable))
            await context.pause_after(number, group.group_id)
            await context.count_rows(1 + sum(len(topic.partitions) for topic in rows[-1].topics))
        return OffsetFetchResponse(groups=rows)
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
    # Partitions that the asker may not see are answered one by one below, so that the others are still found.
    shown = None if wanted is None else tuple(one for one in wanted if _may_describe(context, one[0]))
    asked = FetchOffsetsRequest(
        group_id=group_id,
        partitions=shown,
        require_stable=require_stable,
        member_id=member[0],
        member_epoch=member[1],
    )
    error_code = coordinator.core.error_for_fetch(asked)
    if error_code is not ErrorCode.NONE:
        return error_code
    # From memory and without waiting: offsets on their way are not committed yet.
    found = coordinator.core.fetch_offsets(asked)
    if wanted is None:
        described = [row for row in found if _may_describe(context, row.topic)]
        # All of a group: sorted, since `groupby` joins neighbours only.
        return sorted(described, key=lambda row: (row.topic, row.partition))
    return [*found, *(_hidden(*one) for one in wanted if not _may_describe(context, one[0]))]


def _may_describe(context: Context, topic: str) -> bool:
    return context.may(Operation.DESCRIBE, Resource.TOPIC, topic)


def _hidden(topic: str, partition: int) -> FetchedOffset:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return FetchedOffset(topic=topic, partition=partition, offset_next=NO_OFFSET, error_code=code)


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

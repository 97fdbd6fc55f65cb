"""OffsetCommit (key 8, v2-10): store how far a group has read.

Keeps:    G6 a commit of an older generation or of a client that is no member is refused; G7 an acknowledged commit
          survives a restart.
Differs:  docs/DIFFERENCES.md#k08
Versions: v2 to v4 retention time; v6 leader epoch; v7 group instance id; v8 first flexible; v10 topic ids.
Sources:  KIP-211, KIP-320, KIP-345, KIP-848.
"""

from __future__ import annotations

from collections.abc import Mapping

from semel.broker.controller.topics import has_partition
from semel.broker.groups.offsets.types import CommitRequest, CommitResponse, OffsetToCommit
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

VERSION_TOPIC_IDS = 10


def refuse(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """Answer with this error for every partition."""
    return OffsetCommitResponse(topics=[_topic(topic, {}, code) for topic in request.topics])


@api(OffsetCommitRequest, OffsetCommitResponse, first=2, last=10, refuse=refuse)
async def answer(context: Context, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Commit the partitions that exist; the others are refused without touching the group."""
    known: list[OffsetToCommit] = []
    rows: list[tuple[OffsetCommitRequestTopic, str | None]] = []
    for topic in request.topics:
        # Resolved once: a topic that is deleted while the commit waits is answered as it was found here.
        name = _name(context, topic)
        rows.append((topic, name))
        if name is not None:
            state = context.broker.state
            exists = [row for row in topic.partitions if has_partition(state, name, row.partition_index)]
            known += [_offset(name, row) for row in exists]
    # Without a known partition the group is not asked for, and not made either.
    codes = await _commit(context, request, tuple(known)) if known else {}
    by_topic: dict[str, dict[int, ErrorCode]] = {}
    for (name, index), code in codes.items():
        by_topic.setdefault(name, {})[index] = code
    return OffsetCommitResponse(topics=[_answered(topic, name, by_topic) for topic, name in rows])


def _name(context: Context, topic: OffsetCommitRequestTopic) -> str | None:
    if context.version < VERSION_TOPIC_IDS:
        return topic.name
    known = context.broker.state.topic_by_id(topic.topic_id)
    return known.name if known else None


def _offset(name: str | None, row: OffsetCommitRequestPartition) -> OffsetToCommit:
    return OffsetToCommit(
        topic=name or "",
        partition=row.partition_index,
        offset_next=row.committed_offset,
        leader_epoch=row.committed_leader_epoch,
        metadata=row.committed_metadata or "",
    )


async def _commit(
    context: Context, request: OffsetCommitRequest, offsets: tuple[OffsetToCommit, ...]
) -> dict[tuple[str, int], ErrorCode]:
    coordinator = context.broker.groups.find(request.group_id)
    if isinstance(coordinator, ErrorCode):
        return {(offset.topic, offset.partition): coordinator for offset in offsets}
    commit = CommitRequest(
        group_id=request.group_id,
        generation=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        offsets=offsets,
        retention_ms=request.retention_time_ms,
        api_version=context.version,
    )
    response = await coordinator.ask(lambda core, token, now_ms: core.commit_offsets(token, commit, now_ms))
    assert isinstance(response, CommitResponse)
    return {(row.topic, row.partition): row.error_code for row in response.results}


def _answered(
    topic: OffsetCommitRequestTopic, name: str | None, codes: Mapping[str, Mapping[int, ErrorCode]]
) -> OffsetCommitResponseTopic:
    if name is None:
        # A topic that was deleted has no name by which its offset could be stored.
        return _topic(topic, {}, ErrorCode.UNKNOWN_TOPIC_ID)
    return _topic(topic, codes.get(name, {}), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _topic(
    topic: OffsetCommitRequestTopic, codes: Mapping[int, ErrorCode], otherwise: ErrorCode
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(
                partition_index=row.partition_index, error_code=codes.get(row.partition_index, otherwise)
            )
            for row in topic.partitions
        ],
    )

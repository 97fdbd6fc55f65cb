"""Offsets of a group: read and committed at its coordinator, without being a member."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from semel.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from semel.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from semel.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from semel.wire.cluster import CoordinatorKind, WireCluster
from semel.wire.coordinators import Request, ask_coordinator
from semel.wire.deadline import Deadline
from semel.wire.leaders import by_topic
from semel.wire.topology import TopicPartition

NAMES_VERSION_MAX = 9  # later ones name topics by id
STABLE_VERSION_MIN = 7
ALL_TOPICS_VERSION_MIN = 2
DESCRIBE_VERSION_MAX = 5  # later ones call a group that does not exist an error


# Not the broker's, which is a record of its log: see `offsets.EpochEnd`.
@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """What a group has committed for a partition: the next offset to read, and a note of who committed.

    What a coordinator answers. The embedded one's class of this name holds the record and its place in the log.
    """

    offset_next: int
    leader_epoch: int = -1
    metadata: str = ""


def committed_offsets(
    cluster: WireCluster,
    group: str,
    partitions: Collection[TopicPartition] | None = None,
    *,
    deadline: Deadline,
    require_stable: bool = True,
) -> dict[TopicPartition, CommittedOffset]:
    """Read what a group has committed, for these partitions or for all; partitions without an offset are left out.

    With `require_stable` an offset that an open transaction may still change is waited for.
    """
    answer = ask_coordinator(
        cluster,
        Request(
            kind=CoordinatorKind.GROUP,
            key=group,
            message=_fetch_request(group, partitions, require_stable=require_stable),
            response=OffsetFetchResponse,
            codes=_fetch_codes,
            what=f"reading the offsets of group {group!r}",
            # An older broker would pass over `require_stable` and give an offset
            # that is about to be replaced (KIP-447).
            version_min=STABLE_VERSION_MIN if require_stable else ALL_TOPICS_VERSION_MIN,
            version_max=NAMES_VERSION_MAX,
        ),
        deadline,
    )
    return {
        partition: CommittedOffset(
            offset_next=row.committed_offset, leader_epoch=row.committed_leader_epoch, metadata=row.metadata or ""
        )
        for partition, row in _rows(answer)
        # -1 is how a coordinator says "nothing committed".
        if row.committed_offset >= 0
    }


def _fetch_request(
    group: str, partitions: Collection[TopicPartition] | None, *, require_stable: bool
) -> OffsetFetchRequest:
    topics = None if partitions is None else by_topic(partitions).items()
    listed = None if topics is None else [OffsetFetchRequestTopics(name=t, partition_indexes=p) for t, p in topics]
    older = None if topics is None else [OffsetFetchRequestTopic(name=t, partition_indexes=p) for t, p in topics]
    return OffsetFetchRequest(
        # Both forms are filled in; the version that is agreed on takes one of them.
        groups=[OffsetFetchRequestGroup(group_id=group, topics=listed)],
        group_id=group,
        topics=older,
        require_stable=require_stable,
    )


def _rows(
    answer: OffsetFetchResponse,
) -> Iterator[tuple[TopicPartition, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]]:
    for group in answer.groups:
        for topic in group.topics:
            yield from ((TopicPartition(topic.name, row.partition_index), row) for row in topic.partitions)
    for older in answer.topics:
        yield from ((TopicPartition(older.name, row.partition_index), row) for row in older.partitions)


def _fetch_codes(answer: OffsetFetchResponse) -> list[int]:
    return [
        answer.error_code,
        *(group.error_code for group in answer.groups),
        *(row.error_code for _, row in _rows(answer)),
    ]


def commit_offsets(
    cluster: WireCluster, group: str, offsets: Mapping[TopicPartition, CommittedOffset], *, deadline: Deadline
) -> None:
    """Commit offsets of a group without members (member "", generation -1), outside any transaction."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic, partitions=[_commit_row(number, offsets[TopicPartition(topic, number)]) for number in numbers]
        )
        for topic, numbers in by_topic(offsets).items()
    ]
    ask_coordinator(
        cluster,
        Request(
            kind=CoordinatorKind.GROUP,
            key=group,
            message=OffsetCommitRequest(group_id=group, topics=topics),
            response=OffsetCommitResponse,
            codes=lambda answer: [row.error_code for topic in answer.topics for row in topic.partitions],
            what=f"committing offsets of group {group!r}",
            version_max=NAMES_VERSION_MAX,
        ),
        deadline,
    )


def _commit_row(number: int, offset: CommittedOffset) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=offset.offset_next,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def count_members(cluster: WireCluster, group: str, *, deadline: Deadline) -> int:
    """Count the members of a classic group.

    Why: a commit in a transaction that names no member is taken even while a group has members, whose commits and ours
    would then overwrite each other; who needs a group of its own asks first.
    """
    answer = ask_coordinator(
        cluster,
        Request(
            kind=CoordinatorKind.GROUP,
            key=group,
            message=DescribeGroupsRequest(groups=[group]),
            response=DescribeGroupsResponse,
            codes=lambda answer: [row.error_code for row in answer.groups],
            what=f"asking for the members of group {group!r}",
            version_max=DESCRIBE_VERSION_MAX,
        ),
        deadline,
    )
    return sum(len(row.members) for row in answer.groups)

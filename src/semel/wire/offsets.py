"""Offsets of a log: earliest, latest, by time, by leader epoch. Those of a group are in `group_offsets.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from semel.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from semel.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from semel.wire.cluster import WireCluster
from semel.wire.deadline import Deadline
from semel.wire.group_offsets import CommittedOffset, commit_offsets, committed_offsets, count_members
from semel.wire.leaders import Question, Row, ask_leaders, by_topic
from semel.wire.topology import Isolation, TopicPartition

__all__ = [
    "EARLIEST",
    "LATEST",
    "NO_OFFSET",
    "CommittedOffset",
    "EpochEnd",
    "ListedOffset",
    "commit_offsets",
    "committed_offsets",
    "count_members",
    "epoch_ends",
    "list_offsets",
]

LATEST = -1
EARLIEST = -2
NO_OFFSET = -1
CONSUMER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    """What ListOffsets answered; `offset` is NO_OFFSET when no record has that time or a later one."""

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


# The broker has an EpochEnd and a CommittedOffset of its own: clients and broker share bytes, never objects, or one
# mistake would be made on both sides and no test would see it.
@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """The largest leader epoch at or below the one asked for, and the offset where it ends; -1 when unknown.

    A broker's answer. The log of the embedded broker has a class of this name, which always knows.
    """

    leader_epoch: int
    offset_end: int


def list_offsets(
    cluster: WireCluster,
    wanted: Mapping[TopicPartition, int],
    *,
    deadline: Deadline,
    isolation: Isolation = Isolation.READ_COMMITTED,
) -> dict[TopicPartition, ListedOffset]:
    """Look up EARLIEST, LATEST or the first offset at or after a time in ms, each partition at its leader.

    With READ_COMMITTED, LATEST is the last stable offset. Every partition asked for is in the answer.
    """

    def request(part: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=number, timestamp=part[TopicPartition(topic, number)])
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(part).items()
        ]
        # For brokers with tiered storage, which may have to look there.
        timeout_ms = cluster.request_deadline(deadline).left_ms
        return ListOffsetsRequest(
            replica_id=CONSUMER, isolation_level=isolation.number, topics=topics, timeout_ms=timeout_ms
        )

    question = Question("looking up an offset", request, ListOffsetsResponse, _listed)
    return ask_leaders(cluster, wanted, question, deadline)


def _listed(answer: ListOffsetsResponse) -> Iterator[Row[ListedOffset]]:
    for topic in answer.topics:
        for row in topic.partitions:
            value = ListedOffset(offset=row.offset, timestamp_ms=row.timestamp, leader_epoch=row.leader_epoch)
            yield Row(TopicPartition(topic.name, row.partition_index), row.error_code, value)


def epoch_ends(
    cluster: WireCluster, wanted: Mapping[TopicPartition, int], *, deadline: Deadline
) -> dict[TopicPartition, EpochEnd]:
    """Ask each leader where a leader epoch ended in its log: below what was read means the log was truncated."""

    def request(part: Mapping[TopicPartition, int]) -> OffsetForLeaderEpochRequest:
        topics = [
            OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    OffsetForLeaderPartition(partition=number, leader_epoch=part[TopicPartition(topic, number)])
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(part).items()
        ]
        return OffsetForLeaderEpochRequest(replica_id=CONSUMER, topics=topics)

    question = Question("looking up the end of a leader epoch", request, OffsetForLeaderEpochResponse, _ends)
    return ask_leaders(cluster, wanted, question, deadline)


def _ends(answer: OffsetForLeaderEpochResponse) -> Iterator[Row[EpochEnd]]:
    for topic in answer.topics:
        for row in topic.partitions:
            value = EpochEnd(leader_epoch=row.leader_epoch, offset_end=row.end_offset)
            yield Row(TopicPartition(topic.topic, row.partition), row.error_code, value)

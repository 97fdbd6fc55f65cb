"""ConsumerGroupDescribe (key 69, v0-1): state, epochs and members of groups of the consumer protocol.

Differs:  docs/DIFFERENCES.md#k69
Versions: v0 first flexible; v1 the type of a member.
Sources:  KIP-848, KIP-1099.
"""

from __future__ import annotations

from collections.abc import Iterable

from semel.broker.groups.consumer.records import by_topic
from semel.broker.groups.consumer.types import DescribedConsumerMember, TopicIdPartition
from semel.broker.metadata.acls import Resource
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CONSUMER_MEMBER = 1


def refuse(request: ConsumerGroupDescribeRequest, code: ErrorCode) -> ConsumerGroupDescribeResponse:
    """Answer with this error for every group."""
    return ConsumerGroupDescribeResponse(
        groups=[DescribedGroup(group_id=group_id, error_code=code) for group_id in request.group_ids]
    )


@api(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, first=0, last=1, refuse=refuse)
async def answer(context: Context, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    """Describe each group that is coordinated here."""
    rows: list[DescribedGroup] = []
    for number, group_id in enumerate(request.group_ids):
        rows.append(_describe(context, group_id))
        await context.pause_after(number, group_id)
        await context.count_rows(1 + len(rows[-1].members))
    for number, row in enumerate(rows if request.include_authorized_operations else ()):
        await context.pause_after(number)
        if not row.error_code:
            row.authorized_operations = context.operations(Resource.GROUP, row.group_id)
    return ConsumerGroupDescribeResponse(groups=rows)


def _describe(context: Context, group_id: str) -> DescribedGroup:
    coordinator = context.broker.groups.find(group_id)
    # Not left to the coordinator, which is found by a hash that an empty name has too.
    if not group_id:
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
    if isinstance(coordinator, ErrorCode):
        return DescribedGroup(group_id=group_id, error_code=coordinator)
    group = coordinator.core.describe_consumer_group(group_id)
    return DescribedGroup(
        error_code=group.error_code,
        error_message=group.error_message,
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor,
        members=[_member(context, member) for member in group.members],
    )


def _member(context: Context, member: DescribedConsumerMember) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_names,
        subscribed_topic_regex=member.subscribed_regex,
        assignment=_assignment(context, member.assignment),
        target_assignment=_assignment(context, member.target),
        # Members of the classic protocol cannot be in such a group here, so there is one type only.
        member_type=CONSUMER_MEMBER,
    )


def _assignment(context: Context, partitions: Iterable[TopicIdPartition]) -> Assignment:
    """Partitions by topic; one that was deleted has no name and is left out."""
    names = context.broker.state.topic_names
    rows = by_topic(partitions).items()
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=names[topic_id], partitions=found)
            for topic_id, found in rows
            if topic_id in names
        ]
    )

"""ConsumerGroupHeartbeat (key 68, v0-1): join, stay in and leave a group whose partitions the broker hands out.

Keeps:    G11 a partition has one owner at a time; G12 a member of an older epoch is refused.
Differs:  docs/DIFFERENCES.md#k68
Versions: v0 first flexible; v1 regular expressions, and the member makes its own id.
Sources:  KIP-848, KIP-1082.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from semel.broker.groups.consumer.records import by_topic
from semel.broker.groups.consumer.types import ConsumerHeartbeat, HeartbeatAnswer, TopicIdPartition
from semel.broker.metadata.acls import Operation, Resource
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

NO_TOPIC_ID = UUID(int=0)


def refuse(_: ConsumerGroupHeartbeatRequest, code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    """Answer with this error."""
    return ConsumerGroupHeartbeatResponse(error_code=code)


@api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, first=0, last=1, refuse=refuse)
async def answer(context: Context, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    """Wait until what the heartbeat changed is durable."""
    coordinator = context.broker.groups.find(request.group_id)
    if isinstance(coordinator, ErrorCode):
        return refuse(request, coordinator)
    heartbeat = _heartbeat(context, request)
    response = await coordinator.ask(lambda core, token, now_ms: core.consumer_heartbeat(token, heartbeat, now_ms))
    assert isinstance(response, HeartbeatAnswer)
    return ConsumerGroupHeartbeatResponse(
        error_code=response.error_code,
        error_message=response.error_message,
        member_id=response.member_id,
        member_epoch=response.member_epoch,
        heartbeat_interval_ms=response.heartbeat_interval_ms,
        assignment=None if response.assignment is None else _assignment(response.assignment),
    )


def _heartbeat(context: Context, request: ConsumerGroupHeartbeatRequest) -> ConsumerHeartbeat:
    # Null means "as before" and an empty list means "none" (KIP-848), so the two stay apart.
    names, owned = request.subscribed_topic_names, request.topic_partitions
    return ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_names=None if names is None else frozenset(names),
        subscribed_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=None if owned is None else frozenset(_partitions(owned)),
        hidden_topics=_hidden(context),
        client_id=context.client_id,
        client_host=f"/{context.session.peer.rpartition(':')[0]}",
        api_version=context.version,
    )


def _hidden(context: Context) -> frozenset[str]:
    # A regular expression must not tell its owner of topics that it may not see (KIP-848).
    if context.broker.authorizer is None:
        return frozenset()
    names = context.broker.state.topics
    return frozenset(name for name in names if not context.may(Operation.DESCRIBE, Resource.TOPIC, name))


def _partitions(rows: Iterable[TopicPartitions]) -> Iterable[TopicIdPartition]:
    return ((row.topic_id or NO_TOPIC_ID, index) for row in rows for index in row.partitions)


def _assignment(partitions: Iterable[TopicIdPartition]) -> Assignment:
    rows = by_topic(partitions).items()
    return Assignment(
        topic_partitions=[TopicPartitions(topic_id=topic_id, partitions=found) for topic_id, found in rows]
    )

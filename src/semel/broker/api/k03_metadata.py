"""Metadata (key 3, v0-13): brokers, topics, partitions and their leaders.

Keeps:    B9 an answer comes from one cluster state, never from two.
Differs:  docs/DIFFERENCES.md#k03
Versions: v1 null means all topics; v4 auto-creation switch; v9 first flexible; v10 topic ids; v13 top-level error.
Sources:  KIP-4, KIP-430, KIP-516, KIP-1102.
"""

from __future__ import annotations

from uuid import UUID

from semel.broker.cluster_state import OFFLINE, Topic
from semel.broker.context import Context
from semel.broker.controller import check_topic_name
from semel.broker.refused import Refused
from semel.broker.registry import api
from semel.broker.topics import create_topics_now
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ALL_TOPIC_OPERATIONS = 0b1101_1111_1000
ALL_CLUSTER_OPERATIONS = 0b1_1111_1010_0000


def refuse(request: MetadataRequest, code: ErrorCode) -> MetadataResponse:
    """The error for each topic named, and at the top where the version has it."""
    topics = [
        MetadataResponseTopic(name=topic.name, topic_id=topic.topic_id, error_code=code)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=code)


@api(MetadataRequest, MetadataResponse, first=0, last=13, refuse=refuse)
async def answer(context: Context, request: MetadataRequest) -> MetadataResponse:
    """Describe the topics asked for; create missing ones when both sides allow it."""
    wants_all = request.topics is None or (context.version == 0 and not request.topics)
    if not wants_all:
        _create_missing(context, request)
    state = context.broker.state
    if wants_all:
        topics = [_describe(context, topic) for topic in state.topics.values()]
    else:
        unique = {(asked.name, asked.topic_id): asked for asked in request.topics or ()}
        topics = [_look_up(context, asked) for asked in unique.values()]
    if request.include_topic_authorized_operations:
        for row in topics:
            row.topic_authorized_operations = ALL_TOPIC_OPERATIONS if not row.error_code else -(2**31)
    cluster_operations = ALL_CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else -(2**31)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in context.broker.state.nodes
        ],
        cluster_id=state.cluster_id,
        controller_id=context.broker.state.controller_id,
        topics=topics,
        cluster_authorized_operations=cluster_operations,
    )


def _create_missing(context: Context, request: MetadataRequest) -> None:
    settings = context.broker.settings
    allowed = context.version < 4 or request.allow_auto_topic_creation
    if not allowed or not settings.enabled("auto.create.topics.enable"):
        return
    missing = {asked.name for asked in request.topics or () if asked.name and not asked.topic_id}
    create_topics_now(context.broker, sorted(missing - context.broker.state.topics.keys()))


def _look_up(context: Context, asked: MetadataRequestTopic) -> MetadataResponseTopic:
    state = context.broker.state
    if asked.topic_id is not None:
        topic = state.topic_by_id(asked.topic_id)
        return _describe(context, topic) if topic else _unknown(None, asked.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
    name = asked.name or ""
    topic = state.topics.get(name)
    if topic is not None:
        return _describe(context, topic)
    try:
        check_topic_name(name)
    except Refused as refused:
        return _unknown(name, None, ErrorCode(refused.code))
    return _unknown(name, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _unknown(name: str | None, topic_id: UUID | None, code: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(name=name, topic_id=topic_id, error_code=code)


def _describe(context: Context, topic: Topic) -> MetadataResponseTopic:
    alive = {node.id for node in context.broker.state.nodes}
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(
                error_code=ErrorCode.LEADER_NOT_AVAILABLE if place.leader == OFFLINE else ErrorCode.NONE,
                partition_index=index,
                leader_id=place.leader,
                leader_epoch=place.leader_epoch,
                replica_nodes=place.replicas,
                isr_nodes=place.isr,
                offline_replicas=[replica for replica in place.replicas if replica not in alive],
            )
            for index, place in enumerate(topic.partitions)
        ],
    )

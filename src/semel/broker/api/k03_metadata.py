"""Metadata (key 3, v0-13): brokers, topics, partitions and their leaders.

Keeps:    B9 an answer comes from one cluster state, never from two.
Differs:  docs/DIFFERENCES.md#k03
Versions: v1 null means all topics; v4 auto-creation switch; v9 first flexible; v10 topic ids; v13 top-level error.
Sources:  KIP-4, KIP-430, KIP-516, KIP-1102.
"""

from __future__ import annotations

from uuid import UUID

from semel.broker.controller.controller import check_topic_name
from semel.broker.controller.topics import create_topics_now
from semel.broker.metadata.acls import Operation, Resource
from semel.broker.metadata.cluster_state import OFFLINE, ClusterState, Topic
from semel.broker.network.context import ELEMENTS_BETWEEN_PAUSES, Context
from semel.broker.network.registry import api
from semel.broker.runtime.refused import Refused
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

# How Kafka says that the operations were not asked for.
NOT_TOLD = -(2**31)


def refuse(request: MetadataRequest, code: ErrorCode) -> MetadataResponse:
    """Answer with this error for each topic named, and at the top where the version has it."""
    topics = [
        MetadataResponseTopic(name=topic.name, topic_id=topic.topic_id, error_code=code)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=code)


@api(MetadataRequest, MetadataResponse, first=0, last=13, refuse=refuse)
async def answer(context: Context, request: MetadataRequest) -> MetadataResponse:
    """Describe the topics asked for; create missing ones when both sides allow it."""
    # Version 0 cannot say null: an empty list is all topics there, and none from version 1 on.
    wants_all = request.topics is None or (context.version == 0 and not request.topics)
    not_created = frozenset[str]() if wants_all else _create_missing(context, request)
    # Read once, after what was missing is made: at the pauses below the broker may move on to another state (B9).
    state = context.broker.state
    if wants_all:
        topics = await _all_topics(context, state)
    else:
        topics = await _asked_topics(context, state, request, not_created)
    if request.include_topic_authorized_operations:
        for number, row in enumerate(topics):
            await context.pause_after(number)
            is_shown = not row.error_code and row.name is not None
            row.topic_authorized_operations = (
                context.operations(Resource.TOPIC, row.name or "") if is_shown else NOT_TOLD
            )
    operations = cluster_operations(context) if request.include_cluster_authorized_operations else NOT_TOLD
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in state.nodes
        ],
        cluster_id=state.cluster_id,
        controller_id=state.controller_id,
        topics=topics,
        cluster_authorized_operations=operations,
    )


def cluster_operations(context: Context) -> int:
    """What the asker may do with the cluster, as a bit field; empty for users who may not describe it."""
    is_told = context.may(Operation.DESCRIBE, Resource.CLUSTER)
    # 0 and not NOT_TOLD, as in Apache Kafka: the answer was asked for, and it is "nothing".
    return context.operations(Resource.CLUSTER) if is_told else 0


def _may_describe(context: Context, topic: str) -> bool:
    return context.may(Operation.DESCRIBE, Resource.TOPIC, topic)


def _may_create(context: Context, topic: str) -> bool:
    return context.may(Operation.CREATE, Resource.CLUSTER) or context.may(Operation.CREATE, Resource.TOPIC, topic)


def _create_missing(context: Context, request: MetadataRequest) -> frozenset[str]:
    """Create what may be created; returns what the asker had no right to."""
    settings = context.broker.settings
    # Clients before version 4 cannot say no.
    allowed = context.version < 4 or request.allow_auto_topic_creation
    if not allowed or not settings.enabled("auto.create.topics.enable"):
        return frozenset()
    # A topic that is asked for by its id cannot be made: ids are given by the controller.
    asked = {topic.name for topic in request.topics or () if topic.name and not topic.topic_id}
    # Only what the asker may describe: for all other names it must not learn whether a topic was missing. Sorted, since
    # a set has another order in every process, and new topics draw ids and leaders from a seed.
    missing = sorted(name for name in asked - context.broker.state.topics.keys() if _may_describe(context, name))
    create_topics_now(context.broker, [name for name in missing if _may_create(context, name)])
    return frozenset(name for name in missing if not _may_create(context, name))


async def _all_topics(context: Context, state: ClusterState) -> list[MetadataResponseTopic]:
    topics: list[MetadataResponseTopic] = []
    for number, topic in enumerate(state.topics.values()):
        await context.pause_after(number)
        if _may_describe(context, topic.name):
            topics.append(await _describe(context, state, topic))
    return topics


async def _asked_topics(
    context: Context, state: ClusterState, request: MetadataRequest, not_created: frozenset[str]
) -> list[MetadataResponseTopic]:
    """Each topic once, however often it is asked for: an id counts without the name that stands beside it."""
    topics: list[MetadataResponseTopic] = []
    for number, asked in enumerate({asked.topic_id or asked.name: asked for asked in request.topics or ()}.values()):
        await context.pause_after(number)
        if asked.name in not_created:
            topics.append(_unknown(asked.name, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            topics.append(await _look_up(context, state, asked))
    return topics


async def _look_up(context: Context, state: ClusterState, asked: MetadataRequestTopic) -> MetadataResponseTopic:
    if asked.topic_id is not None:
        topic = state.topic_by_id(asked.topic_id)
        if topic is None:
            return _unknown(None, asked.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        is_shown = _may_describe(context, topic.name)
        hidden = _unknown(None, asked.topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return await _describe(context, state, topic) if is_shown else hidden
    name = asked.name or ""
    if not _may_describe(context, name):
        return _unknown(name, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic = state.topics.get(name)
    if topic is not None:
        return await _describe(context, state, topic)
    try:
        check_topic_name(name)
    except Refused as refused:
        # A name that could never be a topic is an error of its own, so that clients stop asking.
        return _unknown(name, None, ErrorCode(refused.code))
    return _unknown(name, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _unknown(name: str | None, topic_id: UUID | None, code: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(name=name, topic_id=topic_id, error_code=code)


async def _describe(context: Context, state: ClusterState, topic: Topic) -> MetadataResponseTopic:
    alive = {node.id for node in state.nodes}
    partitions: list[MetadataResponsePartition] = []
    for index, partition in enumerate(topic.partitions):
        if index % ELEMENTS_BETWEEN_PAUSES == 0:
            await context.count_rows(min(ELEMENTS_BETWEEN_PAUSES, len(topic.partitions) - index))
        partitions.append(
            MetadataResponsePartition(
                # Clients ask again after this one.
                error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == OFFLINE else ErrorCode.NONE,
                partition_index=index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
                offline_replicas=[replica for replica in partition.replicas if replica not in alive],
            )
        )
    return MetadataResponseTopic(
        name=topic.name, topic_id=topic.id, is_internal=topic.is_internal, partitions=partitions
    )

"""CreateTopics (key 19, v2-7): create topics, each on its own merits.

Keeps:    B5 a topic is durable before it is visible.
Differs:  docs/DIFFERENCES.md#k19
Versions: v1 validate only; v4 defaults for count and factor; v5 first flexible, returns settings; v7 topic id.
Sources:  KIP-4, KIP-464, KIP-525, KIP-516.
"""

from __future__ import annotations

from collections import Counter

from semel.broker.controller.controller import Planning
from semel.broker.metadata.cluster_state import TopicSet
from semel.broker.metadata.config import TOPIC_KEYS, effective_topic_config
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.runtime.refused import Refused
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

# A commit publishes a new state to all brokers, which open the partitions: a piece at a time, others in between.
TOPICS_AT_ONCE_MAX = 50
SOURCE_TOPIC = 1
SOURCE_STATIC_BROKER = 4
SOURCE_DEFAULT = 5


def refuse(request: CreateTopicsRequest, code: ErrorCode) -> CreateTopicsResponse:
    """Answer with this error for every topic."""
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=topic.name, error_code=code, error_message=None) for topic in request.topics]
    )


@api(CreateTopicsRequest, CreateTopicsResponse, first=2, last=7, refuse=refuse)
async def answer(context: Context, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Plan every topic, then commit those that passed."""
    # Counted before anything is planned: which of two topics of one name was meant, nobody can say.
    times = Counter(topic.name for topic in request.topics)
    rows: list[CreatableTopicResult] = []
    planned: list[TopicSet] = []
    # Against the controller's state and not the broker's own, which may be older.
    planning = Planning.beside(context.broker.controller.state)
    # As in Apache Kafka a name that comes twice is refused once.
    for number, topic in enumerate({topic.name: topic for topic in request.topics}.values(), 1):
        if times[topic.name] > 1:
            rows.append(_refused(topic.name, ErrorCode.INVALID_REQUEST, f"Duplicate topic name: {topic.name}"))
        else:
            rows.append(_planned(context, topic, planning, planned))
        if number % TOPICS_AT_ONCE_MAX == 0 and not request.validate_only:
            # What others do in the meantime counts for the rest, so what was planned is made first.
            context.broker.controller.commit(planned)
            planned = []
            await context.broker.world.clock.sleep_ms(0)
            planning = Planning.beside(context.broker.controller.state)
    if not request.validate_only:
        context.broker.controller.commit(planned)
    return CreateTopicsResponse(topics=rows)


def _planned(
    context: Context, topic: CreatableTopic, planning: Planning, planned: list[TopicSet]
) -> CreatableTopicResult:
    """Plan one topic and answer for it."""
    try:
        plan = _plan(context, topic, planning)
    except Refused as refused:
        return _refused(topic.name, ErrorCode(refused.code), refused.summary)
    planned.append(plan)
    return _created(context, plan)


def _refused(name: str, code: ErrorCode, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=message)


def _plan(context: Context, topic: CreatableTopic, planning: Planning) -> TopicSet:
    settings = context.broker.settings
    if topic.assignments and (topic.num_partitions != -1 or topic.replication_factor != -1):
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set: use one of them.",
        )
    empty = next((row.name for row in topic.configs if row.value is None), None)
    if empty is not None:
        raise Refused(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {empty}")
    return context.broker.controller.plan_topic(
        topic.name,
        # -1 asks for the broker's default (KIP-464).
        partitions=settings.number("num.partitions") if topic.num_partitions == -1 else topic.num_partitions,
        replication_factor=(
            settings.number("default.replication.factor")
            if topic.replication_factor == -1
            else topic.replication_factor
        ),
        config={row.name: row.value for row in topic.configs if row.value is not None},
        assignments={row.partition_index: row.broker_ids for row in topic.assignments} or None,
        planning=planning,
    )


def _created(context: Context, plan: TopicSet) -> CreatableTopicResult:
    topic = plan.topic
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=_configs(context, plan),
    )


def _configs(context: Context, plan: TopicSet) -> list[CreatableTopicConfigs]:
    own, given = plan.topic.config, context.broker.broker_config()
    rows = []
    for name, value in effective_topic_config(own, given).items():
        # A dynamic setting of all brokers counts as static here; DescribeConfigs tells them apart.
        inherited = SOURCE_STATIC_BROKER if TOPIC_KEYS[name].broker_key in given else SOURCE_DEFAULT
        source = SOURCE_TOPIC if name in own else inherited
        rows.append(CreatableTopicConfigs(name=name, value=value, config_source=source))
    return rows

"""CreatePartitions (key 37, v0-3): grow topics.

Keeps:    B5 a new partition is durable before it is visible.
Differs:  docs/DIFFERENCES.md#k37
Versions: v2 first flexible; v3 throttling error.
Sources:  KIP-195, KIP-599.
"""

from __future__ import annotations

from collections import Counter

from semel.broker.controller.controller import Planning
from semel.broker.metadata.cluster_state import MetadataRecord
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.runtime.refused import Refused
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

# Each commit makes all brokers open the new partitions, so a few topics at a time, and others are served in between.
TOPICS_AT_ONCE_MAX = 50


def refuse(request: CreatePartitionsRequest, code: ErrorCode) -> CreatePartitionsResponse:
    """Answer with this error for every topic."""
    rows = [CreatePartitionsTopicResult(name=topic.name, error_code=code) for topic in request.topics]
    return CreatePartitionsResponse(results=rows)


@api(CreatePartitionsRequest, CreatePartitionsResponse, first=0, last=3, refuse=refuse)
async def answer(context: Context, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Plan every topic, then commit those that passed; a topic named twice is refused."""
    times = Counter(topic.name for topic in request.topics)
    planning = Planning.beside(context.broker.controller.state)
    planned: list[MetadataRecord] = []
    rows = []
    for number, topic in enumerate({topic.name: topic for topic in request.topics}.values(), 1):
        if number % TOPICS_AT_ONCE_MAX == 0 and not request.validate_only:
            # What others do in the meantime counts for the rest, so what was planned is made first.
            context.broker.controller.commit(planned)
            planned = []
            await context.broker.world.clock.sleep_ms(0)
            planning = Planning.beside(context.broker.controller.state)
        result = CreatePartitionsTopicResult(name=topic.name)
        rows.append(result)
        try:
            planned.append(_plan(context, topic, is_twice=times[topic.name] > 1, planning=planning))
        except Refused as refused:
            result.error_code, result.error_message = ErrorCode(refused.code), refused.summary
    if not request.validate_only:
        context.broker.controller.commit(planned)
    return CreatePartitionsResponse(results=rows)


def _plan(context: Context, topic: CreatePartitionsTopic, *, is_twice: bool, planning: Planning) -> MetadataRecord:
    if is_twice:
        raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    # Null lets the controller choose brokers; an empty list is an assignment, and a wrong one.
    assignments = None if topic.assignments is None else [row.broker_ids for row in topic.assignments]
    return context.broker.controller.plan_more_partitions(topic.name, topic.count, assignments, planning)

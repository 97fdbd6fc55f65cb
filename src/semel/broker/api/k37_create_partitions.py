"""CreatePartitions (key 37, v0-3): grow topics.

Keeps:    B5 a new partition is durable before it is visible.
Differs:  docs/DIFFERENCES.md#k37
Versions: v2 first flexible; v3 throttling error.
Sources:  KIP-195, KIP-599.
"""

from __future__ import annotations

from semel.broker.cluster_state import MetadataRecord
from semel.broker.context import Context
from semel.broker.refused import Refused
from semel.broker.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def refuse(request: CreatePartitionsRequest, code: ErrorCode) -> CreatePartitionsResponse:
    """The same error for every topic."""
    rows = [CreatePartitionsTopicResult(name=topic.name, error_code=code) for topic in request.topics]
    return CreatePartitionsResponse(results=rows)


@api(CreatePartitionsRequest, CreatePartitionsResponse, first=0, last=3, refuse=refuse)
async def answer(context: Context, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Plan every topic, then commit those that passed; a topic named twice is refused."""
    names = [topic.name for topic in request.topics]
    planned: list[MetadataRecord] = []
    rows = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        result = CreatePartitionsTopicResult(name=topic.name)
        rows.append(result)
        try:
            planned.append(_plan(context, topic, is_twice=names.count(topic.name) > 1))
        except Refused as refused:
            result.error_code, result.error_message = ErrorCode(refused.code), refused.summary
    if not request.validate_only:
        context.broker.controller.commit(planned)
    return CreatePartitionsResponse(results=rows)


def _plan(context: Context, topic: CreatePartitionsTopic, *, is_twice: bool) -> MetadataRecord:
    if is_twice:
        raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    assignments = None if topic.assignments is None else [row.broker_ids for row in topic.assignments]
    return context.broker.controller.plan_more_partitions(topic.name, topic.count, assignments)

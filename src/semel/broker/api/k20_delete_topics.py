"""DeleteTopics (key 20, v1-6): delete topics by name or id.

Differs:  docs/DIFFERENCES.md#k20
Versions: v4 first flexible; v5 error messages; v6 by topic id.
Sources:  KIP-4, KIP-516, KIP-599.
"""

from __future__ import annotations

from collections import Counter

from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.runtime.refused import Refused
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)


def refuse(request: DeleteTopicsRequest, code: ErrorCode) -> DeleteTopicsResponse:
    """Answer with this error for every topic."""
    asked = list(request.topics) or [DeleteTopicState(name=name) for name in request.topic_names]
    rows = [DeletableTopicResult(name=row.name, topic_id=row.topic_id, error_code=code) for row in asked]
    return DeleteTopicsResponse(responses=rows)


@api(DeleteTopicsRequest, DeleteTopicsResponse, first=1, last=6, refuse=refuse)
async def answer(context: Context, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete the topics that exist."""
    if not context.broker.settings.enabled("delete.topic.enable"):
        return refuse(request, ErrorCode.TOPIC_DELETION_DISABLED)
    asked = request.topics if context.version >= 6 else [DeleteTopicState(name=name) for name in request.topic_names]
    times = Counter((row.name, row.topic_id) for row in asked)
    rows: list[DeletableTopicResult] = []
    for number, row in enumerate({(row.name, row.topic_id): row for row in asked}.values()):
        await context.pause_after(number)
        if times[row.name, row.topic_id] > 1:
            rows.append(_refused(row, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
            continue
        rows.append(_delete(context, row))
        if not rows[-1].error_code:
            await context.broker.world.clock.sleep_ms(0)  # files were removed, which takes its time
    return DeleteTopicsResponse(responses=rows)


def _refused(row: DeleteTopicState, code: ErrorCode, message: str) -> DeletableTopicResult:
    return DeletableTopicResult(name=row.name, topic_id=row.topic_id, error_code=code, error_message=message)


def _delete(context: Context, row: DeleteTopicState) -> DeletableTopicResult:
    state = context.broker.state
    # An id that is null in the protocol is a UUID of zeros, which decodes to None.
    if (row.topic_id is None) == (row.name is None):
        return _refused(row, ErrorCode.INVALID_REQUEST, "You must specify either a topic name or a topic id, not both.")
    if row.topic_id is not None:
        topic = state.topic_by_id(row.topic_id)
        if topic is None:
            message = "This server does not host this topic ID."
            return DeletableTopicResult(
                name=None, topic_id=row.topic_id, error_code=ErrorCode.UNKNOWN_TOPIC_ID, error_message=message
            )
        name = topic.name
    else:
        name = row.name or ""
    # Read before the topic is gone.
    result = DeletableTopicResult(name=name, topic_id=state.topics[name].id if name in state.topics else None)
    controller = context.broker.controller
    try:
        # The name is what this broker knows, which may be old: the controller knows whether the topic was made again.
        controller.commit([controller.plan_removal(name, row.topic_id)])
    except Refused as refused:
        result.error_code, result.error_message = ErrorCode(refused.code), refused.summary
    return result

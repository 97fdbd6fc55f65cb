"""DeleteRecords (key 21, v0-2): forget the records of partitions below an offset.

Keeps:    a deleted record stays deleted: the new log start offset is durable before it is answered.
Differs:  docs/DIFFERENCES.md#k21
Versions: v2 first flexible.
Sources:  KIP-107.
"""

from __future__ import annotations

from semel.broker.api.k00_produce import missing_partition
from semel.broker.log.types import ReadRefused
from semel.broker.metadata.cluster_state import INTERNAL_TOPICS
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.replication.partition import Partition
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

NO_OFFSET = -1


def refuse(request: DeleteRecordsRequest, code: ErrorCode) -> DeleteRecordsResponse:
    """Answer with this error for every partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_refused(row.partition_index, code) for row in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _refused(index: int, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=NO_OFFSET, error_code=code)


@api(DeleteRecordsRequest, DeleteRecordsResponse, first=0, last=2, refuse=refuse)
async def answer(context: Context, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete records in each partition that this broker leads."""
    topics = []
    for topic in request.topics:
        rows = []
        for number, row in enumerate(topic.partitions):
            rows.append(_delete(context, topic.name, row))
            await context.pause_after(number)
            if not rows[-1].error_code:
                await context.broker.world.clock.sleep_ms(0)  # a file was synced, which takes its time
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=rows))
    return DeleteRecordsResponse(topics=topics)


def _delete(context: Context, topic: str, row: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    partition = context.broker.partitions.get((topic, row.partition_index))
    code = _error_code(context, topic, row.partition_index, partition)
    if partition is None or code:
        return _refused(row.partition_index, code)
    try:
        low_watermark = partition.log.delete_records_before(row.offset)
    except ReadRefused as refused:
        return _refused(row.partition_index, ErrorCode(refused.code))
    except OSError:
        return _refused(row.partition_index, ErrorCode.KAFKA_STORAGE_ERROR)
    return DeleteRecordsPartitionResult(partition_index=row.partition_index, low_watermark=low_watermark)


def _error_code(context: Context, topic: str, index: int, partition: Partition | None) -> ErrorCode:
    # A coordinator reads its whole partition when it is loaded; a start that moved would take groups away.
    if topic in INTERNAL_TOPICS and topic in context.broker.state.topics:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if partition is None:
        return missing_partition(context, topic, index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    config = partition.log.config
    # On a topic that is only compacted an old record may be the newest of its key.
    return ErrorCode.POLICY_VIOLATION if config.is_compacted and not config.is_deleted else ErrorCode.NONE

"""WriteTxnMarkers (key 27, v1-2): write the end of a transaction to partitions this broker leads.

Sent by transaction coordinators, and by an administrator to end a transaction that hangs.

Keeps:    T3 a marker of a fenced producer epoch or of an older coordinator is refused.
Differs:  docs/DIFFERENCES.md#k27
Versions: v1 first flexible; v2 carries the version of the transaction.
Sources:  KIP-98, KIP-664, KIP-890.
"""

from __future__ import annotations

from semel.broker.api.k00_produce import missing_partition
from semel.broker.cluster_state import GROUP_TOPIC
from semel.broker.context import Context
from semel.broker.log_types import AppendRefused, Origin
from semel.broker.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from semel.protocol.record_batch import Marker, encode_marker


def refuse(request: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
    """The same error for every partition."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name, partitions=[_row(index, code) for index in topic.partition_indexes]
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _row(index: int, code: ErrorCode) -> WritableTxnMarkerPartitionResult:
    return WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)


@api(WriteTxnMarkersRequest, WriteTxnMarkersResponse, first=1, last=2, refuse=refuse)
async def answer(context: Context, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Append each marker; a group's offsets become visible with it."""
    rows = []
    for marker in request.markers:
        topics = [
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    _row(index, await _write(context, marker, topic.name, index)) for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ]
        rows.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
    return WriteTxnMarkersResponse(markers=rows)


async def _write(context: Context, marker: WritableTxnMarker, topic: str, index: int) -> ErrorCode:
    partition = context.broker.partitions.get((topic, index))
    if partition is None:
        return missing_partition(context, topic, index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    batch = encode_marker(
        Marker.COMMIT if marker.transaction_result else Marker.ABORT,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        timestamp_ms=context.broker.world.clock.wall_ms(),
        coordinator_epoch=marker.coordinator_epoch,
    )
    try:
        partition.check_insync()
        result = partition.append(
            memoryview(bytearray(batch)),
            origin=Origin.COORDINATOR,
            transaction_version=marker.transaction_version,
        )
        await partition.acknowledge(result.last_offset + 1)
        code = await partition.replicated(result.last_offset + 1)
        if code:
            return code
    except AppendRefused as refused:
        return ErrorCode(refused.code)
    except OSError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if topic == GROUP_TOPIC:
        context.broker.groups.complete_transaction(
            index, marker.producer_id, commit=marker.transaction_result, marker_offset=result.base_offset
        )
    return ErrorCode.NONE

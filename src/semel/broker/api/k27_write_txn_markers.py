"""WriteTxnMarkers (key 27, v1-2): write the end of a transaction to partitions this broker leads.

Sent by transaction coordinators, and by an administrator to end a transaction that hangs.

Keeps:    T3 a marker of a fenced producer epoch or of an older coordinator is refused.
Differs:  docs/DIFFERENCES.md#k27
Versions: v1 first flexible; v2 carries the version of the transaction.
Sources:  KIP-98, KIP-664, KIP-890.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from semel.broker.api.k00_produce import missing_partition
from semel.broker.log.types import AppendRefused, Origin
from semel.broker.metadata.cluster_state import GROUP_TOPIC
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.replication.partition import Partition
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
    """Answer with this error for every partition."""
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
    """Append every marker, then wait for all of them; a group's offsets become visible with its marker."""
    rows = []
    for number, marker in enumerate(request.markers):
        await context.pause_after(number)
        rows.append(await _append_all(context, marker))
    # After all appends, so that the partitions become durable beside each other.
    for marker, writes in zip(request.markers, rows, strict=True):
        for write in writes:
            await _finish(context, marker, write)
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(producer_id=marker.producer_id, topics=_by_topic(marker, writes))
            for marker, writes in zip(request.markers, rows, strict=True)
        ]
    )


@dataclass(slots=True)
class Write:
    """One marker on its way into one partition."""

    topic: str
    index: int
    partition: Partition | None = None
    code: ErrorCode = ErrorCode.NONE
    offset: int = -1


async def _append_all(context: Context, marker: WritableTxnMarker) -> list[Write]:
    writes = [Write(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
    for number, write in enumerate(writes):
        await context.pause_after(number)
        _append(context, marker, write)
    return writes


def _append(context: Context, marker: WritableTxnMarker, write: Write) -> None:
    write.partition = context.broker.partitions.get((write.topic, write.index))
    if write.partition is None:
        write.code = missing_partition(context, write.topic, write.index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return
    batch = encode_marker(
        Marker.COMMIT if marker.transaction_result else Marker.ABORT,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        # The leader's time, not the coordinator's: retention of this partition goes by it.
        timestamp_ms=context.broker.world.clock.wall_ms(),
        coordinator_epoch=marker.coordinator_epoch,
    )
    try:
        # A marker on too few replicas could be lost after the coordinator has counted it as written.
        write.partition.check_insync()
        result = write.partition.append(
            memoryview(bytearray(batch)),
            origin=Origin.COORDINATOR,
            transaction_version=marker.transaction_version,
        )
    except AppendRefused as refused:
        write.code = ErrorCode(refused.code)
    else:
        write.offset = result.last_offset


async def _finish(context: Context, marker: WritableTxnMarker, write: Write) -> None:
    if write.code or write.partition is None:
        return
    try:
        await write.partition.acknowledge(write.offset + 1)
    except OSError:
        write.code = ErrorCode.KAFKA_STORAGE_ERROR
        return
    # Without a limit: the coordinator goes on asking, and a second marker is taken as a repeat.
    write.code = await write.partition.replicated(write.offset + 1)
    # Not before the marker is durable: a group must not read offsets of a transaction that could still be undone.
    if write.topic == GROUP_TOPIC and not write.code:
        context.broker.groups.complete_transaction(
            write.index, marker.producer_id, commit=marker.transaction_result, marker_offset=write.offset
        )


def _by_topic(marker: WritableTxnMarker, writes: Sequence[Write]) -> list[WritableTxnMarkerTopicResult]:
    # `writes` stand in the order of the request, so each topic takes as many as it has partitions.
    left = iter(writes)
    return [
        WritableTxnMarkerTopicResult(
            name=topic.name,
            partitions=[_row(write.index, write.code) for write in islice(left, len(topic.partition_indexes))],
        )
        for topic in marker.topics
    ]

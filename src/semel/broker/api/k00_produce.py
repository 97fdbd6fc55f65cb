"""Produce (key 0, v3-13): append record batches to partitions this broker leads.

Keeps:    B6 nothing is acknowledged before it is as durable as the flush policy promises; B7 sequence rules.
Differs:  docs/DIFFERENCES.md#k00
Versions: v3 transactional id; v8 record errors; v9 first flexible; v10 leader hints; v13 topic ids. v0 to v2 are
          advertised and not served, as Apache Kafka does, because librdkafka reads the lower bound as a feature test.
Sources:  KIP-98, KIP-467, KIP-516, KIP-951.
"""

from __future__ import annotations

from collections.abc import Sequence

from semel.broker.cluster_state import INTERNAL_TOPICS
from semel.broker.context import Context
from semel.broker.log_types import AppendRefused
from semel.broker.partition import Partition
from semel.broker.registry import api
from semel.errors import ProtocolError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

ACKS_NONE = 0
ACKS_ALL = -1
Durable = list[tuple[Partition, int, PartitionProduceResponse]]


def refuse(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    """The same error for every partition."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_refused(data.index, code) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def _refused(index: int, code: ErrorCode, message: str | None = None) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index, error_code=code, base_offset=-1, log_append_time_ms=-1, log_start_offset=-1, error_message=message
    )


@api(ProduceRequest, ProduceResponse, first=3, last=13, refuse=refuse, advertised_first=0)
async def answer(context: Context, request: ProduceRequest) -> ProduceResponse | None:
    """Append each partition's batch, then wait until all of them are durable."""
    if request.acks not in (ACKS_NONE, 1, ACKS_ALL):
        return refuse(request, ErrorCode.INVALID_REQUIRED_ACKS)
    durable: Durable = []
    response = ProduceResponse(
        responses=[_append_topic(context, topic, request.acks, durable) for topic in request.topic_data]
    )
    for partition, offset_next, row in durable:
        await _acknowledge(partition, offset_next, row)
    if request.acks == ACKS_NONE:
        _check_silently(response)
        return None
    if context.version >= 10:
        _add_leader_hints(context, response)
    return response


def _append_topic(context: Context, topic: TopicProduceData, acks: int, durable: Durable) -> TopicProduceResponse:
    name = topic.name
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if context.version >= 13:
        known = context.broker.state.topic_by_id(topic.topic_id)
        name = known.name if known else ""
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if known is None else unknown
    rows = []
    for data in topic.partition_data:
        partition = context.broker.partitions.get((name, data.index))
        if partition is None:
            rows.append(_refused(data.index, missing_partition(context, name, data.index, unknown)))
        else:
            rows.append(_append(context, partition, data, acks, durable))
    return TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=rows)


def _append(
    context: Context, partition: Partition, data: PartitionProduceData, acks: int, durable: Durable
) -> PartitionProduceResponse:
    if partition.topic in INTERNAL_TOPICS:
        return _refused(data.index, ErrorCode.INVALID_TOPIC_EXCEPTION, "the broker alone writes this topic")
    if not isinstance(data.records, memoryview):
        return _refused(data.index, ErrorCode.INVALID_RECORD, "there are no records")
    try:
        if acks == ACKS_ALL:
            partition.check_insync(context.broker.insync_min(partition.topic))
        result = partition.append(data.records)
    except AppendRefused as refused:
        return _refused(data.index, ErrorCode(refused.code), refused.summary)
    row = PartitionProduceResponse(
        index=data.index,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
    )
    durable.append((partition, result.last_offset + 1, row))
    return row


async def _acknowledge(partition: Partition, offset_next: int, row: PartitionProduceResponse) -> None:
    try:
        await partition.acknowledge(offset_next)
    except OSError as error:
        row.error_code, row.error_message = ErrorCode.KAFKA_STORAGE_ERROR, error.strerror
        row.base_offset = -1


def _check_silently(response: ProduceResponse) -> None:
    """With acks=0 there is no answer; an error can only be shown by closing the connection."""
    codes = [row.error_code for topic in response.responses for row in topic.partition_responses if row.error_code]
    if codes:
        raise ProtocolError(f"acks=0 produce refused with {ErrorCode(codes[0]).name}; closing tells the client")


def missing_partition(context: Context, topic: str, index: int, unknown: ErrorCode) -> ErrorCode:
    """Why this broker has no such partition: nobody does, or another broker leads it."""
    known = context.broker.state.topics.get(topic)
    if known is None or not 0 <= index < len(known.partitions):
        return unknown
    return ErrorCode.NOT_LEADER_OR_FOLLOWER


def _add_leader_hints(context: Context, response: ProduceResponse) -> None:
    leaders: set[int] = set()
    for topic in response.responses:
        for row in topic.partition_responses:
            if row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                known = context.broker.state.topics.get(topic.name) or context.broker.state.topic_by_id(topic.topic_id)
                if known is not None:
                    place = known.partitions[row.index]
                    row.current_leader = LeaderIdAndEpoch(leader_id=place.leader, leader_epoch=place.leader_epoch)
                    leaders.add(place.leader)
    response.node_endpoints = _endpoints(context, sorted(leaders))


def _endpoints(context: Context, leaders: Sequence[int]) -> list[NodeEndpoint]:
    return [
        NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
        for node in context.broker.cluster.nodes
        if node.id in leaders
    ]

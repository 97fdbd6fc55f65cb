"""Produce (key 0, v3-13): append record batches to partitions this broker leads.

Keeps:    B6 nothing is acknowledged before it is as durable as the flush policy promises, R8 nor with acks=all before
          it is on all in-sync replicas; B7 sequence rules;
          T5 a transaction's first write to a partition is known to its coordinator.
Differs:  docs/DIFFERENCES.md#k00
Versions: v3 transactional id; v8 record errors; v9 first flexible; v10 leader hints; v11 abortable errors;
          v12 partitions join the transaction implicitly; v13 topic ids. v0 to v2 are advertised and not served, as
          Apache Kafka does, because librdkafka reads the lower bound as a feature test.
Sources:  KIP-98, KIP-467, KIP-516, KIP-890, KIP-951.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

from semel.broker.cluster_state import INTERNAL_TOPICS
from semel.broker.context import Context
from semel.broker.log_types import AppendRefused
from semel.broker.partition import Partition
from semel.broker.producer_state import Verification
from semel.broker.registry import api
from semel.broker.transaction_types import Producer
from semel.broker.verification import Support, error_for_producer, verify
from semel.errors import ProtocolError, UnsupportedVersionError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from semel.protocol.record_batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader, read_header

ACKS_NONE = 0
ACKS_ALL = -1
LENGTH_AT = 8
LENGTH = Struct(">i")
WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


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


@dataclass(slots=True)
class Write:
    """One partition's batch on its way into the log."""

    row: PartitionProduceResponse
    partition: Partition | None
    records: memoryview | None
    header: BatchHeader | None = None
    verification: Verification | None = None
    offset_next: int = -1

    @property
    def is_open(self) -> bool:
        """Whether nothing speaks against it so far."""
        return not self.row.error_code

    def fail(self, code: ErrorCode, message: str | None = None) -> None:
        """Answer with an error."""
        self.row.error_code, self.row.error_message = code, message
        self.row.base_offset = -1


@api(ProduceRequest, ProduceResponse, first=3, last=13, refuse=refuse, advertised_first=0)
async def answer(context: Context, request: ProduceRequest) -> ProduceResponse | None:
    """Append each partition's batch, then wait until all of them are durable."""
    if request.acks not in (ACKS_NONE, 1, ACKS_ALL):
        return refuse(request, ErrorCode.INVALID_REQUIRED_ACKS)
    topics = [(topic, _writes(context, topic)) for topic in request.topic_data]
    writes = [write for _, rows in topics for write in rows]
    transactional = [write for write in writes if write.header is not None and write.header.is_transactional]
    if transactional:
        fault = _fault_of_transactional(request, transactional)
        if fault:
            return _refuse_all(request, fault)
        await _verify(context, request.transactional_id or "", transactional)
    for write in writes:
        if write.is_open:
            _append(write, request.acks)
    await _acknowledge(context, request, [write for write in writes if write.is_open])
    if request.acks == ACKS_NONE:
        _check_silently(writes)
        return None
    return _response(context, topics)


def _fault_of_transactional(request: ProduceRequest, writes: Sequence[Write]) -> ErrorCode:
    """All batches are verified as those of one producer, so they must be."""
    if request.transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    producers = {(write.header.producer_id, write.header.producer_epoch) for write in writes if write.header}
    return ErrorCode.NONE if len(producers) == 1 else ErrorCode.INVALID_PRODUCER_ID_MAPPING


def _refuse_all(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    if request.acks == ACKS_NONE:
        raise ProtocolError(f"acks=0 produce refused with {code.name}; closing tells the client")
    return refuse(request, code)


def _writes(context: Context, topic: TopicProduceData) -> list[Write]:
    name = topic.name
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if context.version >= 13:
        known = context.broker.state.topic_by_id(topic.topic_id)
        name = known.name if known else ""
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if known is None else unknown
    writes: list[Write] = []
    for data in topic.partition_data:
        partition = context.broker.partitions.get((name, data.index))
        records = data.records if isinstance(data.records, memoryview) else None
        write = Write(_refused(data.index, ErrorCode.NONE), partition, records)
        if partition is None:
            write.fail(missing_partition(context, name, data.index, unknown))
        elif name in INTERNAL_TOPICS:
            write.fail(ErrorCode.INVALID_TOPIC_EXCEPTION, "the broker alone writes this topic")
        else:
            _look_at_header(write)
        writes.append(write)
    return writes


def _look_at_header(write: Write) -> None:
    if write.records is None:
        write.fail(ErrorCode.INVALID_RECORD, "there are no records")
        return
    size_bytes = batch_size_bytes(write.records)
    if size_bytes is None or size_bytes > len(write.records):
        write.fail(ErrorCode.INVALID_RECORD, "a produce request needs one whole batch per partition, found none")
        return
    try:
        write.header = read_header(write.records)
    except UnsupportedVersionError as error:
        write.fail(ErrorCode.INVALID_RECORD, error.summary)
    except ProtocolError as error:
        write.fail(ErrorCode.CORRUPT_MESSAGE, error.summary)
    else:
        if size_bytes < len(write.records):
            write.fail(ErrorCode.INVALID_RECORD, "a produce request needs one batch per partition, found more")


def batch_size_bytes(records: memoryview) -> int | None:
    """How long the first batch says it is; None when not even that can be read."""
    if len(records) < HEADER_BYTES:
        return None
    length: int = LENGTH.unpack_from(records, LENGTH_AT)[0]
    return length + LOG_OVERHEAD_BYTES


def support_of(version: int) -> Support:
    """What a producer that speaks this version understands of transactions."""
    if version >= 12:
        return Support.IMPLICIT_ADD
    return Support.ABORTABLE_ERRORS if version == 11 else Support.DEFAULT_ERRORS


async def _verify(context: Context, transactional_id: str, writes: Sequence[Write]) -> None:
    """Check first writes with the coordinator; all of a request's batches are of one producer."""
    support = support_of(context.version)
    unverified = [write for write in writes if write.is_open and _needs_verification(context, write, support)]
    if not unverified:
        return
    header = unverified[0].header
    assert header is not None
    codes = await verify(
        context.broker,
        transactional_id,
        Producer(header.producer_id, header.producer_epoch),
        [(write.partition.topic, write.partition.index) for write in unverified if write.partition is not None],
        support,
    )
    for write in unverified:
        assert write.partition is not None
        code = codes[write.partition.topic, write.partition.index]
        if code:
            write.fail(*error_for_producer(code, support))


def _needs_verification(context: Context, write: Write, support: Support) -> bool:
    if write.partition is None or write.header is None or not write.partition.log.config.verify_transactions:
        return False
    header = write.header
    write.verification = write.partition.log.producers.begin_verification(
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        context.broker.world.clock.wall_ms(),
        requires_sequence_zero=support is Support.IMPLICIT_ADD,
    )
    return write.verification is not None


def _append(write: Write, acks: int) -> None:
    assert write.partition is not None
    assert write.records is not None
    try:
        if acks == ACKS_ALL:
            write.partition.check_insync()
        result = write.partition.append(write.records, verification=write.verification)
    except AppendRefused as refused:
        write.fail(ErrorCode(refused.code), refused.summary)
        _say_more(write, refused)
        return
    row = write.row
    row.base_offset, row.log_append_time_ms = result.base_offset, result.log_append_time_ms
    row.log_start_offset = result.log_start_offset
    write.offset_next = result.last_offset + 1


def _say_more(write: Write, refused: AppendRefused) -> None:
    """Where the log starts, unless the batch never came near it, and which records are to blame."""
    assert write.partition is not None
    fenced_first = refused.code == ErrorCode.INVALID_PRODUCER_EPOCH and write.verification is not None
    if refused.code not in WITHOUT_LOG_START and not fenced_first:
        write.row.log_start_offset = write.partition.log.log_start_offset
    write.row.record_errors = [
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=refused.summary)
        for index in refused.bad_records
    ]


async def _acknowledge(context: Context, request: ProduceRequest, writes: Sequence[Write]) -> None:
    """Wait until each is durable here and, with acks=all, on all in-sync replicas; one time limit for all."""
    monotonic_ms = context.broker.world.clock.monotonic_ms
    deadline_ms = monotonic_ms() + request.timeout_ms
    for write in writes:
        assert write.partition is not None
        try:
            await write.partition.acknowledge(write.offset_next)
        except OSError as error:
            write.fail(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror)
            continue
        if request.acks == ACKS_ALL:
            wait_ms = max(0.0, deadline_ms - monotonic_ms())
            write.row.error_code = await write.partition.replicated(write.offset_next, wait_ms)


def _check_silently(writes: Sequence[Write]) -> None:
    """With acks=0 there is no answer; an error can only be shown by closing the connection."""
    for write in writes:
        if not write.is_open:
            code = ErrorCode(write.row.error_code).name
            raise ProtocolError(f"acks=0 produce refused with {code}; closing tells the client")


def missing_partition(context: Context, topic: str, index: int, unknown: ErrorCode) -> ErrorCode:
    """Why this broker has no such partition: nobody does, or another broker leads it."""
    known = context.broker.state.topics.get(topic)
    if known is None or not 0 <= index < len(known.partitions):
        return unknown
    return ErrorCode.NOT_LEADER_OR_FOLLOWER


def _response(context: Context, topics: Sequence[tuple[TopicProduceData, Sequence[Write]]]) -> ProduceResponse:
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=[write.row for write in writes]
            )
            for topic, writes in topics
        ]
    )
    if context.version >= 10:
        _add_leader_hints(context, response)
    return response


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
    if leaders:
        response.node_endpoints = [
            NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in context.broker.state.nodes
            if node.id in leaders
        ]

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

from semel.broker.log.append_rules import check_alone, check_client_batch, first_header
from semel.broker.log.inspection import needs_inspection
from semel.broker.log.producer_state import Verification
from semel.broker.log.types import AppendRefused
from semel.broker.metadata.cluster_state import INTERNAL_TOPICS, PartitionKey
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.replication.partition import Partition
from semel.broker.transactions.types import Producer
from semel.broker.transactions.verification import Support, error_for_producer, verify
from semel.errors import ProtocolError
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
from semel.protocol.record_batch import BatchHeader

ACKS_NONE = 0
ACKS_ALL = -1
# These refusals come before the log is looked at, so its start is not in the answer, as in Apache Kafka.
WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


def refuse(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    """Answer with this error for every partition."""
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
    newest_ms: int | None = None
    offset_next: int = -1

    @property
    def is_open(self) -> bool:
        """Whether nothing speaks against it so far."""
        return not self.row.error_code

    def fail(self, code: ErrorCode, message: str | None = None) -> None:
        """Answer with an error."""
        self.row.error_code, self.row.error_message = code, message
        # The append may have succeeded before the sync failed: an error must not come with an offset.
        self.row.base_offset = -1


@api(ProduceRequest, ProduceResponse, first=3, last=13, refuse=refuse, advertised_first=0)
async def answer(context: Context, request: ProduceRequest) -> ProduceResponse | None:
    """Append each partition's batch, then wait until all of them are durable."""
    if request.acks not in (ACKS_NONE, 1, ACKS_ALL):
        return refuse(request, ErrorCode.INVALID_REQUIRED_ACKS)
    topics = []
    for number, topic in enumerate(request.topic_data):
        await context.pause_after(number)
        topics.append((topic, await _writes(context, topic)))
    writes = [write for _, rows in topics for write in rows]
    transactional = [write for write in writes if write.header is not None and write.header.is_transactional]
    if transactional:
        error_code = _error_for_transactional(request, transactional)
        if error_code:
            return _refuse_all(request, error_code)
        # Before any append: all partitions of the request are asked for in one question.
        await _verify(context, request.transactional_id or "", transactional)
    # One after the other, in the order of the request. A pause lets others in, so each append checks everything again.
    for number, write in enumerate(writes):
        await context.pause_after(number)
        if write.is_open:
            await _inspect(context, write)
        if write.is_open:
            _append(write, request.acks)
    # After all appends: the partitions become durable beside each other.
    await _acknowledge(context, request, [write for write in writes if write.is_open])
    if request.acks == ACKS_NONE:
        _check_silently(writes)
        return None
    return _response(context, topics)


def _error_for_transactional(request: ProduceRequest, writes: Sequence[Write]) -> ErrorCode:
    """All batches are verified as those of one producer, so they must be."""
    # As in Apache Kafka: a producer that names no transactional id has no right to write in a transaction.
    if request.transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    producers = {(write.header.producer_id, write.header.producer_epoch) for write in writes if write.header}
    return ErrorCode.NONE if len(producers) == 1 else ErrorCode.INVALID_PRODUCER_ID_MAPPING


def _refuse_all(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    if request.acks == ACKS_NONE:
        raise ProtocolError(f"acks=0 produce refused with {code.name}; closing tells the client")
    return refuse(request, code)


async def _writes(context: Context, topic: TopicProduceData) -> list[Write]:
    name = topic.name
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    # By id: a producer that has not heard that its topic was made again does not write into the new one.
    if context.version >= 13:
        known = context.broker.state.topic_by_id(topic.topic_id)
        name = known.name if known else ""
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if known is None else unknown
    writes: list[Write] = []
    for number, data in enumerate(topic.partition_data):
        await context.pause_after(number)
        # Only partitions that this broker leads are here. Whether it still leads is checked again at the append (R9).
        partition = context.broker.partitions.get((name, data.index))
        records = data.records if isinstance(data.records, memoryview) else None
        write = Write(_refused(data.index, ErrorCode.NONE), partition, records)
        if partition is None:
            write.fail(missing_partition(context, name, data.index, unknown))
        elif name in INTERNAL_TOPICS:
            # Coordinators believe what they read there: a forged record could move a
            # group's offsets or end a transaction.
            write.fail(ErrorCode.INVALID_TOPIC_EXCEPTION, "the broker alone writes this topic")
        else:
            _look_at_header(write)
        writes.append(write)
    return writes


def _look_at_header(write: Write) -> None:
    if write.records is None:
        write.fail(ErrorCode.INVALID_RECORD, "there are no records")
        return
    try:
        write.header = first_header(write.records)  # kept if more follows: it says whose transaction this is
        # The append asks this again, of every record set from a client. Here it comes before the question to
        # the coordinator: a partition whose records are refused anyway must not become part of a transaction (T5).
        check_alone(write.records, write.header)
    except AppendRefused as refused:
        write.fail(ErrorCode(refused.code), refused.summary)


def support_of(version: int) -> Support:
    """What a producer that speaks this version understands of transactions."""
    if version >= 12:
        return Support.IMPLICIT_ADD
    return Support.ABORTABLE_ERRORS if version == 11 else Support.DEFAULT_ERRORS


async def _verify(context: Context, transactional_id: str, writes: Sequence[Write]) -> None:
    """Check first writes with the coordinator; all of a request's batches are of one producer."""
    support = support_of(context.version)
    header = writes[0].header
    assert header is not None

    def begin() -> list[PartitionKey]:
        return [
            (write.partition.topic, write.partition.index)
            for write in writes
            if write.is_open and write.partition is not None and _needs_verification(context, write, support)
        ]

    producer = Producer(header.producer_id, header.producer_epoch)
    # `verify` may have to ask again while the coordinator is busy. It then calls `begin` once more, since a marker may
    # have ended the transaction, and with it the token, in between.
    codes = await verify(context.broker, transactional_id, producer, begin, support)
    for write in writes:
        if write.partition is not None:
            code = codes.get((write.partition.topic, write.partition.index), ErrorCode.NONE)
            if write.is_open and code:
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
        # A client of transactions version 2 begins every epoch at 0, so a first batch in the middle is a late one.
        requires_sequence_zero=support is Support.IMPLICIT_ADD,
    )
    return write.verification is not None


async def _inspect(context: Context, write: Write) -> None:
    """Look at the records where the header does not say enough; others are served meanwhile."""
    assert write.partition is not None
    assert write.records is not None
    assert write.header is not None
    config = write.partition.log.config
    if not needs_inspection(write.header, config, context.broker.world.clock.wall_ms()):
        return
    try:
        header = check_client_batch(write.records, config)  # nothing is decompressed that is refused anyway
        write.newest_ms = await context.broker.inspections.run(write.records, header, config)
    except AppendRefused as refused:
        write.fail(ErrorCode(refused.code), refused.summary)
        _add_error_message(write, refused)


def _append(write: Write, acks: int) -> None:
    assert write.partition is not None
    assert write.records is not None
    try:
        # Only acks=all asks for it. The rest is written even if the in-sync replicas are too few.
        if acks == ACKS_ALL:
            write.partition.check_insync()
        result = write.partition.append(write.records, verification=write.verification, newest_ms=write.newest_ms)
    except AppendRefused as refused:
        write.fail(ErrorCode(refused.code), refused.summary)
        _add_error_message(write, refused)
        return
    row = write.row
    row.base_offset, row.log_append_time_ms = result.base_offset, result.log_append_time_ms
    row.log_start_offset = result.log_start_offset
    write.offset_next = result.last_offset + 1


def _add_error_message(write: Write, refused: AppendRefused) -> None:
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
            # It may have been written: after a failed sync nobody knows what the disk has.
            write.fail(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror)
            continue
        if request.acks == ACKS_ALL:
            wait_ms = max(0.0, deadline_ms - monotonic_ms())
            # After a timeout the records are in the log all the same: an
            # idempotent producer that sends them again is recognised.
            write.row.error_code = await write.partition.replicated(write.offset_next, wait_ms)


def _check_silently(writes: Sequence[Write]) -> None:
    """With acks=0 there is no answer; an error can only be shown by closing the connection."""
    for write in writes:
        if not write.is_open:
            code = ErrorCode(write.row.error_code).name
            # As Apache Kafka: the client connects again and fetches metadata.
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
    # KIP-951: the client goes to the new leader without asking for metadata first.
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
                    partition = known.partitions[row.index]
                    row.current_leader = LeaderIdAndEpoch(
                        leader_id=partition.leader, leader_epoch=partition.leader_epoch
                    )
                    leaders.add(partition.leader)
    if leaders:
        response.node_endpoints = [
            NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in context.broker.state.nodes
            if node.id in leaders
        ]

"""Produce: encoded batches, stamped with producer and sequence, in order, each acknowledged.

    send_batches(cluster, batches, producer=identity, deadline=deadline) -> {partition: Acknowledged}

Keeps: within a partition batches are appended in the order given, each once: a batch is sent again only as it was, with
       its own sequence, and none leaves five or more after the oldest open one: that is what a leader remembers.
       Nothing counts as acknowledged that no leader has acknowledged.
Why:   until its first acknowledgement a partition has one batch under way. A leader that knows nothing of a producer
       takes any first sequence; were the first batch refused and the second taken, the first could never follow.
       Requests are sent in a version below 12: from there on a broker adds partitions to the transaction by itself, and
       the driver could no longer tell which partitions an abort must reach.
"""

from __future__ import annotations

from collections.abc import Iterable

from semel.errors import ConnectionFailure, Outcome, OutcomeUnknownError, SemelError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from semel.wire.answers import code_of, error_of
from semel.wire.cluster import WireCluster
from semel.wire.connection import Connection, Sent, wait_for_answer
from semel.wire.deadline import Deadline
from semel.wire.leaders import by_topic
from semel.wire.send_queue import Acknowledged, Batch, PartitionQueue, ProducerIdentity, QueuedBatch, stamped
from semel.wire.topology import BrokerAddress, TopicPartition

__all__ = ["Acknowledged", "Batch", "ProducerIdentity", "send_batches"]

VERSION_MAX = 11
UNDER_WAY_MAX = 5
ALL_IN_SYNC = -1
# What a task holds at most for batches that are not acknowledged.
QUEUE_BYTES_MAX = 64 << 20
# Damaged on the way, says the broker; but TCP does not damage: the batch was wrong before, and stays so.
_HOPELESS = frozenset({ErrorCode.CORRUPT_MESSAGE})


def send_batches(
    cluster: WireCluster,
    batches: Iterable[tuple[TopicPartition, Batch]],
    *,
    producer: ProducerIdentity,
    deadline: Deadline,
    sequences: dict[TopicPartition, int] | None = None,
    request_bytes_max: int = 1 << 20,
) -> dict[TopicPartition, Acknowledged]:
    """Send all batches and return when every one was acknowledged by all in-sync replicas.

    `batches` is read as sending goes on, so a generator keeps memory bounded. A writable batch is stamped in place,
    `bytes` are copied first. Sequences start at 0 in each partition unless `sequences` says otherwise. The same batch
    is sent again with the same sequence after errors that allow it; FencedError when a newer owner exists;
    OutcomeUnknownError when the deadline passes with batches unacknowledged.
    """
    sender = _Sender(cluster, producer, deadline, sequences or {}, request_bytes_max)
    try:
        for partition, batch in batches:
            sender.add(partition, batch)
        sender.finish()
    except BaseException as error:
        # Whatever failed, earlier batches may be in a log.
        if isinstance(error, SemelError) and sender.may_have_happened:
            error.outcome = Outcome.UNKNOWN
        sender.close()
        raise
    return sender.acknowledged()


class _UnderWay:
    """One request that has no answer yet."""

    def __init__(
        self,
        connection: Connection,
        sent: Sent[ProduceResponse],
        batches: dict[TopicPartition, QueuedBatch],
        limit: Deadline,
    ) -> None:
        self.connection = connection
        self.sent = sent
        self.batches = batches
        self.limit = limit


class _Sender:
    def __init__(
        self,
        cluster: WireCluster,
        producer: ProducerIdentity,
        deadline: Deadline,
        sequences: dict[TopicPartition, int],
        request_bytes_max: int,
    ) -> None:
        self._cluster = cluster
        self._producer = producer
        self._deadline = deadline
        self._sequences = sequences
        self._request_bytes_max = request_bytes_max
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._under_way: list[_UnderWay] = []
        self._bytes = 0
        self._batch_bytes_max = 0
        self._backoff = cluster.backoff(deadline)
        self._lost = False

    def add(self, partition: TopicPartition, batch: Batch) -> None:
        """Queue a batch; sends and receives when enough is queued."""
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = PartitionQueue(partition, self._sequences.get(partition, 0))
        queued = stamped(batch, queue, self._producer)
        queue.waiting.append(queued)
        self._bytes += queued.size_bytes
        self._batch_bytes_max = max(self._batch_bytes_max, queued.size_bytes)
        while self._bytes >= self._queue_bytes_max:
            self._step()
        if self._bytes >= self._request_bytes_max:
            self._send_what_can_go()
            # Without waiting: answers that are there make room for the next batches.
            if self._under_way:
                self._receive_some(0)

    @property
    def _queue_bytes_max(self) -> int:
        """Enough to keep every leader busy, with a limit."""
        leaders = len({queue.leader for queue in self._queues.values()})
        request_bytes = max(self._request_bytes_max, self._batch_bytes_max)
        return max(request_bytes, min(QUEUE_BYTES_MAX, request_bytes * UNDER_WAY_MAX * leaders))

    def finish(self) -> None:
        """Go on until nothing is queued or under way."""
        while self._bytes:
            self._step()

    def acknowledged(self) -> dict[TopicPartition, Acknowledged]:
        """What each leader took."""
        return {partition: queue.acknowledged() for partition, queue in self._queues.items()}

    def close(self) -> None:
        """Close connections with answers under way, so that nobody else reads them."""
        for each in self._under_way:
            each.connection.close()

    def _step(self) -> None:
        """Wait after a failure, send what can go, then take at least one answer."""
        resting = [queue for queue in self._queues.values() if queue.failure is not None and not queue.under_way]
        if resting:
            self._wait(resting)
        self._send_what_can_go()
        if self._under_way:
            self._receive_some(min(each.limit.left_s for each in self._under_way))

    def _send_what_can_go(self) -> None:
        """Send to each leader that has room."""
        ready: dict[int, list[PartitionQueue]] = {}
        for queue in self._queues.values():
            if not queue.may_send(UNDER_WAY_MAX):
                continue
            leader = self._leader(queue.partition)
            # The new leader must not get a batch before the old one has answered for those before it.
            if not queue.under_way or queue.leader == leader:
                queue.leader = leader
                ready.setdefault(leader, []).append(queue)
        for leader, queues in ready.items():
            try:
                self._send(leader, queues)
            except ConnectionFailure as failure:
                for queue in queues:
                    queue.failure = failure
                self._cluster.forget(*{queue.partition.topic for queue in queues})

    def _leader(self, partition: TopicPartition) -> int:
        try:
            return self._cluster.leader(partition, self._deadline)
        except SemelError as last:
            if self._deadline.expired:
                raise self._not_in_time(last) from None
            raise

    def _send(self, leader: int, queues: list[PartitionQueue]) -> None:
        connection = self._cluster.connection(leader, self._deadline)
        while len(connection.under_way) < UNDER_WAY_MAX:
            batches = self._next_batches(queues)
            if not batches:
                return
            limit = self._cluster.request_deadline(self._deadline)
            request = self._request(batches, limit)
            try:
                sent = connection.send(request, ProduceResponse, limit, VERSION_MAX)
            except ConnectionFailure as failure:
                self._lose(connection, failure)
                raise
            for partition in batches:
                self._queues[partition].sent_first()
            self._under_way.append(_UnderWay(connection, sent, batches, limit))

    def _next_batches(self, queues: list[PartitionQueue]) -> dict[TopicPartition, QueuedBatch]:
        """At most one batch of each partition, and not more than fits a request, but at least one."""
        chosen: dict[TopicPartition, QueuedBatch] = {}
        size_bytes = 0
        for queue in queues:
            if not queue.may_send(UNDER_WAY_MAX):
                continue
            # One batch for each partition in a request: a broker takes no more.
            batch = queue.waiting[0]
            if chosen and size_bytes + batch.size_bytes > self._request_bytes_max:
                continue
            chosen[queue.partition] = batch
            size_bytes += batch.size_bytes
        return chosen

    def _request(self, batches: dict[TopicPartition, QueuedBatch], limit: Deadline) -> ProduceRequest:
        topics = [
            TopicProduceData(
                name=topic,
                partition_data=[
                    PartitionProduceData(index=number, records=batches[TopicPartition(topic, number)].data)
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(batches).items()
        ]
        return ProduceRequest(
            transactional_id=self._producer.transactional_id,
            acks=ALL_IN_SYNC,
            # The broker gives up no later than this client does.
            timeout_ms=max(1, limit.left_ms),
            topic_data=topics,
        )

    def _receive_some(self, wait_s_max: float) -> None:
        # Answers come in the order of sending, so of each connection only the oldest request can be answered next.
        oldest = {each.connection: each for each in reversed(self._under_way)}
        ready = wait_for_answer(list(oldest), wait_s_max)
        for connection in ready:
            self._receive(oldest[connection])
        for connection, each in oldest.items():
            if connection not in ready and each.limit.expired:
                self._lose(connection, ConnectionFailure(f"broker {connection.address} did not answer in time"))

    def _receive(self, each: _UnderWay) -> None:
        try:
            # The answer has begun to arrive, maybe long ago while the caller made the next batch: a limit of its own.
            answer = each.connection.receive(each.sent, self._cluster.request_deadline(self._deadline))
        except ConnectionFailure as failure:
            self._lose(each.connection, failure)
            return
        self._under_way.remove(each)
        rows = {
            TopicPartition(topic.name, row.index): row
            for topic in answer.responses
            for row in topic.partition_responses
        }
        for partition, batch in each.batches.items():
            self._settle(partition, batch, rows.get(partition), each.connection.address)

    def _settle(
        self, partition: TopicPartition, batch: QueuedBatch, row: PartitionProduceResponse | None, asked: BrokerAddress
    ) -> None:
        queue = self._queues[partition]
        if row is None:
            queue.put_back(batch, ConnectionFailure(f"the answer says nothing of {partition}"))
            return
        code = code_of(row.error_code)
        # An older broker says DUPLICATE of a batch that it has: acknowledged, without an offset.
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            queue.acknowledge(batch, row.base_offset if code is ErrorCode.NONE else -1)
            self._bytes -= batch.size_bytes
            self._backoff = self._cluster.backoff(self._deadline)
            return
        error = error_of(row.error_code, f"writing to {partition}", row.error_message, Outcome.DID_NOT_HAPPEN)
        # It could not be in order while an earlier one was missing, so the refusal is not its own.
        follows_a_failure = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and queue.failed_before(batch)
        is_final = not follows_a_failure and (not code.retriable or code in _HOPELESS)
        # For any error: the next attempt asks who leads now.
        self._cluster.forget(partition.topic, led_by=asked)
        if is_final and not self._was_replaced(partition, asked):
            raise error
        queue.put_back(batch, error)

    def _was_replaced(self, partition: TopicPartition, asked: BrokerAddress) -> bool:
        """Whether another broker leads now: a refusal by the old leader, from what it knew, does not count."""
        try:
            return self._cluster.leader(partition, self._cluster.request_deadline(self._deadline)) != asked.id
        except SemelError:
            return False

    def _lose(self, connection: Connection, failure: ConnectionFailure) -> None:
        """Everything under way on this connection has to be sent again: whether it was appended is not known."""
        connection.close()
        self._lost = True
        for each in [each for each in self._under_way if each.connection is connection]:
            self._under_way.remove(each)
            for partition, batch in each.batches.items():
                self._queues[partition].put_back(batch, failure)
                self._cluster.forget(partition.topic, led_by=connection.address)

    def _wait(self, resting: list[PartitionQueue]) -> None:
        assert resting[0].failure is not None
        try:
            self._backoff.wait(resting[0].failure)
        except SemelError as last:
            raise self._not_in_time(last) from None
        for queue in resting:
            queue.failure = None

    def _not_in_time(self, last: SemelError) -> SemelError:
        if not self.may_have_happened:
            return last
        left = sum(len(queue.waiting) + queue.under_way for queue in self._queues.values())
        return OutcomeUnknownError(
            f"{left} batches were not acknowledged within {self._deadline.limit_ms:.0f} ms", because=last.summary
        )

    @property
    def may_have_happened(self) -> bool:
        """Whether some batch is, or may be, in a log."""
        return self._lost or bool(self._under_way) or any(queue.batches for queue in self._queues.values())

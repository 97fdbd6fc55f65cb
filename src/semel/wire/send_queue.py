"""The batches of one partition on their way: waiting, under way, acknowledged. No I/O.

Keeps: batches leave in order of their sequence; after a failure nothing new leaves until every answer is in, and then
       the failed ones go again first. Counted from the oldest batch without an acknowledgement, at most as many have
       left as a leader remembers: a batch that is already in the log is recognised however often it has to go again.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from dataclasses import dataclass, field

from semel.errors import ConfigError, CorruptBatchError, SemelError
from semel.protocol.batch_header import read_header, stamp_producer
from semel.wire.topology import TopicPartition

Batch = bytes | bytearray | memoryview
# A sequence is an int32 without its sign: after the largest comes 0.
SEQUENCE_MASK = 0x7FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """Who writes: shipped from the driver to every task of a micro-batch."""

    producer_id: int
    producer_epoch: int
    transactional_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """What the leader of one partition took; `offset_first` is -1 when it only said that it has the batch already."""

    records: int
    batches: int
    offset_first: int
    sequence_next: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedBatch:
    """A stamped batch; `number` counts the partition's batches from 0."""

    number: int
    data: Batch
    records: int

    @property
    def size_bytes(self) -> int:
        """Its size on the wire."""
        return len(self.data)


@dataclass(slots=True)
class PartitionQueue:
    """One partition's batches."""

    partition: TopicPartition
    sequence_next: int
    waiting: deque[QueuedBatch] = field(default_factory=deque)
    failed: list[QueuedBatch] = field(default_factory=list)
    failure: SemelError | None = None
    """Why batches have to go again, until the moment of waiting is over."""
    leader: int = -1
    under_way: int = 0
    numbered: int = 0
    oldest_open: int = 0
    """The number of the oldest batch without an acknowledgement."""
    acknowledged_above: set[int] = field(default_factory=set)
    batches: int = 0
    records: int = 0
    offset_first: int = -1

    def may_send(self, under_way_max: int) -> bool:
        """Whether the first waiting batch may go now."""
        if not self.waiting or self.failed or self.failure is not None:
            return False
        # One batch until the first acknowledgement, see `produce`.
        return self.waiting[0].number < self.oldest_open + (under_way_max if self.batches else 1)

    def sent_first(self) -> None:
        """The first waiting batch is under way."""
        self.waiting.popleft()
        self.under_way += 1

    def acknowledge(self, batch: QueuedBatch, offset: int) -> None:
        """The leader has this batch."""
        if not self.batches:
            self.offset_first = offset
        self.under_way -= 1
        self.batches += 1
        self.records += batch.records
        self.acknowledged_above.add(batch.number)
        while self.oldest_open in self.acknowledged_above:
            self.acknowledged_above.remove(self.oldest_open)
            self.oldest_open += 1
        self._resume()

    def put_back(self, batch: QueuedBatch, failure: SemelError) -> None:
        """This batch has to go again."""
        self.under_way -= 1
        # Answers of several connections come in any order; the batches go again in that of their sequences.
        insort(self.failed, batch, key=lambda each: each.number)
        self.failure = failure
        self._resume()

    def failed_before(self, batch: QueuedBatch) -> bool:
        """Whether an earlier batch has to go again, so that this one could not be in order."""
        return any(each.number < batch.number for each in self.failed)

    def _resume(self) -> None:
        if not self.under_way and self.failed:
            # Back in front, lowest number first: a leader takes sequences in order only.
            self.waiting.extendleft(reversed(self.failed))
            self.failed.clear()

    def acknowledged(self) -> Acknowledged:
        """Sum up."""
        return Acknowledged(
            records=self.records,
            batches=self.batches,
            offset_first=self.offset_first,
            sequence_next=self.sequence_next,
        )


def stamped(batch: Batch, queue: PartitionQueue, producer: ProducerIdentity) -> QueuedBatch:
    """Check one batch and give it the producer's identity and the partition's next sequence."""
    topic, partition = queue.partition
    header = read_header(batch, topic=topic, partition=partition)
    if header.size_bytes != len(batch):
        raise CorruptBatchError(
            f"{len(batch)} bytes where one batch of {header.size_bytes} was wanted", topic=topic, partition=partition
        )
    if header.is_transactional != (producer.transactional_id is not None):
        raise ConfigError(
            f"a batch for {queue.partition} is {'' if header.is_transactional else 'not '}transactional, "
            f"its producer is {'not' if header.is_transactional else ''}".rstrip(),
            you_want="encode_columns(…, transactional=True) exactly when there is a transactional id",
        )
    # The stamp is written into the bytes, which may be somebody else's.
    data = bytearray(batch) if isinstance(batch, bytes) or memoryview(batch).readonly else batch
    stamp_producer(
        data,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=queue.sequence_next,
    )
    queue.sequence_next = (queue.sequence_next + header.last_offset_delta + 1) & SEQUENCE_MASK
    queue.numbered += 1
    return QueuedBatch(number=queue.numbered - 1, data=data, records=header.record_count)

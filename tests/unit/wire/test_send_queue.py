"""The queue of one partition: order, how many may be under way, what goes again, what a stamp says."""

import pytest

from semel.errors import ConfigError, ConnectionFailure, CorruptBatchError
from semel.protocol.batch_header import check_batch, read_header
from semel.protocol.record_batch import DraftRecord, encode_batch
from semel.wire.send_queue import Acknowledged, PartitionQueue, ProducerIdentity, QueuedBatch, stamped
from semel.wire.topology import TopicPartition

PLACE = TopicPartition("t", 0)
WHO = ProducerIdentity(producer_id=7, producer_epoch=3)
LOST = ConnectionFailure("lost")


def batch(count: int = 1, *, transactional: bool = False) -> bytes:
    return encode_batch([DraftRecord(key=None, value=b"v", timestamp_ms=1)] * count, transactional=transactional)


def queue_of(count: int, sequence: int = 0) -> tuple[PartitionQueue, list[QueuedBatch]]:
    queue = PartitionQueue(PLACE, sequence)
    queued = [stamped(batch(2), queue, WHO) for _ in range(count)]
    queue.waiting.extend(queued)
    return queue, queued


def test_a_stamp_has_producer_sequence_and_checksum() -> None:
    queue, queued = queue_of(3, sequence=10)
    headers = [read_header(each.data) for each in queued]
    assert [(h.producer_id, h.producer_epoch, h.base_sequence) for h in headers] == [(7, 3, 10), (7, 3, 12), (7, 3, 14)]
    for each, header in zip(queued, headers, strict=True):
        check_batch(each.data, header)
    assert queue.sequence_next == 16


def test_sequences_wrap() -> None:
    queue, queued = queue_of(2, sequence=2**31 - 2)
    assert [read_header(each.data).base_sequence for each in queued] == [2**31 - 2, 0]
    assert queue.sequence_next == 2


def test_a_writable_batch_is_stamped_in_place_and_others_are_copied() -> None:
    queue = PartitionQueue(PLACE, 0)
    writable, fixed = bytearray(batch()), batch()
    assert stamped(writable, queue, WHO).data is writable
    assert stamped(fixed, queue, WHO).data is not fixed
    assert stamped(memoryview(fixed), queue, WHO).data is not fixed
    assert read_header(fixed).producer_id == -1


@pytest.mark.parametrize("data", [b"", batch()[:-1], batch() + b"\0", batch() + batch()])
def test_what_is_not_one_batch_is_refused(data: bytes) -> None:
    queue = PartitionQueue(PLACE, 0)
    with pytest.raises(CorruptBatchError):
        stamped(data, queue, WHO)
    assert queue.sequence_next == 0


@pytest.mark.parametrize("transactional", [True, False])
def test_batch_and_producer_must_agree_about_the_transaction(transactional: bool) -> None:
    who = ProducerIdentity(producer_id=1, producer_epoch=0, transactional_id=None if transactional else "p")
    with pytest.raises(ConfigError, match="transactional"):
        stamped(batch(transactional=transactional), PartitionQueue(PLACE, 0), who)


def send_all_that_may(queue: PartitionQueue) -> list[QueuedBatch]:
    sent = []
    while queue.may_send(5):
        sent.append(queue.waiting[0])
        queue.sent_first()
    return sent


def test_one_goes_first_then_up_to_five() -> None:
    queue, queued = queue_of(9)
    assert send_all_that_may(queue) == queued[:1]
    queue.acknowledge(queued[0], 100)
    assert send_all_that_may(queue) == queued[1:6]
    queue.acknowledge(queued[1], 102)
    assert send_all_that_may(queue) == queued[6:7]


def test_after_a_failure_nothing_goes_until_all_answers_are_in_and_then_in_order() -> None:
    queue, queued = queue_of(8)
    send_all_that_may(queue)
    queue.acknowledge(queued[0], 0)
    send_all_that_may(queue)
    queue.put_back(queued[1], LOST)
    assert queue.failed_before(queued[2])
    assert not queue.failed_before(queued[1])
    for late in (queued[3], queued[2], queued[5]):
        queue.put_back(late, LOST)
        assert send_all_that_may(queue) == []
    queue.put_back(queued[4], LOST)
    assert send_all_that_may(queue) == []
    queue.failure = None
    assert send_all_that_may(queue) == queued[1:6]


def test_until_the_first_acknowledgement_a_failed_batch_goes_alone_again() -> None:
    queue, queued = queue_of(3)
    send_all_that_may(queue)
    queue.put_back(queued[0], LOST)
    queue.failure = None
    assert send_all_that_may(queue) == queued[:1]


def test_the_sum_counts_acknowledged_batches_only() -> None:
    queue, queued = queue_of(3)
    send_all_that_may(queue)
    queue.acknowledge(queued[0], 40)
    send_all_that_may(queue)
    queue.acknowledge(queued[1], 42)
    assert queue.acknowledged() == Acknowledged(records=4, batches=2, offset_first=40, sequence_next=6)


def test_none_goes_five_after_one_that_the_leader_may_have_without_saying_so() -> None:
    queue, queued = queue_of(9)
    send_all_that_may(queue)
    queue.acknowledge(queued[0], 0)
    send_all_that_may(queue)
    queue.put_back(queued[1], LOST)
    for number in (2, 3, 4, 5):
        queue.acknowledge(queued[number], number)
    queue.failure = None
    assert send_all_that_may(queue) == queued[1:2]
    queue.acknowledge(queued[1], 1)
    assert send_all_that_may(queue) == queued[6:9]

"""M05: a producer id at start, a sequence per partition from 0; the broker takes the next one only.

A smaller one is a duplicate: acknowledged with its first offset, not appended. A larger one is a gap: refused.
Without a producer id the broker has nothing to compare, and takes whatever comes.
"""

import pytest

import semel
from semel.broker.runtime.intercept import DropRequest
from semel.protocol.error_codes import ErrorCode
from tests.clients.choice import each
from tests.clients.drivers.interface import Driver, Sent
from tests.clients.fixtures import MakeTopic
from tests.support.idempotent import RawProducer
from tests.support.stored import stored_headers

REMEMBERED_BATCHES = 5
SEQUENCE_END = 2**31
COUNT = 300


def _sequences(cluster: semel.Cluster, topic: str, partition: int = 0) -> list[tuple[int, int]]:
    """Give base offset and base sequence of every batch in the log."""
    headers = stored_headers(cluster, topic, partition=partition)
    return [(header.base_offset, header.base_sequence) for header in headers]


@pytest.fixture
def producer(cluster: semel.Cluster, topic: str) -> RawProducer:
    return RawProducer(cluster, topic)


def test_the_next_sequence_is_taken(cluster: semel.Cluster, topic: str, producer: RawProducer) -> None:
    answers = [producer.send(0, 3), producer.send(3, 2), producer.send(5)]
    assert [(one.error_code, one.base_offset) for one in answers] == [(0, 0), (0, 3), (0, 5)]
    assert _sequences(cluster, topic) == [(0, 0), (3, 3), (5, 5)]


def test_a_gap_is_refused(cluster: semel.Cluster, topic: str, producer: RawProducer) -> None:
    producer.send(0, 3)
    assert producer.send(4).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert _sequences(cluster, topic) == [(0, 0)]
    assert producer.send(3).base_offset == 3, "what was missing may still come"


@pytest.mark.parametrize("back", range(1, REMEMBERED_BATCHES + 1))
def test_a_duplicate_is_acknowledged_with_its_first_offset(
    cluster: semel.Cluster, topic: str, producer: RawProducer, back: int
) -> None:
    for sequence in range(0, 16, 2):
        producer.send(sequence, 2)
    before = _sequences(cluster, topic)
    again = producer.send(16 - 2 * back, 2)
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 16 - 2 * back)
    assert _sequences(cluster, topic) == before


def test_a_repeat_older_than_the_memory_is_refused(cluster: semel.Cluster, topic: str, producer: RawProducer) -> None:
    for sequence in range(REMEMBERED_BATCHES + 1):
        producer.send(sequence)
    assert producer.send(0).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert len(_sequences(cluster, topic)) == REMEMBERED_BATCHES + 1


def test_half_a_repeat_is_no_duplicate(cluster: semel.Cluster, topic: str, producer: RawProducer) -> None:
    producer.send(0, 4)
    assert producer.send(2, 4).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert _sequences(cluster, topic) == [(0, 0)]


def test_the_sequence_wraps(cluster: semel.Cluster, topic: str, producer: RawProducer) -> None:
    """An id without state may begin anywhere, so that the end of the numbers is near."""
    assert producer.send(SEQUENCE_END - 2, 4).error_code == ErrorCode.NONE
    assert producer.send(SEQUENCE_END - 2, 4).base_offset == 0
    assert producer.send(3).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(2).base_offset == 4
    assert _sequences(cluster, topic) == [(0, SEQUENCE_END - 2), (4, 2)]


def test_each_partition_counts_for_itself(cluster: semel.Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    producer = RawProducer(cluster, topic)
    producer.send(0, 5)
    assert producer.send(5, partition=1).error_code == ErrorCode.NONE, "no state there, so any start"
    assert producer.send(5).error_code == ErrorCode.NONE
    assert producer.send(7, partition=1).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_each_producer_counts_for_itself(cluster: semel.Cluster, topic: str) -> None:
    one, other = RawProducer(cluster, topic), RawProducer(cluster, topic)
    assert one.producer_id != other.producer_id
    assert [one.send(0).base_offset, other.send(0).base_offset, one.send(1).base_offset] == [0, 1, 2]
    assert one.send(0).base_offset == 0


def test_without_a_producer_id_a_repeat_is_appended_again(cluster: semel.Cluster, topic: str) -> None:
    plain = RawProducer(cluster, topic, producer_id=-1)
    assert [plain.send(0, 3).base_offset, plain.send(0, 3).base_offset] == [0, 3]
    assert _sequences(cluster, topic) == [(0, -1), (3, -1)]


@each()
def test_clients_number_from_0_and_keep_order_over_a_lost_request(
    cluster: semel.Cluster, driver: Driver, topic: str
) -> None:
    """Batches sent after the lost one arrive first, are refused as a gap, and are sent again behind it."""
    records = [Sent(key=b"%d" % number, value=b"v" * 1_000) for number in range(COUNT)]
    lost = cluster.intercept("Produce", DropRequest(), times=1)
    assert driver.produce(topic, records, idempotent=True) == list(range(COUNT))
    assert lost.fired == 1
    pairs = _sequences(cluster, topic)
    assert pairs[0] == (0, 0)
    assert all(offset == sequence for offset, sequence in pairs)
    assert [one.key for one in driver.consume(topic, {0: 0}, COUNT)] == [one.key for one in records]

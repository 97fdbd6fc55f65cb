"""Where a consumer begins, and how it waits: from the middle, out of range, for a record that is not there yet."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import semel
from semel.broker.runtime.intercept import Delay
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.fetch import FetchRequest
from tests.clients.choice import each
from tests.clients.drivers.interface import Driver, Refused, Sent
from tests.support.topics import produce
from tests.support.waiting import eventually

RECORDS = [Sent(key=b"%d" % number, timestamp_ms=1_700_000_000_000 + 10 * number) for number in range(20)]


@each()
def test_from_the_middle(driver: Driver, topic: str) -> None:
    driver.produce(topic, RECORDS)
    got = driver.consume(topic, {0: 7}, 13)
    assert [one.offset for one in got] == list(range(7, 20))
    assert [one.sent for one in got] == RECORDS[7:]


@each()
def test_out_of_range_is_an_error(driver: Driver, topic: str) -> None:
    driver.produce(topic, RECORDS)
    with pytest.raises(Refused) as refused:
        driver.consume(topic, {0: 21}, 1)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


@each()
def test_out_of_range_with_a_reset(driver: Driver, topic: str) -> None:
    driver.produce(topic, RECORDS)
    assert [one.offset for one in driver.consume(topic, {0: 1_000}, 20, reset="earliest")] == list(range(20))


@each()
def test_below_the_range_after_records_were_deleted(driver: Driver, topic: str) -> None:
    driver.produce(topic, RECORDS)
    driver.delete_records(topic, 0, 5)
    with pytest.raises(Refused) as refused:
        driver.consume(topic, {0: 2}, 1)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert driver.consume(topic, {0: 2}, 1, reset="earliest")[0].offset == 5


def _asks_for(request: object, topic: str, topic_id: object) -> bool:
    return isinstance(request, FetchRequest) and any(
        topic == one.topic or topic_id == one.topic_id for one in request.topics
    )


@each(old_java=True)
def test_a_waiting_consumer_gets_a_record_that_comes_later(cluster: semel.Cluster, driver: Driver, topic: str) -> None:
    """Nothing is written before the consumer's question has reached the broker."""
    topic_id = cluster.core.controller.state.topics[topic].id
    asked = cluster.intercept("Fetch", Delay(ms=0), where=lambda seen: _asks_for(seen.request, topic, topic_id))
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(driver.consume, topic, {0: 0}, 1)
        eventually(lambda: asked.fired, what="the consumer asks")
        produce(cluster, topic, 1)
        got = reading.result(timeout=60)
    assert [one.value for one in got] == [b"v" * 100]


@each()
def test_a_consumer_at_the_end_gets_nothing(driver: Driver, topic: str) -> None:
    driver.produce(topic, RECORDS)
    assert driver.consume(topic, {0: 20}, 1, wait_ms_max=300) == []

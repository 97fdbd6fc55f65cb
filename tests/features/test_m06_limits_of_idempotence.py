"""M06: what idempotence does not promise.

It numbers what one producer sends to one partition. The same record sent by the application to two partitions is two
records; a restarted producer without a transactional id has a new producer id, and what it sends again is there twice.
"""

import semel
from semel.broker.runtime.intercept import DropResponse
from tests.clients.choice import each
from tests.clients.drivers.interface import Driver, Sent
from tests.clients.fixtures import MakeTopic
from tests.support.stored import stored_headers

ORDER = Sent(key=b"order-1", value=b"seat 12A")


@each()
def test_held_one_producer_one_partition(cluster: semel.Cluster, driver: Driver, topic: str) -> None:
    lost = cluster.intercept("Produce", DropResponse(), times=1)
    assert driver.produce(topic, [ORDER], idempotent=True) == [0]
    assert lost.fired == 1
    assert driver.offsets(topic, 0) == (0, 1)


@each()
def test_broken_the_same_record_to_two_partitions(driver: Driver, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    twin = Sent(key=ORDER.key, value=ORDER.value, partition=1)
    assert driver.produce(topic, [ORDER, twin], idempotent=True) == [0, 0]
    got = driver.consume(topic, {0: 0, 1: 0}, 2)
    assert [one.key for one in got] == [ORDER.key, ORDER.key]


@each()
def test_broken_by_the_application_sending_again(driver: Driver, topic: str) -> None:
    assert driver.produce(topic, [ORDER, ORDER], idempotent=True) == [0, 1]
    assert [one.key for one in driver.consume(topic, {0: 0}, 2)] == [ORDER.key, ORDER.key]


@each()
def test_broken_by_a_restarted_producer(cluster: semel.Cluster, driver: Driver, topic: str) -> None:
    """The first producer ends without knowing that its record was written, and its successor sends it again."""
    driver.produce(topic, [ORDER], idempotent=True)
    driver.produce(topic, [ORDER], idempotent=True)
    before, after = stored_headers(cluster, topic)
    assert before.producer_id != after.producer_id
    assert (before.base_sequence, after.base_sequence) == (0, 0)
    assert [one.key for one in driver.consume(topic, {0: 0}, 2)] == [ORDER.key, ORDER.key]

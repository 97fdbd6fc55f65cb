"""M04: the append happened, the answer got lost, the producer sends again.

A plain producer leaves a duplicate; an idempotent one leaves one record and learns its first offset.
"""

import semel
from semel.broker.runtime.intercept import CutMidFrame, DropRequest, DropResponse
from tests.clients.choice import each
from tests.clients.drivers.interface import Driver, Sent

RECORDS = [Sent(key=b"order-1", value=b"seat 12A"), Sent(key=b"order-2", value=b"seat 12B")]
KEYS = [one.key for one in RECORDS]


def _keys(driver: Driver, topic: str) -> list[bytes | None]:
    """Read everything there is."""
    end = driver.offsets(topic, 0)[1]
    return [one.key for one in driver.consume(topic, {0: 0}, end)]


@each(old_java=True)
def test_idempotent_one_record(cluster: semel.Cluster, driver: Driver, topic: str) -> None:
    lost = cluster.intercept("Produce", DropResponse(), times=1)
    assert driver.produce(topic, RECORDS, idempotent=True) == [0, 1]
    assert lost.fired == 1
    assert _keys(driver, topic) == KEYS


@each(old_java=True)
def test_plain_a_duplicate(cluster: semel.Cluster, driver: Driver, topic: str) -> None:
    lost = cluster.intercept("Produce", DropResponse(), times=1)
    driver.produce(topic, RECORDS)
    assert lost.fired == 1
    assert _keys(driver, topic) in (KEYS + KEYS, [KEYS[0], *KEYS]), "the first batch may hold one record or both"


@each()
def test_idempotent_after_several_losses(cluster: semel.Cluster, driver: Driver, topic: str) -> None:
    lost = cluster.intercept("Produce", DropResponse(), times=3)
    assert driver.produce(topic, RECORDS, idempotent=True) == [0, 1]
    assert lost.fired == 3
    assert _keys(driver, topic) == KEYS


@each()
def test_idempotent_when_the_answer_breaks_off(cluster: semel.Cluster, driver: Driver, topic: str) -> None:
    broken = cluster.intercept("Produce", CutMidFrame(), times=1)
    assert driver.produce(topic, RECORDS, idempotent=True) == [0, 1]
    assert broken.fired == 1
    assert _keys(driver, topic) == KEYS


@each()
def test_a_lost_request_alone_duplicates_nothing(cluster: semel.Cluster, driver: Driver, topic: str) -> None:
    """The contrast: nothing was appended the first time, so that even a plain producer leaves one record each."""
    lost = cluster.intercept("Produce", DropRequest(), times=1)
    driver.produce(topic, RECORDS)
    assert lost.fired == 1
    assert sorted(key or b"" for key in _keys(driver, topic)) == sorted(key or b"" for key in KEYS)

"""M10: fewer replicas in sync than min.insync.replicas: acks=all is refused with Kafka's error, acks=1 goes on (R8)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

import semel
from tests.clients.drivers.interface import Driver, Sent
from tests.features.replicas import Replicas, create_replicated, repair, survivors
from tests.support.waiting import eventually

BEFORE = [Sent(key=b"order-1", value=b"paid")]
BELOW = [Sent(key=b"order-2", value=b"paid")]
AFTER = [Sent(key=b"order-3", value=b"paid")]
WAIT_S_MAX = 30


@pytest.fixture
def replicas(cluster: semel.Cluster, request: pytest.FixtureRequest) -> Iterator[Replicas]:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    create_replicated(cluster, name, {"min.insync.replicas": "2"})
    yield Replicas(cluster, name)
    repair(cluster)


def refusal(cluster: semel.Cluster, topic: str) -> int:
    """What a producer that does not try again is told."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "retries": 0})
    producer.produce(topic, b"paid", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WAIT_S_MAX) == 0
    error = errors[0]
    return 0 if error is None else KafkaException(error).args[0].code()


@survivors
def test_acks_all_is_refused_and_acks_1_goes_on(cluster: semel.Cluster, driver: Driver, replicas: Replicas) -> None:
    driver.produce(replicas.topic, BEFORE)
    replicas.kill(*replicas.followers)
    assert len(replicas.place.isr) == 1
    assert refusal(cluster, replicas.topic) == KafkaError.NOT_ENOUGH_REPLICAS
    leader = replicas.place.leader
    assert replicas.end_offset(leader) == 1, "what is refused is not appended"
    driver.produce(replicas.topic, BELOW, acks="1")
    replicas.note("acks=1 below the minimum")
    assert replicas.end_offset(leader) == 2
    assert driver.offsets(replicas.topic, 0)[1] == 1, "nothing new is readable that too few replicas have"
    repair(cluster)
    replicas.wait_insync(3)
    driver.produce(replicas.topic, AFTER)
    eventually(lambda: driver.offsets(replicas.topic, 0)[1] == 3, what="all three readable")
    keys = [one.key for one in driver.consume(replicas.topic, {0: 0}, 3)]
    assert keys == [b"order-1", b"order-2", b"order-3"]


def test_with_enough_replicas_the_same_producer_is_served(cluster: semel.Cluster, replicas: Replicas) -> None:
    """The contrast: one replica may be missing."""
    replicas.kill(replicas.followers[0])
    assert len(replicas.place.isr) == 2
    assert refusal(cluster, replicas.topic) == 0

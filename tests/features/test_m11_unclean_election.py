"""M11: nobody in sync is left. With unclean election records are lost; without it the partition waits (R4).

The same story twice: the followers die, the leader acknowledges more records alone, then it dies and a follower that
lacks them comes back first.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer

import semel
from tests.clients.drivers.interface import Driver, Sent
from tests.features.replicas import Replicas, create_replicated, repair, survivors
from tests.support.waiting import eventually

COPIED = [Sent(key=f"copied-{number}".encode(), value=b"paid") for number in range(5)]
ALONE = [Sent(key=f"alone-{number}".encode(), value=b"paid") for number in range(7)]
LATER = [Sent(key=b"later", value=b"paid")]
GIVE_UP_MS = 1500
WAIT_S_MAX = 30


@pytest.fixture
def replicas(cluster: semel.Cluster, request: pytest.FixtureRequest) -> Iterator[Replicas]:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    unclean = "unclean" in request.function.__name__
    create_replicated(cluster, name, {"unclean.leader.election.enable": str(unclean).lower()})
    yield Replicas(cluster, name)
    repair(cluster)


def tell(driver: Driver, replicas: Replicas) -> tuple[int, int]:
    """Play the story until a follower that lacks records is back; the old leader and that follower."""
    leader, (first, second) = replicas.place.leader, replicas.followers
    driver.produce(replicas.topic, COPIED)
    replicas.kill(first, second)
    driver.produce(replicas.topic, ALONE)
    replicas.note("acknowledged by the only one in sync")
    replicas.kill(leader)
    replicas.restart(second)
    return leader, second


def keys(driver: Driver, replicas: Replicas) -> list[bytes | None]:
    end = driver.offsets(replicas.topic, 0)[1]
    return [one.key for one in driver.consume(replicas.topic, {0: 0}, end)]


@pytest.mark.quick(1)
@survivors
def test_unclean_acknowledged_records_are_lost_and_counted(driver: Driver, replicas: Replicas) -> None:
    leader, survivor = tell(driver, replicas)
    assert (replicas.place.leader, replicas.place.isr) == (survivor, (survivor,))
    driver.produce(replicas.topic, LATER)
    replicas.restart(leader)
    replicas.wait_insync(2)
    found = keys(driver, replicas)
    lost = [one.key for one in COPIED + ALONE if one.key not in found]
    assert lost == [one.key for one in ALONE], "all that the old leader acknowledged alone, and nothing else"
    assert found == [one.key for one in COPIED + LATER]
    assert replicas.end_offset(leader) == replicas.end_offset(survivor), "the old leader's log was cut"


@pytest.mark.quick(1)
@survivors
def test_clean_the_partition_waits_and_nothing_is_lost(
    cluster: semel.Cluster, driver: Driver, replicas: Replicas
) -> None:
    leader, survivor = tell(driver, replicas)
    assert (replicas.place.leader, replicas.place.isr) == (-1, (leader,))
    assert outcome(cluster, replicas.topic) in (KafkaError._MSG_TIMED_OUT, KafkaError.LEADER_NOT_AVAILABLE)
    assert replicas.end_offset(survivor) == len(COPIED), "whoever lacks records takes none"
    replicas.restart(leader)
    assert replicas.place.leader == leader
    driver.produce(replicas.topic, LATER)
    eventually(lambda: replicas.end_offset(survivor) == replicas.end_offset(leader), what="the follower has all")
    assert keys(driver, replicas) == [one.key for one in COPIED + ALONE + LATER]


def outcome(cluster: semel.Cluster, topic: str) -> int:
    """What a producer with little patience is told."""
    errors: list[int] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": GIVE_UP_MS})
    producer.produce(topic, b"paid", on_delivery=lambda error, _: errors.append(error.code() if error else 0))
    assert producer.flush(WAIT_S_MAX) == 0
    return errors[0]

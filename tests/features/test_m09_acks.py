"""M09: what acks=0, acks=1 and acks=all promise, each against the fault that tells them apart.

acks=0: a request that is lost goes unnoticed. acks=1: what only the leader has dies with it. acks=all with
min.insync.replicas=2: what was acknowledged is there, whoever dies (R8).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import semel
from semel.broker.runtime.intercept import DropRequest
from tests.clients.drivers.interface import Driver, Sent
from tests.features.replicas import Replicas, create_replicated, repair, survivors
from tests.support.waiting import eventually

RECORDS = [Sent(key=f"order-{number}".encode(), value=b"paid") for number in range(20)]
KEYS = [one.key for one in RECORDS]
WAIT_S_MAX = 60


@pytest.fixture
def replicas(cluster: semel.Cluster, request: pytest.FixtureRequest) -> Iterator[Replicas]:
    """A partition on three brokers, of which two must have a record before acks=all is answered."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    create_replicated(cluster, name, {"min.insync.replicas": "2"})
    yield Replicas(cluster, name)
    repair(cluster)


def stored(driver: Driver, replicas: Replicas) -> list[bytes | None]:
    """Every key that a reader gets."""
    end = driver.offsets(replicas.topic, 0)[1]
    return [one.key for one in driver.consume(replicas.topic, {0: 0}, end)] if end else []


@survivors
def test_acks_0_a_lost_request_goes_unnoticed(cluster: semel.Cluster, driver: Driver, replicas: Replicas) -> None:
    lost = cluster.intercept("Produce", DropRequest(), times=1)
    driver.produce(replicas.topic, RECORDS, acks="0")
    eventually(lambda: lost.fired == 1, what="the request arrives and is dropped")
    assert len(stored(driver, replicas)) < len(RECORDS), "every send was reported as a success"


@survivors
def test_acks_all_a_lost_request_is_sent_again(cluster: semel.Cluster, driver: Driver, replicas: Replicas) -> None:
    lost = cluster.intercept("Produce", DropRequest(), times=1)
    driver.produce(replicas.topic, RECORDS, acks="all")
    assert lost.fired == 1
    assert set(stored(driver, replicas)) == set(KEYS)


@survivors
def test_acks_1_what_only_the_leader_has_dies_with_it(
    cluster: semel.Cluster, driver: Driver, replicas: Replicas
) -> None:
    leader = replicas.place.leader
    replicas.cut_followers()
    driver.produce(replicas.topic, RECORDS, acks="1")
    replicas.note("acknowledged by the leader alone")
    replicas.kill(leader)
    cluster.heal()
    assert replicas.place.leader not in (leader, -1)
    assert stored(driver, replicas) == [], "all of them were acknowledged, all of them are lost"
    replicas.restart(leader)
    replicas.wait_insync(3)
    assert replicas.end_offset(leader) == 0, "the old leader has cut off what nobody else has"


@survivors
def test_acks_all_nothing_acknowledged_dies_with_the_leader(
    cluster: semel.Cluster, driver: Driver, replicas: Replicas
) -> None:
    """The same fault: nothing is acknowledged while the followers are cut off, and all of it is sent to the next."""
    leader = replicas.place.leader
    replicas.cut_followers()
    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(driver.produce, replicas.topic, RECORDS, acks="all")
        eventually(lambda: replicas.end_offset(leader) > 0, what="records in the leader's log")
        assert not sending.done()
        replicas.kill(leader)
        cluster.heal()
        sending.result(WAIT_S_MAX)
    replicas.note("acknowledged by the next leader")
    assert set(stored(driver, replicas)) == set(KEYS)

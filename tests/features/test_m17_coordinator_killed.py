"""M17 The coordinator is killed at every step of an end: all or nothing all the same, and the id goes on working.

The kill happens inside the cluster, at the moment a chosen message arrives: nothing is timed.

Keeps: T2 one durable record decides a transaction, and once decided it is finished whatever fails in between.
"""

import asyncio
from collections.abc import Callable

import pytest

import semel
from semel.broker.runtime.intercept import Action, Delay, DropRequest, Hook, Seen
from semel.protocol.message import Message
from semel.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.features.producers import LIBRARIES, TransactionalProducer
from tests.features.reading import coordinator_of, described, seen, wait_complete
from tests.features.tickets import MakeProducer
from tests.support.waiting import eventually

STEPS = ("before prepare", "after prepare", "between markers", "after markers", "after completion")
OUTCOMES = pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])


def leaders(cluster: semel.Cluster, topic: str) -> dict[int, int]:
    """Partition by leader."""
    places = cluster.core.controller.state.topics[topic].partitions
    return {place.leader: index for index, place in enumerate(places)}


def marks(request: Message, topic: str) -> bool:
    """Whether this WriteTxnMarkers is for the topic."""
    assert isinstance(request, WriteTxnMarkersRequest)
    return any(row.name == topic for marker in request.markers for row in marker.topics)


class Killer:
    """Kills the coordinator when a message passes."""

    def __init__(self, cluster: semel.Cluster, transactional_id: str) -> None:
        """Find out who coordinates, and who does not."""
        self.cluster = cluster
        self.coordinator = coordinator_of(cluster, transactional_id)
        first, second = sorted({1, 2, 3} - {self.coordinator})
        # Partitions that other brokers lead, each by one of its own.
        self.places = {"status": leaders(cluster, "status")[first], "seats": leaders(cluster, "seats")[second]}

    def arm(self, step: str) -> Hook | None:
        """Prepare to kill at this step; None when it comes after everything."""
        match step:
            case "before prepare":
                return self._kill_on("EndTxn", DropRequest(), lambda _: True)
            case "after prepare":
                return self._kill_on("WriteTxnMarkers", DropRequest(), lambda _: True)
            case "between markers":  # seats come first
                return self._kill_on("WriteTxnMarkers", DropRequest(), lambda one: marks(one.request, "status"))
            case "after markers":  # the request has arrived and is carried out; who sent it is dead
                return self._kill_on("WriteTxnMarkers", Delay(ms=0), lambda one: marks(one.request, "status"))
        return None

    def _kill_on(self, api: str, action: Action, where: Callable[[Seen], bool]) -> Hook:
        hook = self.cluster.intercept(api, action, where=where)
        hook.on_fire.append(lambda _: self._kill())
        return hook

    def _kill(self) -> None:
        """Runs on the cluster's loop: dead at once, started again as soon as the port is free."""
        self.cluster.core.kill(self.coordinator)
        self._restart = asyncio.get_running_loop().create_task(self.cluster.core.restart(self.coordinator))


def run_ended(producer: TransactionalProducer, killer: Killer, name: str) -> None:
    producer.begin()
    for topic, partition in killer.places.items():
        producer.send(topic, f"{topic} {name}", partition)
    producer.flush()


@pytest.mark.sampled(30)
@pytest.mark.quick(10)
@OUTCOMES
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_all_or_nothing(
    tickets: semel.Cluster, producer_of: MakeProducer, library: str, step: str, commit: bool
) -> None:
    kill_at(tickets, producer_of(library), step, commit=commit)


def kill_at(cluster: semel.Cluster, producer: TransactionalProducer, step: str, *, commit: bool) -> None:
    """One transaction whose coordinator dies at a step, and one after it."""
    producer.init()
    killer = Killer(cluster, "tickets")
    run_ended(producer, killer, "first")
    hook = killer.arm(step)
    producer.commit() if commit else producer.abort()
    if hook is None:
        wait_complete(cluster)
        cluster.restart(killer.coordinator)
    else:
        eventually(lambda: hook.fired, what=f"killed {step}")
    eventually(lambda: killer.coordinator in cluster.core.brokers, what="the coordinator is back")
    wait_complete(cluster)
    wanted = ["seats first", "status first"] if commit else []
    assert seen(cluster, "status", "seats") == wanted
    run_ended(producer, killer, "second")
    producer.commit()
    wait_complete(cluster)
    assert seen(cluster, "status", "seats") == sorted([*wanted, "seats second", "status second"])
    assert described(cluster, "tickets")[0] == "CompleteCommit"

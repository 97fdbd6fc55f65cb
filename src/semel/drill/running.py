"""Run a cell: a cluster of its own, the program, the fault at its moment, and a count of what came out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from semel.drill.cells import KILL_CLIENT, Cell, ClientKill, Observed
from semel.drill.client_life import killed_at
from semel.drill.damage.records import WAIT_S_MAX, Reachable, commit_positions, consumer, producer, wait_until
from semel.drill.programs import Errand
from semel.drill.strikes import Blow, Scene
from semel.engine.embedded import Cluster
from semel.errors import EnvironmentFailure

RECORDS = 60
IN_SYNC_S_MAX, FELT_S_MAX = 120.0, 60.0
SOURCE, TARGET, PARTITIONS = "orders", "results", 2
# Losses are found and leaders move within a second, so that a cell takes seconds and not minutes.
CONFIG = {
    "min.insync.replicas": "2",
    "auto.create.topics.enable": "false",
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "1000",
    "replica.lag.time.max.ms": "1000",
    "replica.fetch.wait.max.ms": "100",
}


def run_cell(cell: Cell, seed: int, folder: Path) -> Observed:
    """Run it; the folder takes the logs and what the program keeps. What could not be done is the reason."""
    try:
        return _run(cell, seed, folder)
    except EnvironmentFailure as failure:
        return Observed(reason=failure.summary)


def _run(cell: Cell, seed: int, folder: Path) -> Observed:
    flush = "os" if isinstance(cell.fault, ClientKill) else cell.fault.flush
    topics = [f"{SOURCE}:{PARTITIONS}:3", f"{TARGET}:1:3"]
    with Cluster(brokers=3, topics=topics, config=CONFIG, flush=flush, data=folder / "cluster") as cluster:
        errand = prepared(cluster, cell, folder / "results.db")
        wait_in_sync(cluster)
        if isinstance(cell.fault, ClientKill):
            fired, errors, reason = with_killed_client(cell, cell.fault, errand, cell.count(seed))
        else:
            fired, errors, reason = _under_blow(cell, cluster, errand, cell.count(seed))
        wait_in_sync(cluster)
        found = cell.way.found(errand)
    return Observed.count(errand.values, found, fired=fired, errors=errors, reason=reason)


Outcome = tuple[dict[str, int], list[str], str]


def _under_blow(cell: Cell, cluster: Cluster, errand: Errand, count: int) -> Outcome:
    assert not isinstance(cell.fault, ClientKill)
    way, reason = cell.way, ""
    errors: list[str] = []
    scene = Scene(cluster=cluster, source=errand.source, target=errand.target, name=errand.name, apis=way.apis)
    with ExitStack() as stack:
        blow = Blow(strike=cell.fault, scene=scene, stack=stack)
        if cell.fault.at_start:
            blow.fall()
        else:
            errand = replace(errand, on_step=AtMoment(way.moment, count, blow.fall))
        try:
            errors = [error.summary for error in way.survive(errand)]
            # The program may be done before its clients' own threads have met the fault.
            if blow.faults:
                wait_until(lambda: blow.is_felt, f"everything was felt: {blow}", FELT_S_MAX)
        except EnvironmentFailure as failure:
            reason = failure.summary
        blow.wait_mended()
    return {str(fault): fault.fired for fault in blow.faults}, errors, reason


def with_killed_client(cell: Cell, kill: ClientKill, errand: Errand, count: int) -> Outcome:
    """One life that dies at its step, then as many as it takes; what fired, the errors, and why nothing was shown."""
    errand = replace(errand, member="worker")
    fault = f"{KILL_CLIENT} step={kill.step}"
    try:
        killed_at(cell.way, errand, kill.step, count)
        errors = [error.summary for error in cell.way.survive(errand)]
    except EnvironmentFailure as failure:
        return {fault: 0}, [], failure.summary
    return {fault: 1}, errors, ""


class AtMoment:
    """Strikes once, when the work has come to a step for the n-th time."""

    def __init__(self, moment: str, count: int, strike: Callable[[], None]) -> None:
        """Nothing has happened yet."""
        self._moment, self._left, self._strike = moment, count, strike

    def __call__(self, step: str) -> None:
        """Count."""
        if step == self._moment:
            self._left -= 1
            if self._left == 0:
                self._strike()


def prepared(cluster: Reachable, cell: Cell, store: Path, *, source: str = SOURCE, target: str = TARGET) -> Errand:
    """The input in its topic, and a group that stands at its beginning: at most once does not choose that by itself."""
    values = [str(number) for number in range(RECORDS)]
    if cell.way.path != "produce":
        client = producer(cluster, {"enable.idempotence": True})
        for number, value in enumerate(values):
            client.produce(source, value, partition=number % PARTITIONS)
        if client.flush(WAIT_S_MAX):
            raise EnvironmentFailure("the input of the cell could not be written")
        _commit_start(cluster, source)
    ends = tuple(RECORDS // PARTITIONS for _ in range(PARTITIONS))
    return Errand(bootstrap=cluster.bootstrap, source=source, target=target, values=values, ends=ends, store=store)


def _commit_start(cluster: Reachable, source: str) -> None:
    member = consumer(cluster, source)
    commit_positions(member, source, dict.fromkeys(range(PARTITIONS), 0))
    member.close()


def wait_in_sync(cluster: Cluster) -> None:
    """Wait until every partition has a leader and all of its replicas follow; on a busy machine that takes long."""

    def is_so() -> bool:
        places = [place for topic in cluster.core.state.topics.values() for place in topic.partitions]
        return all(len(place.isr) == len(place.replicas) and place.leader > 0 for place in places)

    wait_until(is_so, "all replicas are in sync", IN_SYNC_S_MAX)

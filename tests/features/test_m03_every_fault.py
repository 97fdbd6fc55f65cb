"""M01, M02, M03 under every fault of a cluster of three brokers, through semel.Producer and semel.Consumer.

Exactly once neither loses nor repeats, at least once never loses, at most once never repeats. A program that ends in an
error is started again; the fault strikes in the middle of its work, and has to be felt.

Keeps: K2 an error says whether it may have happened; K3 a commit whose outcome is unknown is asked for again; K4 an
       unfinished record is neither counted as done nor skipped; K6 nothing is handed out while offsets are in doubt.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

import semel
from semel.drill.strikes import STRIKES, RunningStrike, Scene, Strike
from semel.drill.ways import LEAST, MOST, SESSION, TRANSACTIONS, Way
from semel.guarantee import Anomaly
from tests.features.clusters import SETTINGS, Kafka
from tests.features.surviving import WAYS, AtMoment, check, prepared
from tests.support.topics import all_in_sync
from tests.support.waiting import eventually

RECORDS = 60
NEVER = "never"
CONFIG = SETTINGS | {
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "1000",
    "replica.lag.time.max.ms": "1000",
    "replica.fetch.wait.max.ms": "100",
}


def endure(cluster: semel.Cluster, way: Way, strike: Strike, store: Path) -> tuple[int, int]:
    """Copy while the fault strikes; how many records are lost, and how many repeated."""
    kafka = Kafka(name="embedded", bootstrap=cluster.bootstrap)
    program_input = prepared(kafka, RECORDS, store)
    scene = Scene(
        cluster=cluster,
        source=program_input.source,
        target=program_input.target,
        name=program_input.name,
        apis=way.apis,
    )
    with ExitStack() as stack:
        running_strike = RunningStrike(strike=strike, scene=scene, stack=stack)
        program_input = replace(
            program_input, on_step=AtMoment(NEVER if strike.at_start else way.moment, running_strike.begin)
        )
        eventually(lambda: all_in_sync(cluster), what="all replicas are in sync")
        if strike.at_start:
            running_strike.begin()
        way.survive(program_input)
        eventually(lambda: running_strike.is_felt, what=f"everything was felt: {running_strike}")
        running_strike.wait_mended()
    eventually(lambda: all_in_sync(cluster), what="everybody is back")
    return check(kafka, way, program_input, str(strike))


# Some of the damage that a weaker declaration allows is certain to be done.
HARMED = {
    (MOST, "requests lost, at work"): Anomaly.LOST,
    (MOST, "disk full"): Anomaly.LOST,
    (LEAST, "answers lost, at work"): Anomaly.DUPLICATED,
    (LEAST, "answers cut, at work"): Anomaly.DUPLICATED,
}
# The rest takes a quarter of an hour.
SHORT = {
    (MOST, "requests lost, at work"),
    (LEAST, "answers lost, at work"),
    (SESSION, "answers lost, at work"),
    (TRANSACTIONS, "answers lost, at work"),
    (TRANSACTIONS, "target's leader killed"),
    (TRANSACTIONS, "transaction coordinator killed"),
}
CELLS = [
    pytest.param(way, strike, id=f"{way}, {strike}", marks=() if (way, strike.name) in SHORT else pytest.mark.full)
    for way in WAYS
    for strike in STRIKES.values()
    if not strike.needs or strike.needs in way.apis
]


@pytest.mark.sampled(90)
@pytest.mark.quick(2)
@pytest.mark.parametrize(("way", "strike"), CELLS)
def test_every_fault(way: Way, strike: Strike, tmp_path: Path) -> None:
    with semel.Cluster(brokers=3, config=CONFIG, flush=strike.flush) as cluster:
        missing, surplus = endure(cluster, way, strike, tmp_path / "results.db")
    harm = HARMED.get((way, strike.name))
    assert missing > 0 or harm is not Anomaly.LOST
    assert surplus > 0 or harm is not Anomaly.DUPLICATED

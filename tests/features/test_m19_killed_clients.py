"""M19, and M01, M02, M03, M22 for processes: a copying process is killed (SIGKILL) at every step, and at random ones.

At most once loses and never repeats, at least once repeats and never loses, exactly once does neither.

Keeps: K4 an unfinished record is neither counted as done nor skipped; K6 under exactly once nothing is handed out while
       the offsets of the last batch are kept nowhere; K7 results and offsets are in the store together or not at all.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from semel.guarantee import Anomaly
from tests.features.clusters import Kafka
from tests.features.kills import OFFSETS_APART, WAYS, Copying, Toll, Way, Workers, random_deaths

EACH_WAY = pytest.mark.parametrize("way", WAYS, ids=str)
BATCH_RECORDS = 4  # what a worker takes at once
SEED = 8134


def judge(way: Way, toll: Toll) -> None:
    """Nothing that the guarantee does not allow; and what it allows is seen, or the kills have shown nothing."""
    for anomaly, count in ((Anomaly.LOST, toll.lost), (Anomaly.DUPLICATED, toll.repeated)):
        if way.guarantee.allows(anomaly):
            assert count > 0, f"{way}: the kills did no harm at all: {toll}"
        else:
            assert count == 0, f"{way}: {anomaly} {count} times: {toll}"


def tell(capsys: pytest.CaptureFixture[str], kafka: Kafka, way: Way, toll: Toll) -> None:
    with capsys.disabled():
        line = f"\n  {kafka.name}, {way}: killed {toll.kills} times, of {toll.records} records lost {toll.lost}"
        sys.stdout.write(f"{line}, repeated {toll.repeated}\n")


@pytest.mark.quick(2)
@EACH_WAY
def test_killed_at_every_step(kafka: Kafka, workers: Workers, way: Way, tmp_path: Path) -> None:
    deaths = [(kill_at, step) for step in way.steps for kill_at in (1, 2)]
    toll = Copying(kafka=kafka, workers=workers, way=way, folder=tmp_path).run(deaths, records=150)
    assert toll.kills == len(deaths), "a step that is never reached is no step"
    judge(way, toll)


@pytest.mark.full
@EACH_WAY
def test_killed_200_times_at_random(
    embedded_kafka: Kafka, workers: Workers, way: Way, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fifty kills for each of the four ways."""
    copying = Copying(kafka=embedded_kafka, workers=workers, way=way, folder=tmp_path)
    toll = copying.run(random_deaths(SEED, 50), records=900)
    tell(capsys, embedded_kafka, way, toll)
    assert toll.kills == 50
    judge(way, toll)


@pytest.mark.full
@EACH_WAY
def test_killed_200_times_on_apache_kafka(
    apache_kafka: Kafka, workers: Workers, way: Way, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copying = Copying(kafka=apache_kafka, workers=workers, way=way, folder=tmp_path)
    toll = copying.run(random_deaths(SEED, 50), records=900)
    tell(capsys, apache_kafka, way, toll)
    assert toll.kills == 50
    judge(way, toll)


@pytest.mark.quick(6)
@pytest.mark.parametrize(
    ("way", "step", "harm"),
    [
        (WAYS[0], "polled", (False, False)),
        (WAYS[0], "committed-before", (True, False)),
        (WAYS[1], "polled", (False, False)),
        (WAYS[1], "processed", (False, True)),
        (WAYS[2], "committed", (False, False)),
        (OFFSETS_APART, "committed", (False, True)),
    ],
    ids=str,
)
def test_what_one_kill_does(
    kafka: Kafka, workers: Workers, tmp_path: Path, way: Way, *, step: str, harm: tuple[bool, bool]
) -> None:
    """Committed and not processed is lost, processed and not committed is repeated: one batch of either.

    The last two are M22: a transaction is worth nothing to a reader whose offsets are not in it.
    """
    toll = Copying(kafka=kafka, workers=workers, way=way, folder=tmp_path).run([(1, step)], records=20)
    assert toll.kills == 1
    assert (toll.lost > 0, toll.repeated > 0) == harm
    assert max(toll.lost, toll.repeated) <= BATCH_RECORDS

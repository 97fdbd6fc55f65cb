"""Real drivers, killed for good (SIGKILL of Python and its JVM) after each step; the next driver finishes the work."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import semel
from semel.sinks.base import CommitStep
from tests.spark.sink_jobs import check_once, fill, ledger_of, new_topics, read_all

PROGRAM = Path(__file__).with_name("driver_program.py")
DRIVER_S_MAX = 150
NUMBERS = range(60)


def drive(settings: dict[str, str], folder: Path) -> int:
    """Run a driver in a process group of its own; its exit status, negative for the signal that ended it."""
    with (folder / "driver.log").open("ab") as output:
        driver = subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps(settings)],
            start_new_session=True,
            stdout=output,
            stderr=output,
            cwd=folder,
        )
        try:
            return driver.wait(DRIVER_S_MAX)
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)


def settings_of(cluster: semel.Cluster, folder: Path, partitioning: str, master: str = "local[2]") -> dict[str, str]:
    source, output = new_topics(cluster.bootstrap, 3, 3)
    fill(cluster.bootstrap, source, NUMBERS)
    return {
        "bootstrap": cluster.bootstrap,
        "source": source,
        "output": output,
        "pipeline": f"killed-{output}",
        "checkpoint": str(folder / "checkpoint"),
        "partitioning": partitioning,
        "master": master,
    }


def check(settings: dict[str, str]) -> None:
    found = read_all(settings["bootstrap"], settings["output"])
    check_once(found, NUMBERS, ordered=settings["partitioning"] == "keyed")
    last = ledger_of(settings["bootstrap"], settings["pipeline"]).last
    assert last is not None
    assert last.number == last.micro_batch_id + 1


@pytest.mark.parametrize(
    ("step", "partitioning"),
    [(CommitStep.OFFSETS_WRITTEN, "keyed"), (CommitStep.COMMITTED, "spread")],
)
def test_a_driver_is_killed(cluster: semel.Cluster, tmp_path: Path, step: CommitStep, partitioning: str) -> None:
    settings = settings_of(cluster, tmp_path, partitioning)
    assert drive(settings | {"step": str(step), "nth": "2"}, tmp_path) == -signal.SIGKILL
    assert drive(settings, tmp_path) == 0, (tmp_path / "driver.log").read_text()[-2000:]
    check(settings)


@pytest.mark.long
@pytest.mark.parametrize("partitioning", ["keyed", "spread"])
def test_drivers_are_killed_after_every_step(cluster: semel.Cluster, tmp_path: Path, partitioning: str) -> None:
    """Six drivers one after another, each killed one step further than the last."""
    settings = settings_of(cluster, tmp_path, partitioning)
    killed = 0
    for step in CommitStep:
        status = drive(settings | {"step": str(step), "nth": "1"}, tmp_path)
        assert status == -signal.SIGKILL, (tmp_path / "driver.log").read_text()[-2000:]
        killed += 1
    assert killed == len(CommitStep)
    assert drive(settings, tmp_path) == 0, (tmp_path / "driver.log").read_text()[-2000:]
    check(settings)


@pytest.mark.long
def test_a_local_cluster_gives_the_same(cluster: semel.Cluster, tmp_path: Path) -> None:
    settings = settings_of(cluster, tmp_path, "keyed", master="local-cluster[2,1,1024]")
    assert drive(settings, tmp_path) == 0, (tmp_path / "driver.log").read_text()[-2000:]
    check(settings)

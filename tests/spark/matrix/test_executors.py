"""Tasks fail, executors are killed, stages run again, Spark speculates; every row is there once.

E1: only the first attempt of a task writes, and only in the first attempt of its stage; anything else is a new run of
the micro-batch under a new producer epoch.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import semel
from tests.spark.matrix.cells import ALL_THREE, SPECULATIVE, SPECULATIVE_FAILS, STAGE_RUNS_AGAIN, Cell
from tests.spark.matrix.drivers import Driven
from tests.spark.matrix.faulty_rows import SECOND_ATTEMPT, STAGE_AGAIN
from tests.spark.matrix.standalone import StandaloneSpark


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    with StandaloneSpark(tmp_path_factory.mktemp("standalone")) as started:
        yield started


def driven(cluster: semel.Cluster, folder: Path, cell: Cell, *, master: str = "", **more: Any) -> Driven:
    settings = cell.settings(master) | more
    return Driven(folder=folder, bootstrap=cluster.bootstrap, numbers=cell.numbers, settings=settings)


@pytest.mark.full
def test_tasks_and_executors_die(cluster: semel.Cluster, tmp_path: Path) -> None:
    """One query, another fault in each micro-batch; a second attempt of a task refuses to write."""
    pipeline = driven(cluster, tmp_path, ALL_THREE)
    pipeline.finish()
    assert all(pipeline.struck(one) for one in ALL_THREE.faults)
    assert pipeline.log().count("is run again") >= len(ALL_THREE.faults)
    assert "does not write" in pipeline.log()
    pipeline.check(ordered=False)


@pytest.mark.full
def test_tasks_and_executors_die_before_the_shuffle(cluster: semel.Cluster, tmp_path: Path) -> None:
    """In the keyed way rows are encoded in one stage and sent in the next: there, a task may be run again."""
    faults = [{"kind": one.kind, "number": one.number} for one in ALL_THREE.faults]
    pipeline = driven(cluster, tmp_path, ALL_THREE, partitioning="keyed", faults=faults)
    pipeline.finish()
    assert all(pipeline.struck(one) for one in ALL_THREE.faults)
    pipeline.check(ordered=True)


@pytest.mark.full
def test_a_stage_runs_again(cluster: semel.Cluster, tmp_path: Path) -> None:
    """Shuffle files are lost: the stage that writes is run again, with first attempts, beside a task of the first."""
    pipeline = driven(cluster, tmp_path, STAGE_RUNS_AGAIN)
    pipeline.finish()
    assert any(pipeline.struck(one) for one in STAGE_RUNS_AGAIN.faults)
    assert (tmp_path / STAGE_AGAIN).exists()
    assert "ran more than once" in pipeline.log()
    pipeline.check(ordered=False)


@pytest.mark.full
def test_spark_speculates(cluster: semel.Cluster, standalone: StandaloneSpark, tmp_path: Path) -> None:
    """A second attempt beside a slow first one neither writes nor brings the job to its end."""
    pipeline = driven(cluster, tmp_path, SPECULATIVE, master=standalone.master)
    pipeline.finish()
    assert (tmp_path / SECOND_ATTEMPT).exists()
    assert "does not write" not in pipeline.log()
    assert "is run again" not in pipeline.log()
    pipeline.check(ordered=False)


@pytest.mark.full
def test_a_task_fails_where_spark_speculates(
    cluster: semel.Cluster, standalone: StandaloneSpark, tmp_path: Path
) -> None:
    pipeline = driven(cluster, tmp_path, SPECULATIVE_FAILS, master=standalone.master)
    pipeline.finish()
    assert all(pipeline.struck(one) for one in SPECULATIVE_FAILS.faults)
    assert "is run again" in pipeline.log()
    pipeline.check(ordered=False)

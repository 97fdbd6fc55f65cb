"""The same faults through Spark's own Kafka sink (`spark-sql-kafka-0-10`): duplicates are counted, losses would be.

Make the table of the README with

    .venv/bin/python -m pytest tests/spark/matrix/test_spark_sink.py

The tiers leave out what `test_executors` shows of semel's sink with the same cells. What comes out is what at least
once means, and no fault of that sink's: it has nowhere to keep which rows it has written.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import semel
from semel.broker.runtime.intercept import Delay, Seen
from semel.sinks.base import CommitStep, ignore_step
from tests.spark.matrix.cells import (
    EXECUTOR_DIES,
    PER_TRIGGER,
    SPECULATIVE,
    STAGE_RUNS_AGAIN,
    TASK_DIES,
    TASK_FAILS,
    Cell,
)
from tests.spark.matrix.driver_program import start_query
from tests.spark.matrix.drivers import DRIVER_S_MAX, Counted, Driven, kill_group
from tests.spark.matrix.faulty_rows import Fault
from tests.spark.matrix.standalone import StandaloneSpark
from tests.spark.sink_jobs import outcome_of
from tests.support.waiting import eventually

SINKS = ("spark", "semel")
CELLS = {
    "a task fails": TASK_FAILS,
    "a Python worker dies": TASK_DIES,
    "an executor is killed": EXECUTOR_DIES,
    "shuffle files are lost, the stage runs again": STAGE_RUNS_AGAIN,
    "Spark speculates": SPECULATIVE,
}
BEFORE_THE_LOG = "the driver is killed before its commit log"
AFTER_THE_LOG = "the driver is killed after its commit log"
Table = dict[tuple[str, str], Counted]


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[Table]:
    """Filled by the tests, printed when they are done."""
    found: Table = {}
    yield found
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        sys.stdout.write("\n".join(["", *lines_of(found), ""]))


def lines_of(found: Table) -> list[str]:
    """The table as the README has it."""
    lines = ["| fault | Spark's sink: lost, doubled | semel's: lost, doubled |", "|---|---|---|"]
    for name in dict.fromkeys(fault for fault, _ in found):
        cells = [found.get((name, sink)) for sink in SINKS]
        shown = [f"{one.lost}, {one.doubled:,}" if one else "" for one in cells]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return lines


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    with StandaloneSpark(tmp_path_factory.mktemp("standalone")) as started:
        yield started


def judge(table: Table, name: str, sink: str, pipeline: Driven) -> None:
    counted = table[name, sink] = pipeline.count()
    assert counted.lost == 0
    assert (counted.doubled > 0) == (sink == "spark" and name != AFTER_THE_LOG)


@pytest.fixture
def make_cell(request: pytest.FixtureRequest, cluster: semel.Cluster, tmp_path: Path) -> Callable[[Cell, str], Driven]:
    """Make the pipeline of a cell; the standalone cluster is started for the first that needs it."""

    def made(cell: Cell, sink: str) -> Driven:
        master = "" if cell.master else request.getfixturevalue("standalone").master
        settings = cell.settings(master) | {"sink": sink}
        if sink == "spark" and cell is SPECULATIVE:
            # More than the first attempts have written: the second one is at work, too.
            settings["faults"] = [asdict(replace(one, landed_min=PER_TRIGGER)) for one in cell.faults]
        return Driven(folder=tmp_path, bootstrap=cluster.bootstrap, numbers=cell.numbers, settings=settings)

    return made


@pytest.mark.full
@pytest.mark.parametrize("sink", SINKS)
def test_a_task_fails_in_the_middle(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, sink: str) -> None:
    """The short form of the table: one fault, in the session of all tests."""
    fault = Fault(kind="task-fails", number=59, landed_min=1 if sink == "spark" else 0)
    pipeline = Driven(folder=tmp_path, bootstrap=cluster.bootstrap, numbers=range(60))
    settings = pipeline.given(sink=sink, per_trigger=60, faults=[asdict(fault)])
    failures = [outcome_of(start_query(spark, settings, ignore_step)) for _ in range(2)]
    assert pipeline.struck(fault)
    assert failures[1] is None
    counted = pipeline.count()
    assert counted.lost == 0
    assert (counted.doubled > 0) == (sink == "spark")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "sink", [pytest.param("spark", marks=pytest.mark.full), pytest.param("semel", marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("name", list(CELLS))
def test_tasks_meet_a_fault(make_cell: Callable[[Cell, str], Driven], table: Table, name: str, sink: str) -> None:
    cell: Cell = CELLS[name]
    pipeline = make_cell(cell, sink)
    pipeline.finish()
    assert any(pipeline.struck(one) for one in cell.faults)
    judge(table, name, sink, pipeline)


@pytest.mark.full
@pytest.mark.parametrize("sink", SINKS)
def test_the_driver_is_killed_before_its_commit_log(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, table: Table, sink: str
) -> None:
    pipeline = driver_pipeline(cluster, tmp_path, sink)
    if sink == "semel":
        assert pipeline.drive(step=str(CommitStep.ROWS_WRITTEN), nth=1) == -signal.SIGKILL
    else:
        kill_while_it_writes(cluster, pipeline)
    pipeline.finish_in(spark)
    judge(table, BEFORE_THE_LOG, sink, pipeline)


@pytest.mark.full
@pytest.mark.parametrize("sink", SINKS)
def test_the_driver_is_killed_after_its_commit_log(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, table: Table, sink: str
) -> None:
    pipeline = driver_pipeline(cluster, tmp_path, sink)
    driver = pipeline.start()
    eventually((tmp_path / "checkpoint" / "commits" / "0").exists, DRIVER_S_MAX, what="a micro-batch is done")
    kill_group(driver)
    pipeline.finish_in(spark)
    judge(table, AFTER_THE_LOG, sink, pipeline)


def driver_pipeline(cluster: semel.Cluster, folder: Path, sink: str) -> Driven:
    return Driven(
        folder=folder,
        bootstrap=cluster.bootstrap,
        numbers=range(PER_TRIGGER),
        settings={"sink": sink, "per_trigger": PER_TRIGGER, "tasks": 2, "partitioning": "spread"},
    )


def kill_while_it_writes(cluster: semel.Cluster, pipeline: Driven) -> None:
    """Hold back an answer when some of the micro-batch has been written, and kill the driver that waits for it."""
    produced: list[Seen] = []

    def some_are_written(seen: Seen) -> bool:
        if seen.client_id.startswith("producer-"):
            produced.append(seen)
        return len(produced) > 10

    hook = cluster.intercept("Produce", Delay(ms=60_000, response=True), where=some_are_written)
    driver = pipeline.start()
    try:
        eventually(lambda: hook.fired, DRIVER_S_MAX, what="Spark writes")
    finally:
        kill_group(driver)
        cluster.disarm(hook)

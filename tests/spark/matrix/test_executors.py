"""Real executors (`local-cluster`): tasks fail, executors are killed, stages run again; every row is there once.

S1: only the first attempt of a task writes, and only in the first attempt of its stage; anything else is a new run of
the micro-batch under a new producer epoch.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import semel
from tests.spark.matrix.drivers import Driven
from tests.spark.matrix.faulty_rows import STAGE_AGAIN, Fault

PER_TRIGGER = 24_000
HALF = PER_TRIGGER // 2
MASTER = "local-cluster[2,1,1024]"


def fault(kind: str, micro_batch: int) -> Fault:
    """Strikes near the end of one of two tasks, when that task has records in the output already."""
    first = micro_batch * PER_TRIGGER
    return Fault(kind=kind, number=first + PER_TRIGGER - 2, landed_min=first + HALF + 1)


def driven(cluster: semel.Cluster, folder: Path, faults: list[Fault], *, micro_batches: int = 1, **more: Any) -> Driven:
    return Driven(
        folder=folder,
        bootstrap=cluster.bootstrap,
        numbers=range(micro_batches * PER_TRIGGER),
        settings={
            "master": MASTER,
            "per_trigger": PER_TRIGGER,
            "tasks": 2,
            "partitioning": "spread",
            "faults": [asdict(one) for one in faults],
        }
        | more,
    )


@pytest.mark.parametrize("partitioning", ["spread", pytest.param("keyed", marks=pytest.mark.long)])
def test_tasks_and_executors_die(cluster: semel.Cluster, tmp_path: Path, partitioning: str) -> None:
    """One query, another fault in each micro-batch; a second attempt of a task refuses to write."""
    faults = [fault("task-fails", 0), fault("executor-dies", 1), fault("task-dies", 2)]
    if partitioning == "keyed":
        # Rows are encoded before any is sent: there is nothing in the output to wait for.
        faults = [Fault(kind=one.kind, number=one.number) for one in faults]
    pipeline = driven(cluster, tmp_path, faults, micro_batches=3, partitioning=partitioning)
    pipeline.finish()
    assert all(pipeline.struck(one) for one in faults)
    if partitioning == "spread":
        assert pipeline.log().count("is run again") >= len(faults)
        assert "does not write" in pipeline.log()
    pipeline.check(ordered=partitioning == "keyed")


def stage_faults() -> list[Fault]:
    """One near the end of each of three tasks behind a shuffle."""
    return [Fault(kind="files-lost", number=PER_TRIGGER - 1 - 2 * task) for task in range(3)]


# So few bytes that brokers take the rows of the second run for retries: only the driver can know better.
STAGE: dict[str, Any] = {"master": "local[2]", "shuffle": 3, "padding": 100, "conf": {"spark.default.parallelism": "3"}}


def test_a_stage_runs_again(cluster: semel.Cluster, tmp_path: Path) -> None:
    """Shuffle files are lost: the stage that writes is run again, with first attempts, beside a task of the first."""
    faults = stage_faults()
    pipeline = driven(cluster, tmp_path, faults, **STAGE)
    pipeline.finish()
    assert any(pipeline.struck(one) for one in faults)
    assert (tmp_path / STAGE_AGAIN).exists()
    assert "ran more than once" in pipeline.log()
    pipeline.check(ordered=False)

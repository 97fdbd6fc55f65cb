"""Real drivers, killed for good (SIGKILL) after each step and in the middle of it; the next driver finishes the work.

"Before a step" is after the one before it; "in the middle" is with the request on its way, or its answer. The driver
that finishes is the session of all tests; M32 has cells in which it is a process of its own, too.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import semel
from semel.broker.runtime.intercept import Delay, Seen
from semel.sinks.base import CommitStep
from tests.spark.matrix.conftest import Make
from tests.spark.matrix.drivers import DRIVER_S_MAX, ROOT, Driven, kill_group
from tests.spark.matrix.replay import Replay
from tests.support.waiting import eventually

PROGRAM = Path(__file__).with_name("replay_program.py")
NUMBERS = range(60)


def killed_at(spark: SparkSession, pipeline: Replay, step: CommitStep, nth: int) -> int:
    """Run the Python half of a driver as a process of its own until it is killed; its exit status."""
    gateway: Any = spark.sparkContext._gateway
    given = {
        "bootstrap": pipeline.bootstrap,
        "partitioning": pipeline.partitioning,
        "pipeline": pipeline.pipeline,
        "topic": pipeline.topic,
        "source_topic": pipeline.source.topic,
    }
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps({"pipeline": given, "step": str(step), "nth": nth})],
        env=os.environ
        | {
            "PYTHONPATH": f"{ROOT}/src:{ROOT}",
            "PYSPARK_GATEWAY_PORT": str(gateway.gateway_parameters.port),
            "PYSPARK_GATEWAY_SECRET": gateway.gateway_parameters.auth_token,
        },
        timeout=DRIVER_S_MAX,
        check=False,
        capture_output=True,
    )
    assert ran.returncode < 0, ran.stderr.decode()[-2000:]
    return -ran.returncode


@pytest.mark.quick(1)
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("step", list(CommitStep))
def test_a_driver_is_killed(spark: SparkSession, make: Make, step: CommitStep, nth: int) -> None:
    pipeline = make("keyed" if nth == 1 else "spread")
    assert killed_at(spark, pipeline, step, nth) == signal.SIGKILL
    # What Spark's checkpoint would say now.
    pipeline.done = pipeline.begun = nth - 1
    pipeline.drive()
    pipeline.check()


@pytest.mark.full
@pytest.mark.parametrize(
    ("step", "partitioning"), [(CommitStep.OFFSETS_WRITTEN, "keyed"), (CommitStep.COMMITTED, "spread")]
)
def test_a_driver_and_its_jvm_are_killed(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, step: CommitStep, partitioning: str
) -> None:
    pipeline = Driven(folder=tmp_path, bootstrap=cluster.bootstrap, numbers=NUMBERS)
    pipeline.settings = {"partitioning": partitioning}
    assert pipeline.drive(step=str(step), nth=2) == -signal.SIGKILL, pipeline.log()
    pipeline.finish_in(spark)
    pipeline.check(ordered=partitioning == "keyed")


@pytest.mark.parametrize(
    "partitioning", [pytest.param("keyed", marks=pytest.mark.full), pytest.param("spread", marks=pytest.mark.soak)]
)
def test_drivers_and_their_jvms_are_killed_after_every_step(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, partitioning: str
) -> None:
    """Six drivers one after another, each killed one step further than the last."""
    pipeline = Driven(folder=tmp_path, bootstrap=cluster.bootstrap, numbers=NUMBERS)
    pipeline.settings = {"partitioning": partitioning}
    for step in CommitStep:
        assert pipeline.drive(step=str(step), nth=1) == -signal.SIGKILL, pipeline.log()[-2000:]
    pipeline.finish_in(spark)
    pipeline.check(ordered=partitioning == "keyed")


@pytest.mark.full
@pytest.mark.sampled(6)
@pytest.mark.parametrize("answered", [False, True], ids=["asked", "done"])
@pytest.mark.parametrize(
    "api", ["InitProducerId", "AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]
)
def test_a_driver_and_its_jvm_are_killed_in_the_middle_of_a_step(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, api: str, answered: bool
) -> None:
    """The request is held back, or its answer, until the driver is dead."""
    pipeline = Driven(folder=tmp_path, bootstrap=cluster.bootstrap, numbers=NUMBERS)
    struck: list[Seen] = []
    hook = cluster.intercept(
        api, Delay(ms=60_000, response=answered), where=lambda seen: seen.client_id == "semel" and is_second(seen)
    )
    hook.on_fire.append(struck.append)
    seen_before: list[int] = []

    def is_second(_: Seen) -> bool:
        seen_before.append(1)
        return len(seen_before) > 1

    driver = pipeline.start()
    try:
        eventually(lambda: struck, DRIVER_S_MAX, what=f"{api} is on its way")
    finally:
        kill_group(driver)
        cluster.disarm(hook)
    pipeline.finish_in(spark)
    pipeline.check(ordered=True)

"""M32: one pipeline, unchanged, on every cluster: embedded and Apache Kafka; Spark local, local-cluster, standalone.

Everywhere the driver dies between the rows and the commit of its second micro-batch. Declared exactly once, each record
is there once and in order; declared at least once, the same run shows the duplicates.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import semel
from semel.engine.apache import ApacheCluster
from semel.sinks.base import CommitStep, OnStep, ignore_step
from tests.spark.conftest import spark
from tests.spark.matrix.cells import LOCAL_CLUSTER
from tests.spark.matrix.driver_program import start_query
from tests.spark.matrix.drivers import Driven
from tests.spark.matrix.standalone import StandaloneSpark
from tests.spark.sink_jobs import KillAfter, outcome_of

__all__ = ["spark"]

NUMBERS = range(90)
PER_TRIGGER = 30
STEP = CommitStep.ROWS_WRITTEN
Place = Callable[[str], str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The address of a cluster by its name; each is started when it is first asked for."""
    found: dict[str, str] = {}
    with ExitStack() as stack:

        def start(name: str) -> str:
            match name:
                case "embedded":
                    return stack.enter_context(semel.Cluster(brokers=3, config={"log.retention.ms": "-1"})).bootstrap
                case "apache-1" | "apache-3":
                    return stack.enter_context(ApacheCluster(brokers=int(name[-1]))).bootstrap
                case "standalone":
                    return stack.enter_context(StandaloneSpark(tmp_path_factory.mktemp("standalone"))).master
                case _:
                    return LOCAL_CLUSTER

        def ask(name: str) -> str:
            if name not in found:
                found[name] = start(name)
            return found[name]

        yield ask


def driven(place: Place, kafka: str, folder: Path, guarantee: str) -> Driven:
    return Driven(
        folder=folder,
        bootstrap=place(kafka),
        numbers=NUMBERS,
        replicas=3 if kafka == "apache-3" else 1,
        settings={"guarantee": guarantee, "per_trigger": PER_TRIGGER},
    )


def judge(pipeline: Driven, guarantee: str) -> None:
    if guarantee == "exactly_once":
        pipeline.check(ordered=True)
        return
    counted = pipeline.count()
    assert (counted.lost, counted.doubled) == (0, PER_TRIGGER)


BOTH = pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])


@pytest.mark.quick(1)
@BOTH
@pytest.mark.parametrize("kafka", ["embedded", "apache-1"])
def test_spark_in_one_process(spark: SparkSession, place: Place, tmp_path: Path, kafka: str, guarantee: str) -> None:
    pipeline = driven(place, kafka, tmp_path, guarantee)

    def run(on_step: OnStep) -> str | None:
        return outcome_of(start_query(spark, pipeline.given(), on_step))

    assert "Killed" in (run(KillAfter(STEP, nth=2)) or "")
    assert run(ignore_step) is None
    judge(pipeline, guarantee)


@pytest.mark.parametrize(
    "guarantee",
    # What at least once allows does not depend on where Spark runs: it is shown in one process.
    [pytest.param("exactly_once", marks=pytest.mark.full), pytest.param("at_least_once", marks=pytest.mark.soak)],
)
@pytest.mark.parametrize(
    ("kafka", "cluster"),
    [
        pytest.param("apache-3", "local[2]", marks=pytest.mark.soak),
        ("embedded", "local-cluster"),
        pytest.param("embedded", "standalone", marks=pytest.mark.soak),
        ("apache-3", "standalone"),
    ],
)
def test_spark_in_processes_of_its_own(place: Place, tmp_path: Path, kafka: str, cluster: str, guarantee: str) -> None:
    pipeline = driven(place, kafka, tmp_path, guarantee)
    pipeline.settings["master"] = cluster if cluster.startswith("local[") else place(cluster)
    assert pipeline.drive(step=str(STEP), nth=2) == -signal.SIGKILL, pipeline.log()
    pipeline.finish()
    judge(pipeline, guarantee)

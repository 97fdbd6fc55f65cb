"""A micro-batch that the output holds is computed for its state (E14), whatever keeps the state and makes the rows.

The driver dies after its commit and before Spark's commit log. What comes out in the end is what a query gives that
nobody disturbed: state that was left behind, or a watermark, would show in the rows that follow.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import semel
from semel.sinks.base import CommitStep
from tests.spark.recovery.operated import counts
from tests.spark.sink_jobs import Job, KillAfter, fill, new_topics

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKS = {PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
STORES = {
    "files": {},
    "rocksdb": ROCKS,
    "rocksdb with ids of checkpoints": {**ROCKS, "spark.sql.streaming.stateStore.checkpointFormatVersion": "2"},
}


def closed_windows(rows: DataFrame) -> DataFrame:
    """A number a minute, ten to a window; a window is written once, when the watermark has passed it."""
    events = rows.selectExpr("timestamp_seconds(cast(string(value) as int) * 60) at").withWatermark("at", "1 second")
    counted = events.selectExpr("window(at, '10 minutes') w", "at").groupBy("w").count()
    return counted.selectExpr("cast(unix_seconds(w.start) as string) key", "cast(count as string) value")


def first_of_each(rows: DataFrame) -> DataFrame:
    return rows.select("key", "value").dropDuplicates(["key"])


SHAPES = {"counts": (counts, "update"), "windows": (closed_windows, "append"), "first": (first_of_each, "append")}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """What keeps the state of queries that are started from here on; their checkpoints remember it."""
    for name, value in STORES[request.param].items():
        spark.conf.set(name, value)
    yield request.param
    for name in STORES[request.param]:
        spark.conf.unset(name)


def rows_of(job: Job) -> Counter[tuple[bytes | None, bytes | None]]:
    return Counter((one.key, one.value) for one in job.output())


@pytest.mark.full
@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("shape", SHAPES)
def test_what_follows_a_crash_is_what_an_undisturbed_query_gives(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, shape: str
) -> None:
    make: Callable[[DataFrame], DataFrame]
    make, output_mode = SHAPES[shape]
    undisturbed = Job.filled(
        spark, cluster.bootstrap, tmp_path, range(90), per_trigger=45, shape=make, output_mode=output_mode
    )
    steps: list[CommitStep] = []
    assert undisturbed.run(steps.append) is None
    commits, wanted = steps.count(CommitStep.COMMITTED), rows_of(undisturbed)
    # The last one of windows brings no records: the watermark alone has closed some.
    assert commits == (3 if shape == "windows" else 2)
    disturbed: list[Job] = []
    for nth in range(1, commits + 1):
        (output,) = new_topics(cluster.bootstrap, 3)
        job = replace(
            undisturbed,
            outputs=(output,),
            checkpoint=str(tmp_path / f"disturbed-{nth}"),
            pipeline=f"{undisturbed.pipeline}-{nth}",
        )
        assert "Killed" in (job.run(KillAfter(CommitStep.COMMITTED, nth=nth)) or "")
        job.finish()
        assert rows_of(job) == wanted
        disturbed.append(job)
    fill(cluster.bootstrap, undisturbed.source, range(90, 180))
    for job in (undisturbed, *disturbed):
        job.finish()
        assert rows_of(job) == rows_of(undisturbed)
    assert len(rows_of(undisturbed)) > len(wanted) or shape == "first"

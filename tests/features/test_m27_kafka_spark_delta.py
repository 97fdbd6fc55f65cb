"""M27, M23: Kafka -> PySpark -> Delta Lake; drivers that die at any step neither lose nor repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import deltalake
import pytest
from pyspark.sql import DataFrame, SparkSession

import semel
from semel.sinks.base import CommitStep, Sink
from tests.spark.conftest import spark
from tests.spark.sink_jobs import Job, KillAfter, outcome_of
from tests.support.object_store import BUCKET, SECRET, ObjectStore, object_store

__all__ = ["object_store", "spark"]

NUMBERS = range(60)


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


def numbered(rows: DataFrame) -> DataFrame:
    return rows.selectExpr(
        "cast(string(value) as bigint) AS number",
        "string(key) AS key",
        "timestamp AS sent_at",
        "cast(cast(string(value) as decimal(20,3)) / 8 AS decimal(20,3)) AS eighth",
        "named_struct('topic', topic, 'pair', array(1, 2)) AS nested",
    )


@dataclass(slots=True, kw_only=True)
class DeltaJob(Job):
    """The same query, into a Delta table."""

    table: Path | str
    shape: Callable[[DataFrame], DataFrame] = numbered

    def sink(self) -> Sink:  # type: ignore[override]
        return semel.DeltaSink(self.table, **self.sink_options)

    def counts(self) -> Counter[int]:
        """How often each number is there, as a count of counts."""
        found = deltalake.DeltaTable(self.table).to_pyarrow_dataset().to_table()
        seen = Counter(found.column("number").to_pylist())
        return Counter(seen[number] for number in NUMBERS)


@pytest.fixture
def copy(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> DeltaJob:
    job = DeltaJob.filled(spark, cluster.bootstrap, tmp_path, NUMBERS, per_trigger=25, table=tmp_path / "numbers")
    assert isinstance(job, DeltaJob)
    return job


@pytest.mark.quick(1)
@pytest.mark.parametrize("step", list(CommitStep))
def test_every_row_once_whatever_step_the_driver_dies_at(copy: DeltaJob, step: CommitStep) -> None:
    copy.sink_options = {"partition_by": ["key"]}
    assert "Killed" in (copy.run(KillAfter(step, nth=2)) or "")
    copy.finish()
    assert copy.counts() == {1: 60}
    for row in deltalake.DeltaTable(copy.table).to_pyarrow_dataset().to_table().to_pylist():
        assert row["key"] == f"key {row['number'] % 7}"
        assert row["eighth"] * 8 == row["number"]
        assert row["nested"] == {"topic": copy.source, "pair": [1, 2]}


@pytest.mark.full
def test_the_same_death_without_a_ledger_doubles_rows(copy: DeltaJob) -> None:
    """What most pipelines do: `foreachBatch` and an append, with the checkpoint as the only memory."""
    deaths = iter([False, True])

    def append(rows: DataFrame, _: int) -> None:
        deltalake.write_deltalake(str(copy.table), rows.toArrow(), mode="append")
        if next(deaths, False):
            raise RuntimeError("dies after the rows are committed")

    for _ in range(2):
        writer = copy.shape(copy.read()).writeStream.foreachBatch(append)
        outcome_of(writer.option("checkpointLocation", copy.checkpoint).trigger(availableNow=True).start())
    counts = copy.counts()
    assert counts[2] > 0
    assert counts[1] + counts[2] == 60


@pytest.mark.full
def test_a_batch_job_is_written_once(spark: SparkSession, copy: DeltaJob) -> None:
    rows = spark.range(0, 1000, 1, 3).selectExpr("id AS number", "string(id) AS key")
    for _ in range(2):
        semel.write_batch(rows, copy.sink(), pipeline="job", run_id="monday")
    assert deltalake.DeltaTable(copy.table).to_pyarrow_dataset().count_rows() == 1000


@pytest.mark.full
def test_every_row_once_into_an_object_store(
    copy: DeltaJob, object_store: ObjectStore, capfd: pytest.CaptureFixture[str]
) -> None:
    """A driver dies, its successor goes on; what either prints, plans or reports has no secret in it."""
    uri, storage = f"s3://{BUCKET}/{copy.source}", object_store.options()
    copy.table = uri
    copy.sink_options = {"storage_options": storage}
    assert "Killed" in (copy.run(KillAfter(CommitStep.COMMITTED, nth=2)) or "")
    query = copy.start()
    assert outcome_of(query) is None
    query.explain(extended=True)
    shown = "".join([*capfd.readouterr(), *(str(one) for one in query.recentProgress), repr(copy.sink())])
    assert copy.source in shown
    assert SECRET not in shown
    found = deltalake.DeltaTable(uri, storage_options=storage).to_pyarrow_dataset().to_table()
    assert Counter(found.column("number").to_pylist()) == Counter(NUMBERS)

"""M26, M23: Kafka -> PySpark -> PostgreSQL, append and upsert; drivers that die at any step neither lose nor repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

import semel
from semel.engine.postgres import PostgresServer
from semel.sinks.base import CommitStep, Sink
from tests.spark.conftest import spark
from tests.spark.sink_jobs import Job, KillAfter, fill, outcome_of

__all__ = ["spark"]

NUMBERS = range(60)
_tables = count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


def numbered(rows: DataFrame) -> DataFrame:
    return rows.selectExpr(
        "cast(string(value) as bigint) AS number",
        "string(key) AS key",
        "timestamp AS sent_at",
        "cast(string(value) as decimal(20,3)) / 8 AS eighth",
        "named_struct('topic', topic, 'missing', cast(null AS int), 'pair', array(1, 2)) AS nested",
    )


@dataclass(slots=True, kw_only=True)
class TableJob(Job):
    """The same query, into a table."""

    dsn: str
    table: str = field(default_factory=lambda: f"numbers_{next(_tables)}")
    shape: Callable[[DataFrame], DataFrame] = numbered

    def sink(self) -> Sink:  # type: ignore[override]
        return semel.PostgresSink(self.dsn, self.table, **self.sink_options)

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def counts(self) -> Counter[int]:
        """How often each number is there, as a count of counts."""
        seen = Counter(row[0] for row in self.execute(f"SELECT number FROM {self.table}"))
        return Counter(seen[number] for number in NUMBERS)


@pytest.fixture
def copy(spark: SparkSession, cluster: semel.Cluster, postgres: PostgresServer, tmp_path: Path) -> TableJob:
    job = TableJob.filled(spark, cluster.bootstrap, tmp_path, NUMBERS, per_trigger=25, dsn=postgres.conninfo)
    assert isinstance(job, TableJob)
    columns = "number bigint, key text, sent_at timestamptz, eighth numeric, nested jsonb"
    job.execute(f"CREATE TABLE {job.table} ({columns})")
    return job


@pytest.mark.quick(1)
@pytest.mark.parametrize("step", list(CommitStep))
def test_every_row_once_whatever_step_the_driver_dies_at(copy: TableJob, step: CommitStep) -> None:
    assert "Killed" in (copy.run(KillAfter(step, nth=2)) or "")
    copy.finish()
    assert copy.counts() == {1: 60}
    nested = f"jsonb_build_object('topic', '{copy.source}', 'missing', null, 'pair', '[1, 2]'::jsonb)"
    wrong = f"eighth <> number / 8.0 OR sent_at < now() - interval '1 day' OR nested <> {nested}"
    assert copy.execute(f"SELECT * FROM {copy.table} WHERE {wrong}") == []


def test_the_same_death_without_a_ledger_doubles_rows(copy: TableJob) -> None:
    """What most pipelines do: `foreachBatch` and an INSERT, with the checkpoint as the only memory."""
    deaths = iter([False, True])

    def insert(rows: DataFrame, _: int) -> None:
        with psycopg.connect(copy.dsn) as connection:
            found = [(row.number, row.key, row.sent_at, row.eighth) for row in rows.collect()]
            connection.cursor().executemany(f"INSERT INTO {copy.table} VALUES (%s, %s, %s, %s)".encode(), found)
        if next(deaths, False):
            raise RuntimeError("dies after the rows are committed")

    for _ in range(2):
        writer = copy.shape(copy.read()).writeStream.foreachBatch(insert)
        outcome_of(writer.option("checkpointLocation", copy.checkpoint).trigger(availableNow=True).start())
    counts = copy.counts()
    assert counts[2] > 0
    assert counts[1] + counts[2] == 60


@pytest.mark.full
def test_an_upsert_keeps_the_last_of_each_key(copy: TableJob) -> None:
    copy.execute(f"ALTER TABLE {copy.table} ADD PRIMARY KEY (key)")
    copy.sink_options = {"mode": "upsert", "key": ["key"], "order_by": "number"}
    assert "Killed" in (copy.run(KillAfter(CommitStep.OFFSETS_WRITTEN, nth=2)) or "")
    copy.finish()
    fill(copy.bootstrap, copy.source, [60])
    copy.finish()
    found = dict(copy.execute(f"SELECT key, number FROM {copy.table}"))
    assert found == {f"key {number % 7}": number for number in range(54, 61)}


@pytest.mark.full
def test_a_batch_job_is_written_once(spark: SparkSession, copy: TableJob) -> None:
    rows = spark.range(0, 1000, 1, 3).selectExpr("id AS number", "string(id) AS key")
    for _ in range(2):
        semel.write_batch(rows, copy.sink(), pipeline=f"job-{copy.table}", run_id="monday")
    assert len(copy.execute(f"SELECT number FROM {copy.table}")) == 1000


def test_rows_that_do_not_fit_are_refused_before_the_query_starts(copy: TableJob) -> None:
    copy.shape = lambda rows: numbered(rows).withColumnRenamed("number", "numbr")
    with pytest.raises(semel.SemelError, match="has no column 'numbr'") as caught:
        copy.start()
    assert "'number'?" in str(caught.value)
    assert copy.dsn.split("password=")[1].split()[0] not in str(caught.value)

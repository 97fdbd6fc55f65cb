"""M37: the staged sinks by format name alone, as Spark's own writers: each row once, whenever a commit dies."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import deltalake
import psycopg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import semel
from semel.engine.postgres import PostgresServer
from semel.sinks.base import CommitStep, OnStep, ignore_step
from semel.sinks.postgres.staging import staging_prefix
from semel.spark.format_options import DELTA, POSTGRES
from semel.spark.formats import WritingSource
from tests.spark.conftest import spark
from tests.spark.sink_jobs import Job, outcome_of

__all__ = ["spark"]

# Spark starts more Python processes for a format than for `foreachBatch`, and each has to import: on a busy machine the
# first query takes a while.
pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]
QUERY_S_MAX = 280
NUMBERS = range(60)
_numbers = count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


def dying(name: str, flag: Path, at: CommitStep, *, kills: bool) -> type[WritingSource]:
    """The format under another name, whose commit ends at a step as long as the flag is there."""
    place = str(flag)

    def on_step(step: CommitStep) -> None:
        if step is at and os.path.exists(place):  # noqa: PTH110  (a module, since this goes to another process by value)
            os.unlink(place)  # noqa: PTH108
            if kills:
                os._exit(9)
            raise RuntimeError("the commit dies here")

    kind = replace(POSTGRES if "postgres" in name else DELTA, name=name)
    return type("Dying", (WritingSource,), {"kind": kind, "on_step": staticmethod(on_step)})


@dataclass(slots=True, kw_only=True)
class FormatJob(Job):
    """A query that is written by a format's name."""

    written_as: str
    options: dict[str, str]
    dsn: str = ""
    shape: Any = field(default=lambda rows: rows.selectExpr("cast(string(value) as bigint) AS number"))

    def writer_options(self) -> dict[str, str]:
        return {"pipeline": self.pipeline, "guarantee": self.guarantee, "checkpointLocation": self.checkpoint}

    def start(self, _: OnStep = ignore_step, *, trigger: dict[str, Any] | None = None) -> StreamingQuery:
        rows: DataFrame = self.shape(self.read())
        writer = rows.writeStream.format(self.written_as).options(**(self.writer_options() | self.options))
        return writer.trigger(**(trigger or {"availableNow": True})).queryName(self.pipeline).start()

    def run(self, on_step: OnStep = ignore_step) -> str | None:
        return outcome_of(self.start(on_step), s_max=QUERY_S_MAX)

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def numbers(self) -> Counter[int]:
        """What is in the table, counted by another reader than the one that wrote."""
        if "path" in self.options:
            rows: Any = deltalake.DeltaTable(self.options["path"]).to_pyarrow_dataset().to_table()
            return Counter(rows.column("number").to_pylist())
        return Counter(row[0] for row in self.execute(f"SELECT number FROM {self.options['table']}"))


POSTGRES_AND_DELTA = pytest.mark.parametrize("name", [POSTGRES.name, DELTA.name])


@pytest.fixture
def job(name: str, spark: SparkSession, cluster: semel.Cluster, postgres: PostgresServer, tmp_path: Path) -> FormatJob:
    options = {"path": str(tmp_path / "table")}
    if name == POSTGRES.name:
        options = {"dsn": postgres.conninfo, "table": f"formats_{next(_numbers)}", "create_table": "true"}
    made = FormatJob.filled(
        spark,
        cluster.bootstrap,
        tmp_path,
        NUMBERS,
        per_trigger=40,
        written_as=name,
        options=options,
        dsn=postgres.conninfo,
    )
    assert isinstance(made, FormatJob)
    return made


@pytest.mark.parametrize(
    ("name", "step", "kills"),
    [
        (POSTGRES.name, CommitStep.COMMITTED, False),
        (POSTGRES.name, CommitStep.OFFSETS_WRITTEN, True),
        (DELTA.name, CommitStep.COMMITTED, True),
    ],
)
def test_every_row_once_when_a_commit_dies(job: FormatJob, tmp_path: Path, step: CommitStep, kills: bool) -> None:
    """After the commit happened Spark calls abort, and the next start repeats the micro-batch."""
    flag = tmp_path / "flag"
    flag.touch()
    known = job.written_as
    job.written_as = f"{known}-dying-{next(_numbers)}"
    job.spark.dataSource.register(dying(job.written_as, flag, step, kills=kills))
    failure = job.run()
    assert failure is not None
    assert not flag.exists()
    assert kills or "the commit dies here" in failure
    job.written_as = known  # which nobody has registered
    job.finish()
    assert job.numbers() == Counter(NUMBERS)
    left = f"SELECT relname FROM pg_class WHERE starts_with(relname, '{staging_prefix(job.pipeline)}')"
    assert job.execute(left) == []


@POSTGRES_AND_DELTA
def test_a_lost_checkpoint_writes_nothing_twice(job: FormatJob) -> None:
    job.finish()
    shutil.rmtree(job.checkpoint)
    job.per_trigger = 100  # other micro-batches than those that were written
    job.finish()
    assert job.numbers() == Counter(NUMBERS)


@POSTGRES_AND_DELTA
def test_a_batch_job_is_written_once(job: FormatJob) -> None:
    rows = job.spark.range(0, 60, 1, 3).selectExpr("id AS number")
    for _ in range(2):
        writer = rows.write.format(job.written_as).options(pipeline=job.pipeline, run_id="monday", **job.options)
        writer.mode("append").save()
    assert job.numbers() == Counter(NUMBERS)


@pytest.mark.parametrize("name", [POSTGRES.name])
def test_what_is_wrong_is_refused_by_name(job: FormatJob) -> None:
    rows = job.spark.range(1).selectExpr("id AS number")
    writer = rows.write.format(job.written_as).options(pipeline=job.pipeline, run_id="one", **job.options)
    with pytest.raises(PySparkException) as caught:
        writer.option("creat_table", "true").mode("append").save()
    assert "has no option 'creat_table'" in str(caught.value)
    assert "you want    create_table" in str(caught.value)
    assert job.dsn.split("password=")[1].split()[0] not in str(caught.value)
    assert "Traceback" not in str(caught.value)

"""M35: any two places compared record by record, what was planted is found; no alarm while a pipeline runs.

The audit knows nothing of who wrote the places. Where it is told the name of a pipeline, it judges the source as far as
the ledger goes: with the topics, in PostgreSQL, in a Delta table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Event

import deltalake
import psycopg
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

import semel
from semel.cli import main
from semel.engine.jars import POSTGRES_DRIVER
from semel.engine.postgres import PostgresServer
from semel.sinks.base import CommitStep, Sink
from tests.spark.conftest import spark
from tests.spark.sink_jobs import Job, fill, new_topics, outcome_of

__all__ = ["spark"]

WAIT_S_MAX = 120
# Of a topic the audit reads number and name; other places have them as columns.
OF_TOPIC = {"number": "cast(string(value) AS bigint)", "name": "string(key)"}
ASKED = ["--key", "number", "--content", "name"]
ROWS = [(number, f"key {number % 7}") for number in range(20)]
# 3 is lost, 5 comes three times, 7 is altered, 99 was never asked for, 11 stands behind 12.
ARRIVED = [*ROWS[:3], ROWS[4], ROWS[5], ROWS[5], ROWS[5], ROWS[6], (7, "altered"), *ROWS[8:11], ROWS[12], ROWS[11]]
ARRIVED += [*ROWS[13:], (99, "nobody's")]
_tables = count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture
def database(spark: SparkSession, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> PostgresServer:
    """A server that Spark has a driver for, with the login in the environment."""
    for jar in POSTGRES_DRIVER.fetch():
        spark.sql(f"ADD JAR '{jar}'")
    given = psycopg.conninfo.conninfo_to_dict(postgres.conninfo)
    monkeypatch.setenv("SEMEL_JDBC_USER", str(given["user"]))
    monkeypatch.setenv("SEMEL_JDBC_PASSWORD", str(given["password"]))
    return postgres


def jdbc(server: PostgresServer, table: str) -> str:
    return f"jdbc:postgresql://127.0.0.1:{server.port}/postgres#{table}"


def columns(side: str) -> list[str]:
    return [word for name, sql in OF_TOPIC.items() for word in (f"--map-{side}", f"{name}={sql}")]


def put_into_topic(cluster: semel.Cluster, rows: list[tuple[int, str]]) -> str:
    (topic,) = new_topics(cluster.bootstrap, 1)
    client = Producer({"bootstrap.servers": cluster.bootstrap})
    for number, name in rows:
        client.produce(topic, key=name.encode(), value=str(number).encode())
    assert client.flush(WAIT_S_MAX) == 0
    return f"kafka://{cluster.bootstrap}/{topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the tests stand on."""

    spark: SparkSession
    cluster: semel.Cluster
    folder: Path
    capsys: pytest.CaptureFixture[str]
    request: pytest.FixtureRequest

    @property
    def database(self) -> PostgresServer:
        """Started only where it is needed."""
        found: PostgresServer = self.request.getfixturevalue("database")
        return found

    def audit(self, *arguments: str) -> tuple[int, dict[str, int], list[str]]:
        """The exit code, what the report counts, and where its examples stand."""
        self.capsys.readouterr()
        code = main(["audit", *arguments, "--format", "json"])
        told = self.capsys.readouterr()
        assert told.out, told.err
        (one,) = json.loads(told.out)["comparisons"]
        examples = [f"{shown['left']} {shown['right']}" for found in one["findings"] for shown in found["examples"]]
        return code, {found["kind"]: found["count"] for found in one["findings"] if found["count"]}, examples


@pytest.fixture
def ground(
    spark: SparkSession,
    cluster: semel.Cluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> Ground:
    return Ground(spark=spark, cluster=cluster, folder=tmp_path, capsys=capsys, request=request)


PLANTED = {"lost": 1, "duplicated": 2, "altered": 1, "unexpected": 1}


@pytest.mark.quick(1)
@pytest.mark.parametrize("place", ["topic", "parquet", "delta", "table"])
def test_what_was_planted_between_two_places_is_found(ground: Ground, place: str) -> None:
    right, more, wanted = f"{place}:{ground.folder / 'out'}", list[str](), PLANTED
    match place:
        case "topic":
            right = put_into_topic(ground.cluster, ARRIVED)
            more, wanted = [*columns("right"), "--order"], PLANTED | {"reordered": 1}
        case "parquet":
            rows = ground.spark.createDataFrame(ARRIVED, "number bigint, name string")
            rows.coalesce(1).write.parquet(str(ground.folder / "out"))
        case "delta":
            table = pa.table({"number": [one for one, _ in ARRIVED], "name": [name for _, name in ARRIVED]})
            deltalake.write_deltalake(str(ground.folder / "out"), table, partition_by=["name"])
        case _:
            right = jdbc(ground.database, "arrived")
            with psycopg.connect(ground.database.conninfo) as connection:
                connection.execute("CREATE TABLE arrived (number bigint, name text)")
                connection.cursor().executemany("INSERT INTO arrived VALUES (%s, %s)", ARRIVED)
    left = put_into_topic(ground.cluster, ROWS)
    page = ground.folder / "report.html"
    code, found, examples = ground.audit(left, right, *columns("left"), *ASKED, *more, "--html", str(page))
    assert (code, found) == (1, wanted)
    assert any(one.startswith(f"{left.rpartition('/')[2]}-0@3 ") for one in examples), "the lost one, by its place"
    assert "LOST" in page.read_text()


@dataclass(slots=True, kw_only=True)
class Held:
    """Stops a query after a step of its second micro-batch, until it is let go."""

    step: CommitStep
    reached: Event
    go_on: Event
    seen: int = 0

    def __call__(self, step: CommitStep) -> None:
        self.seen += step is self.step
        if step is self.step and self.seen == 2:
            self.reached.set()
            assert self.go_on.wait(WAIT_S_MAX)


@dataclass(slots=True, kw_only=True)
class TableJob(Job):
    """The query into a table."""

    into: Sink

    def sink(self) -> Sink:  # type: ignore[override]
        return self.into


def as_rows(rows: DataFrame) -> DataFrame:
    return rows.selectExpr(*(f"{sql} AS {name}" for name, sql in OF_TOPIC.items()))


@pytest.mark.full
@pytest.mark.parametrize("step", [CommitStep.ROWS_WRITTEN, CommitStep.COMMITTED])
@pytest.mark.parametrize("place", ["topic", "delta", "table"])
def test_a_pipeline_that_runs_raises_no_alarm(ground: Ground, place: str, step: CommitStep) -> None:
    """Rows under way, a transaction open or just committed: held as far as the ledger goes, and never lost."""
    job, right, more = running(ground, place)
    asked = [f"kafka://{job.bootstrap}/{job.source}", right, *columns("left"), *more, *ASKED]
    held = Held(step=step, reached=Event(), go_on=Event())
    query = job.start(held)
    try:
        assert held.reached.wait(WAIT_S_MAX)
        assert ground.audit(*asked, "--pipeline", job.pipeline)[:2] == (0, {})
        code, found, _ = ground.audit(*asked)
        assert code in {1, 2}, "without the ledger nobody knows what is under way"
        assert found["lost"] > 0
    finally:
        held.go_on.set()
        outcome_of(query)  # PostgreSQL may have cut off a driver that stood still
    job.finish()
    fill(job.bootstrap, job.source, [40])
    assert ground.audit(*asked, "--pipeline", job.pipeline)[:2] == (0, {})
    assert ground.audit(*asked)[:2] == (1, {"lost": 1})


def running(ground: Ground, place: str) -> tuple[Job, str, list[str]]:
    """A pipeline over forty records in several micro-batches, its output, and the columns that the output needs."""
    if place == "topic":
        job = Job.filled(ground.spark, ground.cluster.bootstrap, ground.folder, range(40), per_trigger=12)
        return job, f"kafka://{job.bootstrap}/{job.outputs[0]}", columns("right")
    into: Sink
    if place == "delta":
        right, into = f"delta:{ground.folder / 'out'}", semel.DeltaSink(ground.folder / "out")
    else:
        table = f"running_{next(_tables)}"
        right = jdbc(ground.database, table)
        into = semel.PostgresSink(ground.database.conninfo, table, create_table=True)
    job = TableJob.filled(
        ground.spark, ground.cluster.bootstrap, ground.folder, range(40), per_trigger=12, into=into, shape=as_rows
    )
    return job, right, []


def stamped_pipeline(ground: Ground, place: str) -> tuple[str, str, Sink]:
    """A source of which records are equal to each other, and a sink that stamps."""
    source = put_into_topic(ground.cluster, [(1, "same")] * 6)
    if place == "topic":
        (topic,) = new_topics(ground.cluster.bootstrap, 1)
        return (
            source,
            f"kafka://{ground.cluster.bootstrap}/{topic}",
            semel.KafkaSink(ground.cluster.bootstrap, topic, stamp=True),
        )
    if place == "delta":
        return source, f"delta:{ground.folder / 'out'}", semel.DeltaSink(ground.folder / "out", stamp=True)
    table = f"stamped_{next(_tables)}"
    sink = semel.PostgresSink(ground.database.conninfo, table, create_table=True, stamp=True)
    return source, jdbc(ground.database, table), sink


@pytest.mark.full
@pytest.mark.parametrize("place", ["topic", "delta", "table"])
def test_equal_records_are_told_apart_by_the_source_offset_that_a_sink_stamped(ground: Ground, place: str) -> None:
    """Offset 1 is never written and offset 3 twice: hashes of whole rows would be equal."""
    source, right, sink = stamped_pipeline(ground, place)
    rows = (
        ground.spark.read.format("semel")
        .options(**{"kafka.bootstrap.servers": ground.cluster.bootstrap, "subscribe": source.rpartition("/")[2]})
        .load()
        .withColumn("semel_stamp", semel.stamp())
    )
    for run_id, wanted in (("a", "offset <> 1"), ("b", "offset = 3")):
        chosen = rows.where(wanted).selectExpr("key", "value", "semel_stamp")
        semel.write_batch(chosen, sink, pipeline=f"stamped-{place}", run_id=run_id)
    asked = ["--stamp"] if place == "topic" else []  # a table shows that it has stamps
    code, found, examples = ground.audit(source, right, *asked)
    assert (code, found) == (1, {"lost": 1, "duplicated": 1})
    assert any(one.startswith(f"{source.rpartition('/')[2]}-0@1 ") for one in examples), examples
    unstamped = rows.withColumn("semel_stamp", lit(None).cast("string")).selectExpr("key", "value", "semel_stamp")
    with pytest.raises(Exception, match="a row has no semel_stamp"):
        semel.write_batch(unstamped, sink, pipeline=f"stamped-{place}", run_id="c")

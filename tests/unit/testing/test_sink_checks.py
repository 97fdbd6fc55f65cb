"""`check_sink` holds for every sink there is, and each planted mistake is found by the check that is about it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import deltalake
import psycopg
import pyarrow as pa
import pytest

import semel
from examples import sqlite_sink
from semel.engine.postgres import PostgresServer
from semel.sinks.base import MicroBatch, Results, Task, WritePlan
from semel.sinks.kafka.sink import KafkaOutput
from semel.testing.sink_checks import Output, SinkCheckFailed, check_sink
from tests.spark.sink_jobs import new_topics, read_all
from tests.support.postgres import postgres

__all__ = ["postgres"]

NAMES = ["deaths", "repeats", "ranges", "empty", "attempts", "owners", "outcomes", "checkpoints", "weaker"]
_numbers = count(1)
Make = Callable[[], Output]


# --- outputs of every kind


def sqlite_output(folder: Path, session: type[sqlite_sink.SqliteSession] = sqlite_sink.SqliteSession) -> Make:
    class Sink(sqlite_sink.SqliteSink):
        def open(self, pipeline: str, _: Callable[[], bool] = lambda: False) -> sqlite_sink.SqliteSession:
            return session(self.path, pipeline)

    def make() -> Output:
        path = str(folder / f"{next(_numbers)}.db")

        def read() -> Iterable[object]:
            connection = sqlite3.connect(path)
            connection.executescript(sqlite_sink.TABLES)
            rows = connection.execute("SELECT value FROM output").fetchall()
            connection.close()
            return [row[0] for row in rows]

        return Output(sink=Sink(path), read=read)

    return make


def delta_output(folder: Path) -> Make:
    def make() -> Output:
        path = folder / f"delta-{next(_numbers)}"

        def read() -> Iterable[object]:
            if not (path / "_delta_log").exists():
                return []
            values: list[Any] = deltalake.DeltaTable(path).to_pyarrow_dataset().to_table().column("value").to_pylist()
            return values

        return Output(sink=semel.DeltaSink(path), read=read)

    return make


def postgres_output(server: PostgresServer) -> Make:
    def make() -> Output:
        table = f"checked_{next(_numbers)}"
        with psycopg.connect(server.conninfo) as connection:
            connection.execute(f"CREATE TABLE {table} (key text, value text)".encode())

        def read() -> Iterable[object]:
            with psycopg.connect(server.conninfo) as connection:
                return [row[0] for row in connection.execute(f"SELECT value FROM {table}".encode())]

        return Output(sink=semel.PostgresSink(server.conninfo, table), read=read)

    return make


def kafka_output(cluster: semel.Cluster) -> Make:
    def make() -> Output:
        topic, source = new_topics(cluster.bootstrap, 3, 1)

        def read() -> Iterable[object]:
            return [one.value for one in read_all(cluster.bootstrap, topic)]

        return Output(sink=KafkaOutput(cluster.bootstrap, topic), read=read, source=source)

    return make


@pytest.fixture
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


def test_sqlite(tmp_path: Path) -> None:
    assert check_sink(sqlite_output(tmp_path)) == NAMES


def test_delta(tmp_path: Path) -> None:
    assert check_sink(delta_output(tmp_path)) == NAMES


@pytest.mark.full
def test_postgres(postgres: PostgresServer) -> None:
    assert check_sink(postgres_output(postgres)) == NAMES


@pytest.mark.full
def test_kafka(cluster: semel.Cluster) -> None:
    assert check_sink(kafka_output(cluster)) == NAMES


# --- mistakes


class LedgerFirst(sqlite_sink.SqliteSession):
    """Commits the ledger before there are rows."""

    def plan_write(self, micro_batch: MicroBatch, rows: Any, *, run: int) -> Any:
        self.write_ledger(micro_batch)
        self.connection.commit()
        self.read = self.kept()
        return super().plan_write(micro_batch, rows, run=run)


class LedgerApart(sqlite_sink.SqliteSession):
    """Commits rows, and then the ledger in another transaction."""

    def prepare(self, results: Results) -> int:
        rows = super().prepare(results)
        self.connection.commit()
        return int(rows)


class OwnerUnchecked(sqlite_sink.SqliteSession):
    """Goes on whoever owns the pipeline."""

    def own(self) -> None:
        self.owns = False
        super().own()


class MovedLedgerUnchecked(sqlite_sink.SqliteSession):
    """Does not see that the ledger has changed since it was read."""

    def lock(self, *, is_checked: bool) -> None:  # noqa: ARG002
        super().lock(is_checked=False)


def stage_together(path: str, run: int, task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return sqlite_sink.stage_rows(path, Task(number=task.number, attempt_id=1000 * run + task.number), batches)


class SharedStaging(sqlite_sink.SqliteSession):
    """All attempts of a task write to one place, and nobody counts."""

    def plan_write(self, micro_batch: MicroBatch, rows: Any, *, run: int) -> WritePlan:
        plan: WritePlan = super().plan_write(micro_batch, rows, run=run)
        task = partial(stage_together, self.path, next(_numbers))
        return replace(plan, stages=(replace(plan.stages[0], task=task),))

    def prepare(self, results: Results) -> int:
        count = "SELECT count(*) FROM staging WHERE attempt = ?"
        rows = [self.connection.execute(count, (row["attempt"],)).fetchone()[0] for row in results]
        found = [{"attempt": row["attempt"], "rows": number} for row, number in zip(results, rows, strict=True)]
        return int(super().prepare(found))


@pytest.mark.parametrize(
    ("mistake", "found"),
    [
        (LedgerFirst, "deaths"),
        (LedgerApart, "deaths"),
        (OwnerUnchecked, "owners"),
        (MovedLedgerUnchecked, "owners"),
        (SharedStaging, "attempts"),
    ],
)
def test_a_mistake_is_found_by_the_check_that_is_about_it(tmp_path: Path, mistake: type[Any], found: str) -> None:
    with pytest.raises(SinkCheckFailed, match=f"^{found}"):
        check_sink(sqlite_output(tmp_path, mistake))

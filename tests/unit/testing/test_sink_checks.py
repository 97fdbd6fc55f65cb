"""`check_sink` holds for every sink there is, and each planted mistake is found by the check that is about it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import deltalake
import psycopg
import pytest

import semel
from examples import sqlite_sink
from semel.engine.postgres import PostgresServer
from semel.sinks.kafka.sink import KafkaOutput
from semel.testing.sink_checks import Output, SinkCheckFailed, check_sink
from tests.spark.sink_jobs import new_topics, read_all
from tests.support.mistaken_sinks import MISTAKES, Mistake, MistakenSink
from tests.support.postgres import postgres

__all__ = ["postgres"]

NAMES = ["deaths", "repeats", "ranges", "empty", "attempts", "owners", "outcomes", "checkpoints", "weaker"]
_numbers = count(1)
Make = Callable[[], Output]


# --- outputs of every kind


def sqlite_output(folder: Path, session: type[sqlite_sink.SqliteSession] = sqlite_sink.SqliteSession) -> Make:
    def make() -> Output:
        path = str(folder / f"{next(_numbers)}.db")

        def read() -> Iterable[object]:
            connection = sqlite3.connect(path)
            connection.executescript(sqlite_sink.TABLES)
            rows = connection.execute("SELECT value FROM output").fetchall()
            connection.close()
            return [row[0] for row in rows]

        return Output(sink=MistakenSink(path, session), read=read)

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


@pytest.mark.parametrize("mistake", [pytest.param(one, id=one.name) for one in MISTAKES])
def test_a_mistake_is_found_by_the_check_that_is_about_it(tmp_path: Path, mistake: Mistake) -> None:
    with pytest.raises(SinkCheckFailed, match=f"^{mistake.check}"):
        check_sink(sqlite_output(tmp_path, mistake.session))

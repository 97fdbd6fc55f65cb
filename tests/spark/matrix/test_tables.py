"""M23: tasks fail and die, executors are killed, stages run again, Spark speculates, into PostgreSQL and Delta tables.

Any attempt may write there, each to a place of its own. So Spark's own retries are enough, and no micro-batch is run
again for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import psycopg
import pyarrow as pa
import pytest

import semel
from semel.engine.postgres import PostgresServer
from tests.spark.matrix.cells import STAGE_RUNS_AGAIN, TABLES, Cell
from tests.spark.matrix.drivers import Driven
from tests.spark.matrix.faulty_rows import SECOND_ATTEMPT, STAGE_AGAIN
from tests.spark.matrix.standalone import StandaloneSpark
from tests.support.postgres import postgres

__all__ = ["postgres"]

TABLE = "numbers"
Driving = Callable[[Cell, str], Driven]


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    with StandaloneSpark(tmp_path_factory.mktemp("standalone")) as started:
        yield started


@pytest.fixture
def driven(cluster: semel.Cluster, tmp_path: Path) -> Driving:
    """A pipeline under the faults of a cell, on a master."""

    def make(cell: Cell, master: str) -> Driven:
        settings = cell.settings(master)
        return Driven(folder=tmp_path, bootstrap=cluster.bootstrap, numbers=cell.numbers, settings=settings)

    return make


@pytest.fixture
def dsn(postgres: PostgresServer) -> str:
    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}".encode())
        connection.execute(f"CREATE TABLE {TABLE} (key bytea, value text)".encode())
    return postgres.conninfo


def numbers_of(values: list[Any]) -> Counter[int]:
    return Counter(int(str(value).split(" ", 1)[0]) for value in values)


def in_postgres(dsn: str) -> Counter[int]:
    with psycopg.connect(dsn) as connection:
        return numbers_of([row[0] for row in connection.execute(f"SELECT value FROM {TABLE}".encode())])


def in_delta(folder: Path) -> Counter[int]:
    table: Any = deltalake.DeltaTable(folder).to_pyarrow_dataset().to_table()
    return numbers_of(pa.table(table).column("value").to_pylist())


def check_struck(pipeline: Driven) -> None:
    assert [one for one in TABLES.faults if not pipeline.struck(one)] == []
    assert (pipeline.folder / SECOND_ATTEMPT).exists()
    assert "is run again" not in pipeline.log()


@pytest.mark.full
def test_tasks_and_executors_die_and_spark_speculates_into_postgres(
    driven: Driving, standalone: StandaloneSpark, dsn: str
) -> None:
    pipeline = driven(TABLES, standalone.master)
    pipeline.finish(sink="postgres", dsn=dsn, table=TABLE)
    check_struck(pipeline)
    assert in_postgres(dsn) == Counter(TABLES.numbers)


@pytest.mark.full
def test_tasks_and_executors_die_and_spark_speculates_into_a_delta_table(
    driven: Driving, standalone: StandaloneSpark, tmp_path: Path
) -> None:
    pipeline = driven(TABLES, standalone.master)
    pipeline.finish(sink="delta", table=str(tmp_path / TABLE))
    check_struck(pipeline)
    assert in_delta(tmp_path / TABLE) == Counter(TABLES.numbers)


@pytest.mark.full
def test_a_stage_runs_again_into_postgres(driven: Driving, dsn: str, tmp_path: Path) -> None:
    """Shuffle files are lost: tasks of the stage that writes run twice, at the same time."""
    pipeline = driven(STAGE_RUNS_AGAIN, "")
    pipeline.finish(sink="postgres", dsn=dsn, table=TABLE)
    assert any(pipeline.struck(one) for one in STAGE_RUNS_AGAIN.faults)
    assert (tmp_path / STAGE_AGAIN).exists()
    assert in_postgres(dsn) == Counter(STAGE_RUNS_AGAIN.numbers)

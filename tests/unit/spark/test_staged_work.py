"""Rows that were staged before anybody owned the pipeline: committed once, however often the commit is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import deltalake
import psycopg
import pyarrow as pa
import pytest

from semel.engine.postgres import PostgresServer
from semel.errors import ConfigError, SinkError
from semel.sinks.base import CommitStep, Task, ignore_step
from semel.sinks.postgres.staging import staging_prefix
from semel.spark.format_options import DELTA, POSTGRES, Format, parse_options
from semel.spark.formats import Staging, StreamWriter
from semel.spark.staged_work import TaskMessage, told_by
from semel.wire.topology import TopicPartition
from tests.support.checkpoints import META, QUERY, kafka_line
from tests.support.postgres import postgres
from tests.unit.sinks.local_work import COLUMNS, ROWS, SOURCE, orders

__all__ = ["postgres"]

_numbers = count(1)


class Output:
    """A table, the checkpoint of a query into it, and what Spark would call."""

    def __init__(
        self, kind: Format, options: dict[str, str], folder: Path, dsn: str, guarantee: str = "exactly_once"
    ) -> None:
        self.folder, self.dsn = folder, dsn
        self.place = options.get("path") or options["table"]
        given = {"pipeline": f"to-{next(_numbers)}", "guarantee": guarantee, "checkpointlocation": str(folder)}
        self.options = parse_options(given | options, kind, streaming=True)
        (folder / "offsets").mkdir(parents=True)
        (folder / "metadata").write_text(f'{{"id":"{QUERY}"}}')

    def plan(self, number: int) -> None:
        """What Spark writes before a micro-batch runs."""
        line = kafka_line({SOURCE: (number + 1) * ROWS})
        (self.folder / "offsets" / str(number)).write_text(f"v1\n{META}\n{line}")
        if number == 0:
            start = self.folder / "sources" / "0"
            start.mkdir(parents=True)
            (start / "0").write_text(f"v1\n{kafka_line({TopicPartition('orders', 0): 0})}")

    def stage(self, number: int, query_id: str = QUERY) -> list[TaskMessage]:
        """What the tasks of a micro-batch do, and tell; the first attempt of each is one that does not count."""
        staging = Staging.of(self.options, COLUMNS)
        told = []
        for task, batch in enumerate(orders(number * ROWS, (number + 1) * ROWS)):
            for _ in range(2):
                given = staging.task(Task(number=task, attempt_id=next(_numbers)), iter([batch]))
                results = [row for one in given for row in one.to_pylist()]
            told.append(TaskMessage(staging=staging.name, results=results, query_id=query_id, micro_batch_id=number))
        return told

    def commit(self, told: list[TaskMessage], number: int, on_step: Callable[[CommitStep], None] = ignore_step) -> None:
        StreamWriter(options=self.options, columns=COLUMNS, on_step=on_step, staging=None).commit(told, number)

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn) as connection:
            return connection.execute(sql.encode()).fetchall()

    def ids(self) -> list[int]:
        if not self.dsn:
            found: Any = deltalake.DeltaTable(self.place).to_pyarrow_dataset().to_table()
            return sorted(found.column("id").to_pylist())
        return sorted(row[0] for row in self.execute(f"SELECT id FROM {self.place}"))

    def left(self) -> set[str]:
        """What is staged and no part of the table."""
        if self.dsn:
            prefix = staging_prefix(self.options.pipeline)
            found = self.execute(f"SELECT relname FROM pg_class WHERE starts_with(relname, '{prefix}')")
            return {row[0] for row in found}
        named = {Path(one).name for one in deltalake.DeltaTable(self.place).file_uris()}
        return {file.name for file in Path(self.place).glob("*.parquet")} - named


@pytest.fixture(params=[POSTGRES, DELTA], ids=lambda kind: str(kind.name))
def output(request: pytest.FixtureRequest, tmp_path: Path) -> Output:
    if request.param is DELTA:
        return Output(DELTA, {"path": str(tmp_path / "table")}, tmp_path / "checkpoint", "")
    server: PostgresServer = request.getfixturevalue("postgres")
    options = {"dsn": server.conninfo, "table": f"staged_{next(_numbers)}", "create_table": "true"}
    return Output(POSTGRES, options, tmp_path / "checkpoint", server.conninfo)


def test_a_commit_that_is_called_twice_is_one(output: Output) -> None:
    """E24: also with the same messages, whose staging is the table by then."""
    for number in (0, 1):
        output.plan(number)
        told = output.stage(number)
        for _ in range(2):
            output.commit(told, number)
    assert output.ids() == list(range(2 * ROWS))


def test_a_micro_batch_that_is_there_is_staged_and_dropped(output: Output, capsys: pytest.CaptureFixture[str]) -> None:
    output.plan(0)
    output.commit(output.stage(0), 0)
    output.commit(output.stage(0), 0)
    assert output.ids() == list(range(ROWS))
    assert output.left() == set()
    assert f"{ROWS} staged rows are dropped" in capsys.readouterr().err


def test_a_commit_that_dies_is_made_good_by_the_next(output: Output) -> None:
    def die(step: CommitStep) -> None:
        if step is CommitStep.OFFSETS_WRITTEN:
            raise KeyboardInterrupt

    output.plan(0)
    with pytest.raises(KeyboardInterrupt):
        output.commit(output.stage(0), 0, die)
    lost = output.left()
    output.commit(output.stage(0), 0)
    assert output.ids() == list(range(ROWS))
    # Files of a job that died are no part of a Delta table, and are left for vacuum: another driver may be at work.
    assert output.left() == (set() if output.dsn else lost)


def test_at_least_once_leaves_no_staging_behind(postgres: PostgresServer, tmp_path: Path) -> None:
    """Nobody owns the pipeline there: what attempts left that died goes with the next commit."""
    options = {"dsn": postgres.conninfo, "table": f"staged_{next(_numbers)}", "create_table": "true"}
    output = Output(POSTGRES, options, tmp_path / "checkpoint", postgres.conninfo, "at_least_once")
    for number in range(2):
        output.plan(number)
        task = Staging.of(output.options, COLUMNS).task

        def until_it_is_cut() -> Iterator[pa.RecordBatch]:
            yield orders(0, 10)[0]
            output.execute("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE query LIKE 'COPY%'")
            yield orders(0, 10)[0]

        with pytest.raises(SinkError, match="connection to PostgreSQL was lost"):
            list(task(Task(number=0, attempt_id=next(_numbers)), until_it_is_cut()))
        assert len(output.left()) == 1
        output.commit(output.stage(number), number)
        assert output.left() == set()
    assert output.ids() == list(range(2 * ROWS))


def test_a_commit_at_least_once_that_fails_leaves_no_staging_behind(postgres: PostgresServer, tmp_path: Path) -> None:
    """The table refuses the rows, at every start."""
    options = {"dsn": postgres.conninfo, "table": f"staged_{next(_numbers)}", "create_table": "true"}
    output = Output(POSTGRES, options, tmp_path / "checkpoint", postgres.conninfo, "at_least_once")
    output.plan(0)
    told = output.stage(0)
    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE {output.place} ADD CHECK (id < 0)".encode())
    with pytest.raises(SinkError, match="check"):
        output.commit(told, 0)
    assert output.left() == set()
    assert output.ids() == []


def test_what_does_not_belong_together_is_refused(output: Output) -> None:
    output.plan(0)
    other = output.stage(0, query_id="another")
    with pytest.raises(SinkError, match="staged by another"):
        output.commit(other, 0)
    with pytest.raises(SinkError, match="2 of 3 tasks"):
        told_by([*output.stage(0)[:2], None])
    (output.folder / "semel-pipeline").write_text("somebody-else")
    output.plan(1)
    with pytest.raises(ConfigError, match="belongs to pipeline 'somebody-else'"):
        output.commit(output.stage(1), 1)

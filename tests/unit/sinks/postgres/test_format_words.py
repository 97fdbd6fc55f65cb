"""What a format refuses is told in options, and the options that the text names are the way out."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import deltalake
import psycopg
import pyarrow as pa
import pytest

from semel.engine.postgres import PostgresServer
from semel.errors import SemelError
from semel.sinks.base import Column, MicroBatch, ignore_step
from semel.sinks.commit import Commit
from semel.spark.format_options import DELTA, POSTGRES, parse_options
from tests.unit.sinks.local_work import COLUMNS, ROWS, SOURCE, local_work, orders

OPTION = re.compile(r'\.option\("(\w+)", ("(?:[^"\\]|\\.)*")\)')
COMMA = Column(name="a,b", type="bigint", json='"long"')
_numbers = count(1)


@dataclass
class OptionsJob:
    """A query that is given as options, without Spark."""

    options: dict[str, str]
    pipeline: str
    dsn: str
    columns: tuple[Column, ...] = COLUMNS
    rows: Sequence[pa.RecordBatch] = field(default_factory=lambda: orders(0, ROWS))
    micro_batch_id: int = 0
    query_id: str = "q"
    is_stateful: bool = False

    def write(self) -> int:
        given = {"pipeline": self.pipeline, "guarantee": "exactly_once", "checkpointLocation": "/data"} | self.options
        options = parse_options(given, POSTGRES if "dsn" in given else DELTA, streaming=True)
        options.sink.check_columns(self.columns)
        begin = self.micro_batch_id * ROWS
        micro_batch = MicroBatch(
            pipeline=self.pipeline,
            query_id=self.query_id,
            id=self.micro_batch_id,
            guarantee=options.guarantee,
            offsets={SOURCE: begin + ROWS},
            offsets_before={SOURCE: begin},
        )
        session = options.sink.open(self.pipeline)
        work = local_work(self.rows, self.columns, has_state=self.is_stateful)
        try:
            return Commit(session=session, micro_batch=micro_batch, work=work, on_step=ignore_step).execute()
        finally:
            session.let_go()

    def sql(self, *statements: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for one in statements:
                connection.execute(one.replace("TABLE_NAME", self.options["table"]).encode())


def has_rows_of_others(job: OptionsJob) -> None:
    job.sql("INSERT INTO TABLE_NAME VALUES (-1)")


def is_made_again(job: OptionsJob) -> None:
    job.write()
    job.sql("DROP TABLE TABLE_NAME", "CREATE TABLE TABLE_NAME (id bigint PRIMARY KEY, note text)")
    job.micro_batch_id = 1


def is_missing(job: OptionsJob) -> None:
    job.sql("DROP TABLE TABLE_NAME")


def key_comes_twice(job: OptionsJob) -> None:
    job.options |= {"mode": "upsert", "key": "id"}
    job.sql("ALTER TABLE TABLE_NAME ADD COLUMN IF NOT EXISTS at bigint")
    job.columns = (*COLUMNS, Column(name="at", type="bigint"))
    job.rows = [pa.RecordBatch.from_pydict({"id": [1, 1], "note": ["a", "b"], "at": [1, 2]})]


def upsert_without_key(job: OptionsJob) -> None:
    job.options["mode"] = "upsert"


def append_with_key(job: OptionsJob) -> None:
    job.options["key"] = "id"


def append_with_order(job: OptionsJob) -> None:
    job.options["order_by"] = "note"


def state_is_lost(job: OptionsJob) -> None:
    job.write()
    job.micro_batch_id, job.query_id, job.is_stateful = 1, "another", True
    job.rows = orders(ROWS, 2 * ROWS)


def delta_has_rows(job: OptionsJob) -> None:
    deltalake.write_deltalake(job.options["path"], pa.table({"id": [-1], "note": ["mine"]}))


def delta_is_divided(job: OptionsJob) -> None:
    job.columns, job.rows = (*COLUMNS, COMMA), [pa.RecordBatch.from_pydict({"id": [1], "note": ["a"], "a,b": [2]})]
    fields: dict[str, pa.DataType] = {"id": pa.int64(), "note": pa.string(), "a,b": pa.int64()}
    schema = pa.schema(fields)
    deltalake.DeltaTable.create(job.options["path"], schema, partition_by=["note", "a,b"])


def delta_lacks_a_column(job: OptionsJob) -> None:
    deltalake.DeltaTable.create(job.options["path"], pa.schema([("id", pa.int64())]))


POSTGRES_CASES: list[tuple[Callable[[OptionsJob], None], dict[str, str]]] = [
    (has_rows_of_others, {"ledger_missing": "run"}),
    (is_made_again, {"ledger_missing": "run"}),
    (is_missing, {"create_table": "true"}),
    (key_comes_twice, {"order_by": "…"}),
    (upsert_without_key, {"mode": "upsert", "key": "id"}),
    (append_with_key, {"mode": "upsert", "key": "id"}),
    (append_with_order, {"mode": "upsert", "key": "…", "order_by": "…"}),
    (state_is_lost, {"lost_state": "accept"}),
]
DELTA_CASES: list[tuple[Callable[[OptionsJob], None], dict[str, str]]] = [
    (delta_has_rows, {"ledger_missing": "run"}),
    (delta_is_divided, {"partition_by": '["note", "a,b"]'}),
    (delta_lacks_a_column, {"merge_schema": "true"}),
    (state_is_lost, {"lost_state": "accept"}),
]
# What a user puts in the place of dots.
MEANT = {"order_by": "at", "key": "id"}


@pytest.mark.parametrize(("spoil", "way_out"), POSTGRES_CASES, ids=lambda one: getattr(one, "__name__", ""))
def test_postgres_names_options_that_work(
    postgres: PostgresServer, spoil: Callable[[OptionsJob], None], way_out: dict[str, str]
) -> None:
    table = f"words_{next(_numbers)}"
    job = OptionsJob(options={"dsn": postgres.conninfo, "table": table}, pipeline=f"to-{table}", dsn=postgres.conninfo)
    job.sql("CREATE TABLE TABLE_NAME (id bigint PRIMARY KEY, note text)")
    follow(job, spoil, way_out)


@pytest.mark.parametrize(("spoil", "way_out"), DELTA_CASES, ids=lambda one: getattr(one, "__name__", ""))
def test_delta_names_options_that_work(
    tmp_path: Path, spoil: Callable[[OptionsJob], None], way_out: dict[str, str]
) -> None:
    follow(OptionsJob(options={"path": str(tmp_path / "t")}, pipeline="to-delta", dsn=""), spoil, way_out)


def follow(job: OptionsJob, spoil: Callable[[OptionsJob], None], way_out: dict[str, str]) -> None:
    """Be refused, do what the text says, be through."""
    spoil(job)
    with pytest.raises(SemelError) as caught:
        job.write()
    text = str(caught.value)
    assert "Sink(" not in text
    # Of two ways out that name the same option, the first is followed.
    wanted = {name: ast.literal_eval(value) for name, value in reversed(OPTION.findall(caught.value.you_want))}
    assert {name: wanted[name] for name in way_out} == way_out, text
    assert set(way_out) <= set(wanted) <= {*way_out, "startingOffsets", "mode"}, text
    job.options |= {name: MEANT.get(name, value) if "…" in value else value for name, value in way_out.items()}
    if job.options.get("order_by") == "at":
        key_comes_twice(job)
    assert job.write() > 0

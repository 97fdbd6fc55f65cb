"""The same rows into the same kinds of tables, by `foreachBatch` and a writer that keeps no ledger, and by semel.

What a user writes by hand is written here as the manuals of Spark and deltalake have it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import psycopg
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import semel
from semel.engine.jars import POSTGRES_DRIVER
from semel.sinks.base import CommitStep
from tests.support.waiting import eventually

JDBC, POSTGRES = "foreachBatch and JDBC", "PostgresSink"
IN_DRIVER, IN_TASKS = "foreachBatch and write_deltalake", "foreachBatch and write_deltalake in tasks"
DELTA = "DeltaSink"
BY_HAND = (JDBC, IN_DRIVER, IN_TASKS)
NUMBERS = range(60)
TASKS = 2
WAIT_S_MAX = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One query, from a topic into a table of its own; picklable, and made again from its fields in another process."""

    writer: str
    bootstrap: str
    topic: str
    dsn: str
    folder: str

    @property
    def name(self) -> str:
        """Of the pipeline, and of the table in PostgreSQL."""
        return f"{self.writer}_{self.topic}".lower().replace(" ", "_").replace("-", "_")

    @property
    def path(self) -> str:
        """Of the table in a folder."""
        return str(Path(self.folder, self.name, "table"))

    @property
    def mark(self) -> Path:
        """A file that is there once a task has failed."""
        return Path(self.folder, f"{self.name}-struck")

    def start(
        self, spark: SparkSession, *, on_written: Callable[[], None] = lambda: None, task_fails: bool = False
    ) -> StreamingQuery:
        """Start it over what is in the topic now, in one micro-batch; `on_written` comes before Spark's commit log."""
        source = spark.readStream.format("semel").option("kafka.bootstrap.servers", self.bootstrap)
        rows = source.option("subscribe", self.topic).option("startingOffsets", "earliest").load()
        rows = rows.selectExpr("cast(string(value) as bigint) AS number").repartition(TASKS, "number")
        if task_fails:
            rows = rows.mapInArrow(partial(fail_at_the_end, self), "number bigint")
        checkpoint = str(Path(self.folder, self.name, "checkpoint"))
        if self.writer not in BY_HAND:
            return semel.write_stream(
                rows,
                self._sink(),
                pipeline=self.name,
                guarantee="exactly_once",
                checkpoint=checkpoint,
                trigger={"availableNow": True},
                on_step=lambda step: on_written() if step is CommitStep.COMMITTED else None,
            )

        def write(found: DataFrame, _: int) -> None:
            self._write_by_hand(found)
            on_written()

        writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
        return writer.trigger(availableNow=True).start()

    def _sink(self) -> Any:
        if self.writer == POSTGRES:
            return semel.PostgresSink(self.dsn, self.name, create_table=True)
        return semel.DeltaSink(self.path)

    def _write_by_hand(self, rows: DataFrame) -> None:
        match self.writer:
            case "foreachBatch and JDBC":
                given = psycopg.conninfo.conninfo_to_dict(self.dsn)
                url = f"jdbc:postgresql://{given['host']}:{given['port']}/{given['dbname']}"
                login = {"user": str(given["user"]), "password": str(given["password"])}
                rows.write.jdbc(url, self.name, mode="append", properties=login | {"driver": "org.postgresql.Driver"})
            case "foreachBatch and write_deltalake":
                deltalake.write_deltalake(self.path, rows.toArrow(), mode="append")
            case _:
                rows.mapInArrow(partial(append_from_a_task, self.path), "written bigint").collect()

    def numbers(self) -> list[int]:
        """What is in the table now; nothing where there is none yet."""
        if self.writer in (JDBC, POSTGRES):
            with psycopg.connect(self.dsn) as connection:
                if connection.execute("SELECT to_regclass(%s)", (self.name,)).fetchone() == (None,):
                    return []
                return [row[0] for row in connection.execute(f"SELECT number FROM {self.name}".encode())]
        if not deltalake.DeltaTable.is_deltatable(self.path):
            return []
        found: Any = deltalake.DeltaTable(self.path).to_pyarrow_dataset().to_table()
        return list(found.column("number").to_pylist())


def fail_at_the_end(copy: Copy, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give all rows on; then the task with the first number fails, once, when the other one's rows have landed.

    Rows that nobody sees before the commit are not waited for, nor are those of a job that writes when all tasks are
    done.
    """
    has_first = False
    for batch in batches:
        has_first |= NUMBERS[0] in batch.column("number").to_pylist()
        yield batch
    if has_first and not copy.mark.exists():
        if copy.writer in (JDBC, IN_TASKS):
            eventually(copy.numbers, WAIT_S_MAX, what="rows of the other task are there")
        os.close(os.open(copy.mark, os.O_CREAT | os.O_EXCL))
        raise RuntimeError("once")


def append_from_a_task(path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = list(batches)
    if rows:
        deltalake.write_deltalake(path, pa.Table.from_batches(rows), mode="append")
    yield pa.RecordBatch.from_pydict({"written": [sum(batch.num_rows for batch in rows)]})


def add_jdbc_driver(spark: SparkSession) -> None:
    for jar in POSTGRES_DRIVER.fetch():
        spark.sql(f"ADD JAR '{jar}'")

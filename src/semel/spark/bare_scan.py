"""Finds micro-batches that are the source's rows unchanged: then the tasks that write read the source themselves.

Keeps: exactly what Spark planned is read, once, by the same code. The tasks are taken from Spark's own scan of this
       micro-batch, and only when the rows that came to the sink are that scan, with columns left out at most. Any other
       query, a filter or a watermark included, gets its rows from Spark.
Why:   rows that no expression looks at would be made from Arrow columns in the JVM and turned into Arrow columns again
       for the sink. That is most of a copy's time, and nobody has seen the rows in between.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from pyspark import SparkContext
from pyspark.sql import DataFrame, Row, SparkSession

from semel.spark.row_schema import HEADERS
from semel.spark.source import TaskPartition

if TYPE_CHECKING:
    import pyarrow as pa

Batches = Iterator["pa.RecordBatch"]

_ROWS_READ = "numOutputRows"
# Nodes that Spark puts around others to compile them; they change no rows.
_WRAPPERS = ("WholeStageCodegenExec", "InputAdapter")
_MODULE = TaskPartition.__module__.encode()
_PYTHON_SOURCES = "org.apache.spark.sql.execution.datasources.v2.python."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlanned:
    """Reads in the task that writes what Spark had planned for tasks of the source; picklable."""

    tasks: tuple[TaskPartition, ...]

    def __call__(self, numbers: Batches) -> Batches:
        """Give the rows of the tasks with the numbers that Spark brings."""
        for batch in numbers:
            yield from self.rows(batch.column(0).to_numpy().tolist())

    def rows(self, numbers: Iterable[int]) -> Batches:
        """Give the rows of the tasks with these numbers."""
        for number in numbers:
            yield from self.tasks[number].read()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadAndWrite:
    """One task that does both; picklable."""

    read: ReadPlanned
    write: Callable[[Batches], Batches]
    tasks: int

    def __call__(self, index: int, nothing: Iterable[None]) -> Iterator[Row]:
        """Write this task's share of what was planned; returns what the writer returned."""
        list(nothing)  # a worker that has not heard the end of what it is given is not used again
        # Neighbours together, and every planned task once, whatever the two numbers are.
        first, end = (len(self.read.tasks) * one // self.tasks for one in (index, index + 1))
        for batch in self.write(self.read.rows(range(first, end))):
            yield from (Row(**row) for row in batch.to_pylist())


@dataclass(frozen=True, slots=True, kw_only=True)
class BareScan:
    """The scan that is a whole micro-batch."""

    read: ReadPlanned
    node: Any
    """Spark's own, in the JVM."""

    @classmethod
    def find(cls, rows: DataFrame, columns: list[str], execution: Any) -> Self | None:
        """Look at the micro-batch that a query is just now handing to its sink; None when it is more than a scan."""
        planned = execution.lastExecution()
        given = rows._jdf.queryExecution().analyzed()
        if _kind(given) != "LogicalRDD" or given.rdd().id() != planned.toRdd().id():
            return None  # rows were made from what Spark handed over
        node = _scan_of(planned.executedPlan())
        tasks = () if node is None else _planned_tasks(node, columns)
        return cls(read=ReadPlanned(tasks=tasks), node=node) if tasks else None

    def task_numbers(self, spark: SparkSession) -> DataFrame:
        """One row for each planned task, each in a task of its own."""
        count = len(self.read.tasks)
        return spark.range(0, count, 1, count)

    def run(self, context: SparkContext, write: Callable[[Batches], Batches], tasks_max: int | None) -> list[Row]:
        """Read and write in one task for each that was planned, or in so many, neighbours together.

        Why: without a plan of Spark's, which takes longer than the rows of a small micro-batch do.
        """
        tasks = min(len(self.read.tasks), tasks_max or len(self.read.tasks))
        task = _ReadAndWrite(read=self.read, write=write, tasks=tasks)
        # The tasks need no input. Spark only has to start that many.
        nothing: list[None] = []
        return context.parallelize(nothing, tasks).mapPartitionsWithIndex(task).collect()

    def tell_rows_read(self, rows: int) -> None:
        """Let the query's progress say how much was read, which Spark has not seen."""
        self.node.metrics().apply(_ROWS_READ).add(rows)


def _kind(of: Any) -> str:
    return str(of.getClass().getSimpleName())


def _scan_of(plan: Any) -> Any | None:
    """The scan below nodes that do no more than choose columns."""
    node, kind = plan, _kind(plan)
    while kind in _WRAPPERS or (kind == "ProjectExec" and _only_chooses(node)):
        node = node.child()
        kind = _kind(node)
    is_python = kind == "MicroBatchScanExec" and node.stream().getClass().getName().startswith(_PYTHON_SOURCES)
    return node if is_python else None


def _only_chooses(project: Any) -> bool:
    """Whether every column is one of the input's, under its own name."""
    return all(_kind(one) == "AttributeReference" for one in _items(project.projectList()))


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]


def _planned_tasks(node: Any, columns: list[str]) -> tuple[TaskPartition, ...]:
    """What Spark would have sent to Python workers; nothing when it is from another source."""
    # Spelled so in Spark.
    pickled = [one.pickedPartition() for one in _items(node.inputPartitions())]
    if not all(_MODULE in one for one in pickled):
        return ()
    tasks: list[TaskPartition] = [pickle.loads(one) for one in pickled]  # noqa: S301  (made by this source)
    for task in tasks:
        task.options = replace(task.options, columns=tuple(columns), include_headers=HEADERS in columns)
    return tuple(tasks)

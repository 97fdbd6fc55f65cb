"""A pipeline of a drill: a query that reads a topic and writes through one of semel's sinks, and its lives.

Each life is one driver: a query from the checkpoint that is there. All of them are queries of one session, since a
session takes seconds to start. A driver that dies is an error that nothing in semel catches, raised between two steps:
the sink's transaction, the ledger and the checkpoint stay as a killed process leaves them. `spark_life` kills a whole
process at the same steps.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from semel.drill.spark_rows import ARMED, SCHEMA, STRUCK, die_once, fail_once, fail_once_written
from semel.drill.spark_targets import COLUMNS, Target
from semel.drill.spark_ways import KAFKA, Act
from semel.errors import EnvironmentFailure
from semel.guarantee import Guarantee
from semel.sinks.base import (
    Batches,
    CommitStep,
    MicroBatch,
    OnStep,
    RowsAhead,
    Sink,
    SinkSession,
    WritePlan,
    ignore_step,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY_S_MAX = 120
LIVES_MAX = 8
# Three micro-batches of the cells' records: one before the strike, one under it, one after it.
PER_TRIGGER = 20


class Killed(Exception):
    """Stands for the death of a driver: no class of semel's, so nothing is undone and nothing is tried again."""


@dataclass(slots=True, kw_only=True)
class Pipeline:
    """One query's settings; its checkpoint and its target outlive the drivers."""

    spark: SparkSession
    bootstrap: str
    source: str
    path: str
    target: Target
    guarantee: Guarantee
    folder: Path
    options: dict[str, str] = field(default_factory=lambda: {"startingOffsets": "earliest"})
    checkpoint: str = "checkpoint"
    shape: Callable[[DataFrame], DataFrame] = lambda rows: rows
    in_tasks: Callable[[Sink], Sink] = lambda sink: sink

    @property
    def name(self) -> str:
        """The pipeline: the group and the transactional id of a sink to Kafka."""
        return f"drill-{self.target.name}"

    def run(self, on_step: OnStep = ignore_step) -> str:
        """One driver's life, to the end of what is in the topic; the error that ended it, or nothing."""
        from pyspark.errors import StreamingQueryException  # noqa: PLC0415

        from semel.spark.writing import write_stream  # noqa: PLC0415

        query = write_stream(
            self.shape(self._rows()).selectExpr(*COLUMNS[self.path]),
            self.in_tasks(self.target.sink()),
            pipeline=self.name,
            guarantee=self.guarantee,
            checkpoint=str(self.folder / self.checkpoint),
            trigger={"availableNow": True},
            on_step=on_step,
        )
        try:
            if not query.awaitTermination(QUERY_S_MAX):
                raise EnvironmentFailure(f"a query of a few micro-batches takes longer than {QUERY_S_MAX} s")
        except StreamingQueryException as error:
            return str(error)
        finally:
            query.stop()
        return ""

    def _rows(self) -> DataFrame:
        given = {
            "kafka.bootstrap.servers": self.bootstrap,
            "subscribe": self.source,
            "maxOffsetsPerTrigger": str(PER_TRIGGER),
            **self.options,
        }
        return self.spark.readStream.format("semel").options(**given).load().select("key", "value")

    def survive(self, on_step: OnStep = ignore_step) -> list[str]:
        """Start one driver after the other until one finishes; returns the errors of those before it."""
        errors: list[str] = []
        for _ in range(LIVES_MAX):
            failure = self.run(on_step)
            if not failure:
                return errors
            errors.append(summary(failure))
        raise EnvironmentFailure(f"{LIVES_MAX} drivers were started and none is done", because=errors[-1])

    def lose_checkpoint(self) -> None:
        """Remove it, and go on with a new one where the output ends."""
        shutil.rmtree(self.folder / self.checkpoint)
        self._begin_at_ledger()

    def _begin_at_ledger(self) -> None:
        """Say where a new checkpoint begins, as the guide does: by Kafka's ledger, or by what the refusal names."""
        if self.path == KAFKA:
            self.options = {"startingOffsets": "ledger", "ledger": self.name}
            return
        refused = self.run()
        if not refused:
            return  # its micro-batches end where those of the old one did, so the sink knew them; the count will tell
        told = re.search(r"\"startingOffsets\", '(\{.*?\})'\)", refused)
        if told is None:
            raise EnvironmentFailure(f"a new checkpoint was refused without a place to begin at: {summary(refused)}")
        shutil.rmtree(self.folder / self.checkpoint)
        self.options = {"startingOffsets": told.group(1)}

    def succeed(self) -> str:
        """Let another driver of this pipeline come to the end, from a checkpoint of its own; its error, or nothing."""
        newer = replace(self, checkpoint="newer")
        try:
            newer._begin_at_ledger()
        except EnvironmentFailure as failure:
            return failure.summary
        return newer.run()

    # --- faults in tasks

    def break_tasks(self, act: Act) -> None:
        """From now on rows, or the work of tasks, go through a function that strikes once, after `arm`."""
        if act is Act.FAIL_WRITTEN_TASK:
            self.in_tasks = partial(_with_work, partial(fail_once_written, self.folder))
            return
        function = partial(fail_once if act is Act.FAIL_TASK else die_once, self.folder)
        self.shape = lambda rows: rows.mapInArrow(function, SCHEMA)

    def arm(self) -> None:
        """Let the fault strike in the next task that has rows."""
        (self.folder / ARMED).touch()

    @property
    def is_struck(self) -> bool:
        """Whether it has."""
        return (self.folder / STRUCK).exists()


def _with_work(strike: Callable[..., Batches], sink: Sink) -> Sink:
    """The sink, with the work of its writing tasks inside of another function."""
    # The sink stays what it is: only what its tasks do is put into another function.
    open_session = sink.open

    def opened(pipeline: str, is_called_off: Callable[[], bool] = lambda: False) -> SinkSession:
        session = open_session(pipeline, is_called_off)
        plan_write = session.plan_write

        def planned(micro_batch: MicroBatch, rows: RowsAhead, *, run: int) -> WritePlan:
            plan = plan_write(micro_batch, rows, run=run)
            last = replace(plan.stages[-1], task=partial(strike, plan.stages[-1].task))
            return replace(plan, stages=(*plan.stages[:-1], last))

        session.plan_write = planned  # type: ignore[method-assign]
        return session

    sink.open = opened  # type: ignore[method-assign]
    return sink


def summary(failure: str) -> str:
    """The line of an error that says what was wrong; Spark puts its own words around it."""
    lines = [line.strip() for line in failure.splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line or "Killed" in line]
    return (telling or lines or ["nothing was said"])[0][:300]


class AtStep:
    """Acts once, when the pipeline has come to a step for the n-th time."""

    def __init__(self, step: CommitStep, count: int, act: Callable[[], None]) -> None:
        """Nothing has happened yet."""
        self._step, self._left, self._act = step, count, act
        self.fired = 0

    def __call__(self, step: CommitStep) -> None:
        """Count."""
        if step is self._step and self._left:
            self._left -= 1
            if self._left == 0:
                self.fired += 1
                self._act()


def session_settings(folder: Path) -> Mapping[str, str]:
    """A session for many small queries: quick to start, with little kept of those that have ended, all in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "spark.driver.memory": "1g",
        # The JVM does not know TMPDIR, and one that is killed removes nothing.
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={folder}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.sql.ui.retainedExecutions": "10",
        "spark.sql.streaming.ui.retainedQueries": "5",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }

"""Where the time of a write with `semel.PostgresSink` goes: before the tasks, their copying, the move, the commit.

The steps are those that the sink tells of by itself. The move from staging into the table is part of the step in which
rows are written, so the session tells how long it took.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from pyspark.sql import DataFrame

import semel
from semel.sinks.base import CommitStep, Results
from semel.sinks.postgres.session import PostgresSession

BEFORE, STAGING, MOVING, COMMITTING = "before the tasks", "tasks copy", "move into the table", "ledger and commit"
STEPS = (BEFORE, STAGING, MOVING, COMMITTING)


class TimedSession(PostgresSession):
    """A session that knows how long its last move took."""

    moving_s = 0.0

    def prepare(self, results: Results) -> int:
        """Move the rows."""
        began = time.perf_counter()
        try:
            return super().prepare(results)
        finally:
            self.moving_s = time.perf_counter() - began


class TimedSink(semel.PostgresSink):
    """The sink, with its last session at hand."""

    session: TimedSession

    def open(self, pipeline: str, is_called_off: Callable[[], bool] = lambda: False) -> TimedSession:
        """Connect as the pipeline's driver."""
        self.session = TimedSession(self, pipeline, is_called_off)
        return self.session


def write_once(rows: DataFrame, sink: semel.PostgresSink | semel.DeltaSink) -> dict[str, float]:
    """Write a batch exactly once, under a name that nobody had; gives the seconds of its steps, if they are known."""
    moments: dict[CommitStep, float] = {}

    def note(step: CommitStep) -> None:
        moments[step] = time.perf_counter()

    began = time.perf_counter()
    name = f"bench-{uuid.uuid4().hex}"
    semel.write_batch(rows, sink, pipeline=name, run_id="1", guarantee="exactly_once", on_step=note)
    ended = time.perf_counter()
    if not isinstance(sink, TimedSink):
        return {}
    opened, written, moving_s = moments[CommitStep.OPENED], moments[CommitStep.ROWS_WRITTEN], sink.session.moving_s
    taken = (opened - began, written - opened - moving_s, moving_s, ended - written)
    return dict(zip(STEPS, taken, strict=True))

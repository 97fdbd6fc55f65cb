"""Rows for sinks without Spark, and drivers that die."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semel.guarantee import Guarantee
from semel.sinks.base import Column, CommitStep, MicroBatch, Run, SinkSession, ignore_step
from semel.sinks.commit import Commit
from semel.sinks.run_ids import run_query_id
from semel.testing.local_work import LocalWork
from semel.wire.topology import TopicPartition

SOURCE = TopicPartition("orders", 0)
ROWS = 30
COLUMNS = (
    Column(name="id", type="bigint", json='"long"'),
    Column(name="note", type="string", json='"string"'),
)


class Killed(BaseException):
    """The driver's process is gone."""


def orders(first: int, end: int) -> list[pa.RecordBatch]:
    """Rows with these numbers, in batches of ten."""
    chunks = [range(at, min(at + 10, end)) for at in range(first, end, 10)]
    return [pa.table({"id": one, "note": [f"n{one[0]}"] * len(one)}).to_batches()[0] for one in chunks]


def local_work(batches: Sequence[pa.RecordBatch], columns: tuple[Column, ...] = COLUMNS, **more: Any) -> LocalWork:
    """Work with these rows."""
    return LocalWork(batches=batches, columns=columns, **more)


@dataclass
class KillAt:
    """Kills the driver after the nth time of a step."""

    step: CommitStep
    nth: int = 1

    def __call__(self, step: CommitStep) -> None:
        if step is self.step:
            self.nth -= 1
            if self.nth == 0:
                raise Killed


def write_run(session: SinkSession, run_id: str, batches: Sequence[pa.RecordBatch]) -> int:
    """One run of a batch job; how many rows it wrote."""
    run = Run(id=run_id)
    job = MicroBatch(
        pipeline=session.pipeline,
        query_id=run_query_id(run),
        id=0,
        guarantee=Guarantee.EXACTLY_ONCE,
        offsets=None,
        run=run,
    )
    session.prepare_run(job)
    try:
        return Commit(session=session, micro_batch=job, work=local_work(batches), on_step=ignore_step).execute()
    finally:
        session.let_go()

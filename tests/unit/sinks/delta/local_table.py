"""A pipeline into a Delta table without Spark, restarted as often as it dies."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa

from semel.guarantee import Guarantee
from semel.sinks.base import MicroBatch, OnStep, ignore_step
from semel.sinks.commit import Commit
from semel.sinks.delta.session import DeltaSession
from semel.sinks.delta.sink import DeltaSink
from semel.testing.local_work import LocalWork
from tests.unit.sinks.local_work import ROWS, SOURCE, local_work, orders


@dataclass
class LocalTable:
    """A query over one source partition into a table."""

    folder: Path
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    options: dict[str, Any] = field(default_factory=dict)
    attempts: int = 1
    query_id: str = "q"
    pipeline: str = "to-delta"
    done: int = 0

    def sink(self) -> DeltaSink:
        return DeltaSink(self.folder, **self.options)

    def open(self) -> DeltaSession:
        """A new driver."""
        return self.sink().open(self.pipeline)

    def micro_batch(self, number: int) -> MicroBatch:
        return MicroBatch(
            pipeline=self.pipeline,
            query_id=self.query_id,
            id=number,
            guarantee=self.guarantee,
            offsets={SOURCE: (number + 1) * ROWS},
            offsets_before={SOURCE: number * ROWS},
            is_replay=True,
        )

    def write(
        self, session: DeltaSession, number: int, on_step: OnStep = ignore_step, work: LocalWork | None = None
    ) -> int:
        """One micro-batch."""
        chosen = work or local_work(orders(number * ROWS, (number + 1) * ROWS), attempts=self.attempts)
        return Commit(session=session, micro_batch=self.micro_batch(number), work=chosen, on_step=on_step).execute()

    def drive(self, micro_batches: int, on_step: OnStep = ignore_step) -> None:
        """One driver's life."""
        session = self.open()
        while self.done < micro_batches:
            self.write(session, self.done, on_step)
            self.done += 1

    def table(self) -> Any:
        return deltalake.DeltaTable(self.folder)

    def rows(self) -> pa.Table:
        """What a reader of the table sees."""
        return pa.table(self.table().to_pyarrow_dataset().to_table())

    def ids(self) -> list[int]:
        found: list[Any] = self.rows().column("id").to_pylist() if (self.folder / "_delta_log").exists() else []
        return sorted(found)

    def files(self) -> set[str]:
        """All Parquet files that lie there, named or not."""
        return {file.name for file in self.folder.rglob("*.parquet") if "_delta_log" not in file.parts}

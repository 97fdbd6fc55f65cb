"""A pipeline into a real PostgreSQL without Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import psycopg

from semel.guarantee import Guarantee
from semel.sinks.base import MicroBatch, OnStep, ignore_step
from semel.sinks.commit import Commit
from semel.sinks.postgres.session import PostgresSession
from semel.sinks.postgres.sink import PostgresSink
from semel.sinks.postgres.staging import staging_prefix
from semel.testing.local_work import LocalWork
from tests.unit.sinks.local_work import ROWS, SOURCE, local_work, orders

_numbers = count(1)


@dataclass
class LocalJob:
    """A query over one source partition, restarted as often as it dies."""

    dsn: str
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    options: dict[str, Any] = field(default_factory=dict)
    table: str = field(default_factory=lambda: f"orders_{next(_numbers)}")
    ddl: str = "id bigint PRIMARY KEY, note text"
    attempts: int = 1
    query_id: str = "q"
    topic_ids: dict[str, str] = field(default_factory=dict)
    done: int = 0

    def __post_init__(self) -> None:
        if self.ddl:
            self.execute(f"CREATE TABLE {self.table} ({self.ddl})")

    @property
    def pipeline(self) -> str:
        return f"to-{self.table}"

    def execute(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """One statement of somebody else's."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(sql.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def open(self) -> PostgresSession:
        """A new driver."""
        return PostgresSink(self.dsn, self.table, **self.options).open(self.pipeline)

    def micro_batch(self, number: int) -> MicroBatch:
        return MicroBatch(
            pipeline=self.pipeline,
            query_id=self.query_id,
            id=number,
            guarantee=self.guarantee,
            offsets={SOURCE: (number + 1) * ROWS},
            offsets_before={SOURCE: number * ROWS},
            is_replay=True,
            topic_ids=self.topic_ids,
        )

    def write(
        self,
        session: PostgresSession,
        number: int,
        on_step: OnStep = ignore_step,
        work: LocalWork | None = None,
    ) -> int:
        """One micro-batch."""
        chosen = work or local_work(orders(number * ROWS, (number + 1) * ROWS), attempts=self.attempts)
        return Commit(session=session, micro_batch=self.micro_batch(number), work=chosen, on_step=on_step).execute()

    def drive(self, micro_batches: int, on_step: OnStep = ignore_step) -> None:
        """One driver's life; if it is killed, its connections end with it."""
        session = self.open()
        try:
            while self.done < micro_batches:
                self.write(session, self.done, on_step)
                self.done += 1
        finally:
            session.let_go()

    def ids(self) -> list[int]:
        """What is in the table."""
        return [row[0] for row in self.execute(f"SELECT id FROM {self.table} ORDER BY id")]

    def staging(self) -> list[str]:
        """What lies about of this pipeline's."""
        prefix = staging_prefix(self.pipeline)
        found = self.execute("SELECT relname FROM pg_class WHERE starts_with(relname, %s)", prefix)
        return sorted(row[0] for row in found)

    def commits(self) -> list[tuple[int, int, int]]:
        """Numbers, micro-batches and rows, as the ledger's history has them."""
        found = self.execute(
            "SELECT number, micro_batch, rows FROM semel_commits WHERE pipeline = %s ORDER BY 1", self.pipeline
        )
        return [(row[0], row[1], row[2]) for row in found]

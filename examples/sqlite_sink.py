"""A sink of one's own: rows of a query into a SQLite table, exactly once. docs/guide/own-sink.md goes through it."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from uuid import uuid4

import pyarrow as pa

from semel.errors import FencedError, SinkError
from semel.guarantee import Guarantee
from semel.sinks.base import Attempts, Column, MicroBatch, Results, RowsAhead, Sink, SinkSession, Stage, Task, WritePlan
from semel.sinks.ledger import Ledger, from_text, ledger_after, to_text
from semel.sinks.recovery import Decision, Evidence, Situation, Words, decide

TABLES = """CREATE TABLE IF NOT EXISTS ledger (pipeline PRIMARY KEY, owner, said);
CREATE TABLE IF NOT EXISTS staging (attempt, key, value); CREATE TABLE IF NOT EXISTS output (key, value)"""
WORDS = Words(sink="SqliteSink", output="table")


def stage_rows(path: str, task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The work of a task: every attempt writes rows under its own number, and gives that as its result."""
    rows = [(task.attempt_id, *row.values()) for batch in batches for row in batch.to_pylist()]
    with sqlite3.connect(path) as connection:
        connection.executemany("INSERT INTO staging VALUES (?, ?, ?)", rows)
    yield pa.RecordBatch.from_pylist([{"attempt": task.attempt_id, "rows": len(rows)}])


class SqliteSession(SinkSession):
    """The driver's half: what the steps of a commit are made of."""

    def __init__(self, path: str, pipeline: str) -> None:
        self.path, self.pipeline, self.owner, self.owns = path, pipeline, uuid4().hex, False
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.executescript(TABLES)

    def kept(self) -> tuple[str | None, str | None]:
        look = "SELECT owner, said FROM ledger WHERE pipeline = ?"
        return self.connection.execute(look, (self.pipeline,)).fetchone() or (None, None)

    def own(self) -> None:
        if self.owns and self.kept()[0] != self.owner:
            raise FencedError("a newer driver has taken over", code=90)
        mine = "INSERT INTO ledger VALUES (?, ?, NULL) ON CONFLICT DO UPDATE SET owner = excluded.owner"
        self.owns = self.connection.execute(mine, (self.pipeline, self.owner)).rowcount == 1

    def read_ledger(self, micro_batch: MicroBatch) -> Ledger:
        self.read, self.guarantee = self.kept(), micro_batch.guarantee
        self.ledger = from_text(self.read[1]) if self.read[1] else Ledger()
        return self.ledger

    def decide(self, micro_batch: MicroBatch, *, is_stateful: bool, checkpoint: str) -> Decision:
        beside = Evidence(output_holds_records=bool(self.connection.execute("SELECT 1 FROM output").fetchone()))
        return decide(Situation(ledger=self.ledger, micro_batch=micro_batch, evidence=beside, targets=("output",),
                                is_stateful=is_stateful, checkpoint=checkpoint, words=WORDS))  # fmt: skip

    def plan_write(self, micro_batch: MicroBatch, rows: RowsAhead, *, run: int) -> WritePlan:
        stage = Stage(task=partial(stage_rows, self.path), gives="attempt long, rows long")
        return WritePlan(stages=(stage,), attempts=Attempts.ANY)

    def lock(self, *, is_checked: bool) -> None:
        self.connection.execute("BEGIN IMMEDIATE")  # nobody else writes from here on
        if is_checked and self.kept() != self.read:
            raise SinkError("another driver has owned or written the pipeline since its ledger was read")

    def prepare(self, results: Results) -> int:
        self.lock(is_checked=self.guarantee is Guarantee.EXACTLY_ONCE)
        for row in results:
            move = "INSERT INTO output SELECT key, value FROM staging WHERE attempt = ?"
            assert self.connection.execute(move, (row["attempt"],)).rowcount == row["rows"]
        self.connection.execute("DELETE FROM staging")
        if self.guarantee is not Guarantee.EXACTLY_ONCE:
            self.connection.commit()  # rows by themselves
        return sum(row["rows"] for row in results)

    def write_ledger(self, micro_batch: MicroBatch) -> None:
        if not self.connection.in_transaction:
            self.lock(is_checked=self.guarantee is not Guarantee.AT_LEAST_ONCE)  # the ledger by itself
        said = to_text(ledger_after(micro_batch, self.ledger, "output"))
        write = "INSERT INTO ledger VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET said = excluded.said"
        self.connection.execute(write, (self.pipeline, self.owner, said))

    def commit(self) -> None:
        self.connection.commit()

    def abort(self) -> None:
        self.connection.rollback()

    let_go = abort


class SqliteSink(Sink):
    """Where rows go: the table `output` of a database."""

    order_by = None

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def place(self) -> object:
        return self.path

    def check_columns(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        return tuple(column for column in columns if column.name in ("key", "value"))

    def open(self, pipeline: str, is_called_off: Callable[[], bool] = lambda: False) -> SqliteSession:
        return SqliteSession(self.path, pipeline)

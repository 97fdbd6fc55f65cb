"""The driver's half of the PostgreSQL sink: staged rows and the ledger's entry in one transaction for each micro-batch.

While tasks copy, the driver has no transaction open. Then one transaction locks the pipeline's row in the ledger, sees
that this driver still owns it and that nobody has committed since it was read, moves the staged rows into the table,
drops the staging, writes the ledger and commits. An answer to COMMIT that never comes is looked for in the ledger: the
row can be locked only once the old transaction has ended.

Keeps: E3, E11, E18 and E22 of docs/DESIGN.md.
"""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from semel.errors import ConfigError, FencedError, NoSpaceError, OutcomeUnknownError, SemelError, SinkError
from semel.guarantee import Guarantee
from semel.protocol.error_codes import ErrorCode
from semel.sinks.base import (
    KEPT_FOREVER,
    Attempts,
    Column,
    MicroBatch,
    Results,
    RowsAhead,
    Stage,
    StagedSession,
    WritePlan,
)
from semel.sinks.ledger import Ledger, under_name
from semel.sinks.postgres.connection import (
    IDLE_MS_MAX,
    LOCK_WAIT_MS_MAX,
    Line,
    RowsRefusedError,
    is_lost,
    library,
)
from semel.sinks.postgres.ledger import (
    Kept,
    Names,
    check_history,
    check_loaded,
    check_runs,
    forget_commits,
    has_commit,
    has_run,
    make_tables,
    note_commit,
    read_kept,
    write_kept,
)
from semel.sinks.postgres.rows import RESULT, StageRows
from semel.sinks.postgres.staging import (
    Move,
    drop_abandoned,
    drop_staging,
    find_abandoned,
    staging_prefix,
    unreadable_column,
)
from semel.sinks.postgres.table import Table, staging_type
from semel.sinks.recovery import Decision, Evidence, LedgerMissing, Plan, Situation, Words, decide
from semel.sinks.run_ids import check_kind

if TYPE_CHECKING:
    import psycopg

    from semel.sinks.postgres.sink import PostgresSink

# Each task has a connection, and its staging costs the moving transaction some locks.
TASKS_MAX = 64
# How a value is refused, by its SQLSTATE alone.
_IS_WITHOUT_PLACE = re.compile(r"\(22\w{3}\)$")


class PostgresSession(StagedSession):
    """One driver's hold on a pipeline in a database."""

    final = (ConfigError, RowsRefusedError, NoSpaceError)

    def __init__(self, sink: PostgresSink, pipeline: str, is_called_off: Callable[[], bool]) -> None:
        """Look the table up, and make semel's own where they are missing."""
        self.sink = sink
        self.pipeline = pipeline
        self._is_called_off = is_called_off
        self._line = Line(sink.address)
        # A query that is dropped without a word must not keep its connection.
        weakref.finalize(self, self._line.close)
        self._kept: Kept | None = None
        self._ledger = Ledger()
        self._holds_rows = False
        self._epoch = 0  # 0: this driver owns nothing yet
        self._has_run = False
        self._is_begun = False  # whether rows wait for the ledger's entry
        self._staged: dict[str, str] = {}  # columns in staging and their types
        self._has_unowned_staging = False  # whether this driver stages without owning the pipeline
        self._rows = 0
        self._number = 0  # of the entry that the open transaction writes
        with self._transaction("looking at the table") as connection:
            self.table: Table = sink.look_up(connection)
            self._names = Names(schema=self.table.schema)
            make_tables(connection, self._names)
            found = connection.execute("SELECT gen_random_uuid()::text").fetchone()
            assert found is not None
            self._owner = str(found[0])
        self._staging = self._owner
        self._expects = False  # whether rows were staged before

    # --- connections

    def _continued(self) -> psycopg.Connection[Any]:
        """The connection with the open transaction; never a new one, which would lack the rows."""
        connection = self._line.connection
        if connection is None or connection.info.transaction_status != library().pq.TransactionStatus.INTRANS:
            raise SinkError(f"pipeline {self.pipeline!r}: the transaction with its rows is gone")
        return connection

    @contextmanager
    def _said(self, what: str) -> Iterator[None]:
        """Turn an error of the database into one of semel's."""
        try:
            yield
        except library().Error as error:
            self._forget(error)
            raise self.sink.address.refusal(error, f"pipeline {self.pipeline!r}, {what}") from None

    @contextmanager
    def _transaction(self, what: str) -> Iterator[psycopg.Connection[Any]]:
        """A transaction of its own: all of it or nothing."""
        with self._said(what):
            connection = self._begun()
            try:
                yield connection
                connection.commit()
            except BaseException:
                with suppress(library().Error):
                    connection.rollback()
                raise

    def _begun(self) -> psycopg.Connection[Any]:
        """A connection with a new transaction; one that was lost since the last micro-batch is opened again.

        What an error of somebody else's left open is rolled back: it would be committed with the next thing that is.
        """
        self._roll_back()
        try:
            return self._limited(self._line.get())
        except library().Error as error:
            if not is_lost(error):
                raise
            self._line.close()
            return self._limited(self._line.get())

    def _limited(self, connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
        """Limit its waits, for this transaction alone: a pooler may give the next one another session."""
        connection.execute(
            "SELECT set_config('lock_timeout', %s, true), set_config('idle_in_transaction_session_timeout', %s, true)",
            (f"{LOCK_WAIT_MS_MAX}ms", f"{IDLE_MS_MAX}ms"),
        )
        return connection

    def _forget(self, error: Exception) -> None:
        if is_lost(error):
            self._line.close()

    # --- ownership

    def own(self) -> int:
        """Take the pipeline over; later calls only check that nobody else has. Drops old staging tables."""
        with self._transaction("taking the pipeline over") as connection:
            if self._epoch == 0:
                found = connection.execute(
                    self._names.sql(
                        # One statement: two drivers that start together get two epochs.
                        "INSERT INTO {ledger} AS kept (pipeline, owner_epoch, owner) VALUES (%s, 1, %s)"
                        " ON CONFLICT (pipeline) DO UPDATE SET owner_epoch = kept.owner_epoch + 1,"
                        " owner = EXCLUDED.owner RETURNING owner_epoch"
                    ).encode(),
                    (self.pipeline, self._owner),
                ).fetchone()
                assert found is not None
                epoch = int(found[0])
            else:
                self._check_owner(read_kept(connection, self._names, self.pipeline))
                epoch = self._epoch
            # Nobody but this pipeline's owner looks into its staging, and nothing else is staged now.
            drop_staging(
                connection,
                self.table.schema,
                staging_prefix(self.pipeline),
                but=self._prefix if self._expects else None,
            )
        self._epoch = epoch
        return epoch

    def _check_owner(self, kept: Kept | None) -> Kept:
        if kept is not None and kept.owner == self._owner:
            return kept
        raise FencedError(
            f"pipeline {self.pipeline!r}: a newer driver has taken over",
            code=ErrorCode.PRODUCER_FENCED,
            because="its row in the ledger names another owner now, or is gone; this driver writes nothing any more",
        )

    # --- the ledger

    def read_ledger(self, micro_batch: MicroBatch) -> Ledger:
        """The pipeline's row; of an empty ledger also whether the table has rows."""
        with self._transaction("reading the ledger") as connection:
            self.table = self.sink.look_up(connection)
            self._kept = read_kept(connection, self._names, self.pipeline)
            check_history(connection, self._names, self.pipeline, self._kept)
            check_loaded(self._names, self.pipeline, self._kept, self.table.oid)
            self._ledger = self._ledger_of(self._kept)
            # Asked only then: the answer reads from the table, and is needed only without a ledger.
            if self._ledger.is_empty and micro_batch.run is None:
                found = connection.execute(f"SELECT EXISTS (TABLE {self.table.sql})".encode()).fetchone()
                self._holds_rows = bool(found and found[0])
            if micro_batch.run is not None:
                self._has_run = self._look_for_run(connection, micro_batch)
                if not self._has_run and self.sink.ledger_missing is not LedgerMissing.RUN:
                    to_run = self.sink.words(ledger_missing=str(LedgerMissing.RUN))
                    check_runs(connection, self._names, self.pipeline, self._kept, to_run=to_run)
        check_kind(self._ledger.last, micro_batch)
        return self._ledger

    def _ledger_of(self, kept: Kept | None) -> Ledger:
        """What the row says, with the name that the table has now: a table of the same number was renamed."""
        return Ledger() if kept is None else under_name(kept.ledger, self._target, str(self.table.oid))

    def decide(self, micro_batch: MicroBatch, *, is_stateful: bool, checkpoint: str) -> Decision:
        """Hold the micro-batch against the ledger; a batch job's run against the commits."""
        if micro_batch.run is not None:
            plan = Plan.SKIP if self._has_run else Plan.RUN
            return Decision(action=plan, row="", reason=f"run {micro_batch.run.id!r} was written before")
        return decide(
            Situation(
                ledger=self._ledger,
                micro_batch=micro_batch,
                evidence=Evidence(
                    topic_ids=dict(micro_batch.topic_ids) | {self._target: str(self.table.oid)},
                    output_holds_records=self._holds_rows,
                    is_of_the_cluster=False,
                ),
                targets=(self._target,),
                is_stateful=is_stateful,
                ledger_missing=self.sink.ledger_missing,
                lost_state=self.sink.lost_state,
                checkpoint=checkpoint,
                words=self._words(),
            )
        )

    @property
    def _target(self) -> str:
        """How the ledger names the table; quoted, which no topic name is."""
        return self.table.sql

    def _words(self) -> Words:
        offsets: dict[str, dict[str, int]] = {}
        for partition, offset in sorted(self._ledger.offsets.items()):
            offsets.setdefault(partition.topic, {})[str(partition.partition)] = offset
        return Words(
            sink="PostgresSink",
            by_option=self.sink.by_option,
            output="table",
            forgetting="the row in semel_ledger may have been deleted or restored from a backup after the pipeline "
            "wrote, and then it would write again; or somebody else wrote there",
            falling_behind="the checkpoint has read more than the ledger knows of, as after a restore of the database "
            "from a backup. If semel's tables alone were restored, the output holds more than they say: restore it too",
            start_at_ledger=f".option(\"startingOffsets\", '{json.dumps(offsets)}') on the source",
        )

    def prepare_run(self, micro_batch: MicroBatch) -> int | None:
        """Refuse a batch job in a query's pipeline; commits are kept, so its run is remembered for good."""
        with self._transaction("reading the ledger") as connection:
            kept = read_kept(connection, self._names, self.pipeline)
            check_kind(None if kept is None else kept.ledger.last, micro_batch)
            self._look_for_run(connection, micro_batch)
        return KEPT_FOREVER

    def _look_for_run(self, connection: psycopg.Connection[Any], micro_batch: MicroBatch) -> bool:
        """Whether the run is in this table, as far as is known or chosen; refused when it is in another."""
        return has_run(
            connection,
            self._names,
            micro_batch,
            target=self._target,
            target_oid=self.table.oid,
            ledger_missing=self.sink.ledger_missing,
            words=self.sink.words,
        )

    # --- rows

    def begin(self) -> None:
        """Rows wait in staging until the ledger's entry is there; the database is not asked for anything yet."""
        self._is_begun = True

    def plan_write(self, micro_batch: MicroBatch, rows: RowsAhead, *, run: int) -> WritePlan:
        """One stage of tasks that copy; any attempt may, since each has a table of its own."""
        work = self.staging_task(rows.columns, self._staging)
        self._staged = dict(work.columns)
        self._has_unowned_staging = micro_batch.guarantee is Guarantee.AT_LEAST_ONCE
        stage = Stage(task=work, gives=RESULT, tasks=rows.writers(TASKS_MAX))
        return WritePlan(
            stages=(stage,), attempts=Attempts.ANY, row_bytes_max=self.take_row_bytes_max(micro_batch, rows, run=run)
        )

    def staging_task(self, columns: Sequence[Column], staging: str) -> StageRows:
        """Copy into tables of the attempts, by the table as it was read last."""
        self.sink.check_table(self.table, columns)
        return StageRows(
            address=self.sink.address,
            table=self.sink.table,
            schema=self.table.schema,
            prefix=staging_prefix(self.pipeline, staging),
            columns=tuple((column.name, staging_type(column)) for column in columns),
        )

    @property
    def _prefix(self) -> str:
        """What the names of this driver's staging tables begin with."""
        return staging_prefix(self.pipeline, self._staging)

    def expect(self, staging: str) -> None:
        """The staging of another process's job is this driver's own from here on."""
        self._staging, self._expects = staging, True

    def drop(self, staging: str) -> None:
        """Drop the tables: rows that were moved are not in them any more."""
        with self._transaction("dropping rows that are not needed") as connection:
            drop_staging(connection, self.table.schema, staging_prefix(self.pipeline, staging))

    def prepare(self, results: Results) -> int:
        """Move what the tasks staged; outside a transaction that is the commit of the rows."""
        staged = {str(row["staging"]): int(row["records"]) for row in results}
        self._rows = sum(staged.values())
        self.row_bytes_max = max((int(row["row_bytes_max"]) for row in results), default=0)
        try:
            if self._is_begun:
                with self._said(self._moving):
                    self._move(self._locked(), staged)
            elif staged:
                with self._transaction(self._moving) as connection:
                    self._move(connection, staged)
        except RowsRefusedError as error:
            raise self._naming_column(error, staged) from None
        return self._rows

    @property
    def _moving(self) -> str:
        return f"moving rows into the table {self.sink.table}"

    def _naming_column(self, error: RowsRefusedError, staged: dict[str, int]) -> RowsRefusedError:
        """The error with the column whose text cannot be read, where the server has named none."""
        if not _IS_WITHOUT_PLACE.search(error.summary):
            return error
        # What is staged is still there: the transaction that failed would have dropped it.
        with suppress(SemelError), self._transaction("looking for the column") as connection:
            column = unreadable_column(connection, self._to_move(staged))
            if column is not None:
                return RowsRefusedError(
                    f"{error.summary}, column {column}", because=error.because, you_want=error.you_want
                )
        return error

    def _locked(self) -> psycopg.Connection[Any]:
        """Lock the pipeline's row; refused if somebody has committed since the ledger was read (E11)."""
        connection = self._begun()
        kept = self._check_owner(read_kept(connection, self._names, self.pipeline, lock=True))
        # Read before the tasks ran. If somebody has committed since, these rows were planned on an old ledger.
        if self._kept is None or kept.number != self._kept.number:
            raise SinkError(f"pipeline {self.pipeline!r}: the ledger has moved on since it was read")
        return connection

    def _to_move(self, staged: dict[str, int]) -> Move:
        sink = self.sink
        return Move(
            table=self.table,
            staged=staged,
            types=self._staged,
            key=sink.key,
            order_by=sink.order_by,
            delete_by=sink.delete_by,
            an_order=sink.words(order_by="…"),
        )

    def _move(self, connection: psycopg.Connection[Any], staged: dict[str, int]) -> None:
        self._to_move(staged).carry_out(connection, f"pipeline {self.pipeline!r}, {self._moving}")
        if self._expects:
            # The job is over. What attempts of it left that do not count would wait for the next owner.
            drop_staging(connection, self.table.schema, self._prefix)

    # --- the end

    def write_ledger(self, micro_batch: MicroBatch) -> None:
        """Write entry and commit into the transaction that has the rows; at most once has none yet."""
        with self._said("writing the ledger"):
            if not self._is_begun:
                self._rows = 0
                self._locked()
            self._number = self._write(self._continued(), micro_batch)

    def _write(self, connection: psycopg.Connection[Any], micro_batch: MicroBatch) -> int:
        entry, held = write_kept(
            connection, self._names, micro_batch, self._ledger, target=self._target, target_oid=self.table.oid
        )
        note_commit(
            connection,
            self._names,
            entry,
            pipeline=self.pipeline,
            target_oid=self.table.oid,
            held=held,
            rows=self._rows,
            epoch=self._epoch,
        )
        if self.sink.commits_kept_days is not None:
            forget_commits(connection, self._names, self.pipeline, self.sink.commits_kept_days)
        return entry.number

    def commit(self) -> None:
        """Make rows and entry visible; when the answer is lost, the ledger says whether they are."""
        # First: whatever becomes of the commit, these rows are no longer waiting.
        self._is_begun = False
        connection = self._continued()
        try:
            connection.commit()
        except library().Error as error:
            self._forget(error)
            if not is_lost(error):
                raise self.sink.address.refusal(error, f"pipeline {self.pipeline!r}, committing") from None
            self._look(error)

    def _look(self, error: Exception) -> None:
        """Wait for the lock that the lost transaction had, then read what it left."""
        told = self.sink.address.told(error)
        try:
            with self._transaction("looking for the outcome of a commit") as connection:
                # The lock is free only when the lost transaction has ended, one way or the other.
                read_kept(connection, self._names, self.pipeline, lock=True)
                is_there = has_commit(connection, self._names, self.pipeline, self._number, self._epoch)
        except SemelError as second:
            raise OutcomeUnknownError(
                f"pipeline {self.pipeline!r}: nobody knows whether its last micro-batch was committed",
                because=f"{told}; then {second.summary}",
                you_want="start the query again from the same checkpoint: the ledger in the database decides",
            ) from error
        if not is_there:
            raise SinkError(f"pipeline {self.pipeline!r}: the commit did not happen", because=told) from error

    def abort(self) -> None:
        """Roll back; a connection that is lost has done so by itself."""
        self._is_begun = False
        self._roll_back()

    def _roll_back(self) -> None:
        connection = self._line.connection
        if connection is not None:
            try:
                connection.rollback()
            except library().Error:
                self._line.close()

    def let_go(self) -> None:
        """Close the connection: what is open is rolled back, and its locks are free.

        Rows that were staged at least once and never moved are dropped before. This driver alone knows at once that
        nobody needs them: the next one owns nothing either, and leaves them for a day.
        """
        if self._has_unowned_staging and self._line.is_open:
            self._has_unowned_staging = False
            with suppress(SemelError):
                self.drop(self._staging)
        self._line.close()

    def commit_ledger(self, micro_batch: MicroBatch) -> None:
        """For at least once: the entry alone, whoever owns the pipeline. Then drops what other drivers left."""
        schema = self.table.schema
        with self._transaction("writing the ledger") as connection:
            connection.execute(
                self._names.sql(
                    "INSERT INTO {ledger} (pipeline, owner_epoch, owner) VALUES (%s, 0, %s) ON CONFLICT DO NOTHING"
                ).encode(),
                (self.pipeline, self._owner),
            )
            kept = read_kept(connection, self._names, self.pipeline, lock=True)
            self._ledger = self._ledger_of(kept)
            self._write(connection, micro_batch)
            drop_staging(connection, schema, self._prefix)
            abandoned = find_abandoned(connection, schema, staging_prefix(self.pipeline), but=self._prefix)
        self._has_unowned_staging = False
        # By themselves: rows and entry are there, whatever becomes of these, and no other driver waits for a long look
        # at one of them, neither for the pipeline's row nor for a table of its own.
        with suppress(SemelError):
            for one in abandoned:
                with self._transaction("dropping what other drivers left") as connection:
                    drop_abandoned(connection, schema, one)

"""The ledger of a pipeline in PostgreSQL: one row in `semel_ledger`, and one in `semel_commits` for every commit.

Both lie in the schema of the output table and change in the transaction that moves the rows. The row of a pipeline says
who owns it, who committed last, and what the output holds of each source partition. It also has the numbers that
PostgreSQL gave to the output table and to the ledger itself: an output that was dropped and made again has another
number, unless the ledger has another one too, because a dump of the whole database was loaded. The row of a commit has
both numbers as well, since a batch job's run is remembered by it alone, also after its table was renamed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from semel.errors import ConfigError, OutcomeUnknownError, SinkError
from semel.sinks.base import MicroBatch
from semel.sinks.ledger import Entry, Home, Ledger, held_from_list, held_to_list, ledger_after
from semel.sinks.postgres.connection import library, quoted
from semel.sinks.recovery import LedgerMissing
from semel.sinks.run_ids import QUERY_PREFIX, written_elsewhere

if TYPE_CHECKING:
    import psycopg

LEDGER, COMMITS = "semel_ledger", "semel_commits"
# CREATE … IF NOT EXISTS of two sessions at once may fail; the number is any that others do not use.
_ONE_MAKER = "SELECT pg_advisory_xact_lock(7365277)"
_MAKE = (
    """CREATE TABLE IF NOT EXISTS {ledger} (
    pipeline text PRIMARY KEY,
    owner_epoch bigint NOT NULL,
    owner uuid NOT NULL,
    number bigint NOT NULL DEFAULT 0,
    query_id text,
    micro_batch bigint,
    target text,
    target_oid oid,
    ledger_oid oid,
    held jsonb,
    end_digest text,
    committed_at timestamptz)""",
    """CREATE TABLE IF NOT EXISTS {commits} (
    pipeline text NOT NULL,
    number bigint NOT NULL,
    query_id text NOT NULL,
    micro_batch bigint NOT NULL,
    owner_epoch bigint NOT NULL,
    target text NOT NULL,
    target_oid oid,
    ledger_oid oid,
    rows bigint NOT NULL,
    held jsonb NOT NULL,
    began_at timestamptz NOT NULL,
    committed_at timestamptz NOT NULL,
    PRIMARY KEY (pipeline, number))""",
    "CREATE INDEX IF NOT EXISTS semel_commits_query ON {commits} (pipeline, query_id)",
    "COMMENT ON TABLE {ledger} IS 'semel ledger, version 1'",
)
_VERSION = "semel ledger, version 1"
# Tables that were made before semel kept these numbers get the columns. For their older lines the target's name counts.
_ADD = "ALTER TABLE {commits} ADD COLUMN IF NOT EXISTS target_oid oid, ADD COLUMN IF NOT EXISTS ledger_oid oid"
_HAS_NUMBERS = "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = ANY(%s)"
_NUMBERS = ["target_oid", "ledger_oid"]
# ALTER TABLE waits for everybody who has looked at the table, and whoever comes later waits behind it.
ADD_WAIT_MS_MAX = 2_000
_USERS = (
    "SELECT DISTINCT application_name, pid FROM pg_locks JOIN pg_stat_activity USING (pid)"
    " WHERE relation = to_regclass(%s) AND granted AND datname = current_database() AND pid <> pg_backend_pid()"
)
_READ = (
    "SELECT owner_epoch, owner::text, number, query_id, micro_batch, target, target_oid,"
    " ledger_oid = '{ledger_text}'::regclass, held, end_digest FROM {ledger} WHERE pipeline = %s"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The row of a pipeline as it stands in the table."""

    owner_epoch: int
    owner: str
    number: int
    ledger: Ledger
    loaded_beside: int | None = None
    """The number of the output table that the row names, if the ledger itself was loaded from a dump since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """semel's tables, in the schema of the output."""

    schema: str

    @property
    def ledger(self) -> str:
        """The ledger, in a statement."""
        return f"{quoted(self.schema)}.{LEDGER}"

    @property
    def commits(self) -> str:
        """The commits, in a statement."""
        return f"{quoted(self.schema)}.{COMMITS}"

    @property
    def ledger_text(self) -> str:
        """The ledger, inside a literal of a statement."""
        return self.ledger.replace("'", "''")

    def sql(self, text: str) -> str:
        """A statement with the names put in."""
        # Statements are given parameters, so a percent sign in a name is written twice.
        names = {"ledger": self.ledger, "commits": self.commits, "ledger_text": self.ledger_text}
        return text.format(**{name: one.replace("%", "%%") for name, one in names.items()})


def make_tables(connection: psycopg.Connection[Any], names: Names) -> None:
    """Make what is not there; a user without the right to make tables can work with those that are."""
    if not _has_tables(connection, names):
        connection.execute(_ONE_MAKER)
        if not _has_tables(connection, names):  # the driver that had the lock before may have made them
            for statement in _MAKE:
                connection.execute(names.sql(statement).encode(), ())
    found = connection.execute(_HAS_NUMBERS, (names.commits, _NUMBERS)).fetchone()
    if found is not None and found[0] < len(_NUMBERS):
        _add_numbers(connection, names)


def _add_numbers(connection: psycopg.Connection[Any], names: Names) -> None:
    """Add the columns to a table that an older semel made; the start is refused where that cannot be done.

    Why: without the columns a driver could go on, but a run that it notes could never be told from one that went into
    another table of the same name (E19), and writing and reading lines would have two forms each.
    """
    add = _ADD.format(commits=names.commits)
    lacks = f"the table {names.commits} lacks columns that this version of semel needs"
    errors = library().errors
    try:
        with connection.transaction():
            # For the rest of the transaction, which waits for nothing else.
            connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{ADD_WAIT_MS_MAX}ms",))
            connection.execute(add.encode())
    except errors.InsufficientPrivilege:
        look = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = to_regclass(%s)"
        owner = connection.execute(look, (names.commits,)).fetchone()
        raise ConfigError(
            f"{lacks}, and this user may not add them",
            because="an older version made it, and PostgreSQL lets nobody but a table's owner add columns",
            you_want=f"this statement, once, by its owner, {owner[0] if owner else 'whoever that is'}",
            next_command=add,
        ) from None
    except errors.LockNotAvailable:
        users = ", ".join(f"{name or 'no name'} ({pid})" for name, pid in connection.execute(_USERS, (names.commits,)))
        raise SinkError(
            f"{lacks}, and they cannot be added while others use it",
            because=f"open transactions have it locked, here with their process ids: {users or 'they have ended now'}",
            you_want="to start again when these are done",
        ) from None


def _has_tables(connection: psycopg.Connection[Any], names: Names) -> bool:
    """Whether both are there; tables of these names that another version made, or somebody else, are refused."""
    look = "SELECT to_regclass(%s), to_regclass(%s), obj_description(to_regclass(%s), 'pg_class')"
    found = connection.execute(look, (names.ledger, names.commits, names.ledger)).fetchone()
    assert found is not None, "a SELECT without FROM has one row"
    ledger, commits, comment = found
    if ledger is not None and comment != _VERSION:
        raise ConfigError(
            f"the table {names.ledger} is not one that this semel knows",
            because=f"its comment is {comment!r}, and should be {_VERSION!r}",
            you_want="the version of semel that made it; or, if it is not semel's, another schema for the output",
        )
    return ledger is not None and commits is not None


def read_kept(connection: psycopg.Connection[Any], names: Names, pipeline: str, *, lock: bool = False) -> Kept | None:
    """The row of a pipeline; with `lock`, nobody else changes it before this transaction ends."""
    text = names.sql(_READ) + (" FOR UPDATE" if lock else "")
    row = connection.execute(text.encode(), (pipeline,)).fetchone()
    if row is None:
        return None
    epoch, owner, number, query_id, micro_batch, target, target_oid, is_same_ledger, held, digest = row
    # The row was made by `own`; nothing is committed yet.
    if query_id is None:
        return Kept(owner_epoch=epoch, owner=owner, number=number, ledger=Ledger())
    entry = Entry(
        query_id=query_id, micro_batch_id=micro_batch, number=number, targets=(target,), end_digest=digest or ""
    )
    # With another number of the ledger a dump was loaded, and numbers of tables mean nothing any more.
    home = Home(output_ids={target: str(target_oid)} if is_same_ledger and target_oid else {})
    return Kept(
        owner_epoch=epoch,
        owner=owner,
        number=number,
        ledger=Ledger(last=entry, held=held_from_list(held), home=home),
        loaded_beside=None if is_same_ledger else target_oid,
    )


def check_history(connection: psycopg.Connection[Any], names: Names, pipeline: str, kept: Kept | None) -> None:
    """Refuse a ledger that is older than its own history: it was emptied or restored by itself."""
    look = names.sql("SELECT max(number) FROM {commits} WHERE pipeline = %s")
    found = connection.execute(look.encode(), (pipeline,)).fetchone()
    newest, number = (found[0] if found else None) or 0, 0 if kept is None else kept.number
    if newest <= number:
        return
    raise OutcomeUnknownError(
        f"pipeline {pipeline!r}: the ledger is at commit {number}, its history at {newest}",
        because="the one was emptied, changed or restored without the other, so the table may hold more than the "
        "ledger says",
        you_want="if the table still has the rows of all commits, the ledger as its history has it, by this statement; "
        "else table, semel_ledger and semel_commits from one backup",
        next_command=_bring_up(names, pipeline, newest),
    )


def check_loaded(names: Names, pipeline: str, kept: Kept | None, table_oid: int) -> None:
    """Refuse a ledger that was loaded from a dump beside a table that was not."""
    if kept is None or kept.loaded_beside != table_oid:
        return
    text = pipeline.replace("'", "''")
    raise OutcomeUnknownError(
        f"pipeline {pipeline!r}: the ledger was loaded from a dump, and its table is still the one from before",
        because="the table may hold more than the ledger of the dump says, and that would be written again",
        you_want="table, semel_ledger and semel_commits from one dump; or, if you have seen that the table holds what "
        "the ledger says and no more, this statement",
        next_command=f"UPDATE {names.ledger} SET ledger_oid = '{names.ledger_text}'::regclass"  # noqa: S608
        f" WHERE pipeline = '{text}'",
    )


def _bring_up(names: Names, pipeline: str, number: int) -> str:
    """The statement with which an operator takes the ledger from its history."""
    text = pipeline.replace("'", "''")
    return (
        f"UPDATE {names.ledger} l SET number = c.number, query_id = c.query_id, micro_batch = c.micro_batch,"  # noqa: S608
        f" target = c.target, held = c.held, committed_at = c.committed_at, target_oid = to_regclass(c.target),"
        f" ledger_oid = '{names.ledger_text}'::regclass FROM {names.commits} c"
        f" WHERE l.pipeline = c.pipeline AND c.pipeline = '{text}' AND c.number = {number}"
    )


def write_kept(
    connection: psycopg.Connection[Any],
    names: Names,
    micro_batch: MicroBatch,
    ledger: Ledger,
    *,
    target: str,
    target_oid: int,
) -> tuple[Entry, str]:
    """Move the pipeline's row on; gives the new entry, and what is held as it was written."""
    after = ledger_after(micro_batch, ledger, target)
    entry, held = after.last, json.dumps(held_to_list(after.held))
    assert entry is not None, "a micro-batch leaves an entry"
    connection.execute(
        names.sql(
            "UPDATE {ledger} SET number = %s, query_id = %s, micro_batch = %s, target = %s, target_oid = %s,"
            " ledger_oid = '{ledger_text}'::regclass, held = %s, end_digest = %s, committed_at = now()"
            " WHERE pipeline = %s"
        ).encode(),
        (
            entry.number,
            entry.query_id,
            entry.micro_batch_id,
            target,
            target_oid,
            held,
            entry.end_digest,
            micro_batch.pipeline,
        ),
    )
    return entry, held


def note_commit(
    connection: psycopg.Connection[Any],
    names: Names,
    entry: Entry,
    *,
    pipeline: str,
    target_oid: int,
    held: str,
    rows: int,
    epoch: int,
) -> None:
    """Add the line that an audit reads, and that remembers the run of a batch job."""
    connection.execute(
        names.sql(
            "INSERT INTO {commits} (pipeline, number, query_id, micro_batch, owner_epoch, target, target_oid,"
            " ledger_oid, rows, held, began_at, committed_at)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, '{ledger_text}'::regclass, %s, %s, now(), clock_timestamp())"
        ).encode(),
        (pipeline, entry.number, entry.query_id, entry.micro_batch_id, epoch, entry.targets[0], target_oid, rows, held),
    )


def forget_commits(connection: psycopg.Connection[Any], names: Names, pipeline: str, days: int) -> None:
    """Remove the lines of a query that are older; runs of batch jobs are found by theirs, so these are kept."""
    connection.execute(
        names.sql(
            "DELETE FROM {commits} WHERE pipeline = %s AND committed_at < now() - make_interval(days => %s)"
            " AND NOT starts_with(query_id, %s)"
        ).encode(),
        (pipeline, days, QUERY_PREFIX),
    )


def has_commit(connection: psycopg.Connection[Any], names: Names, pipeline: str, number: int, epoch: int) -> bool:
    """Whether this owner's commit with this number is there."""
    text = names.sql("SELECT 1 FROM {commits} WHERE pipeline = %s AND number = %s AND owner_epoch = %s")
    return connection.execute(text.encode(), (pipeline, number, epoch)).fetchone() is not None


def check_runs(
    connection: psycopg.Connection[Any], names: Names, pipeline: str, kept: Kept | None, *, to_run: str
) -> None:
    """Refuse a batch job when runs were removed from the history: this one may be among them."""
    look = names.sql("SELECT count(*) FROM {commits} WHERE pipeline = %s")
    found = connection.execute(look.encode(), (pipeline,)).fetchone()
    there, number = int(found[0]) if found else 0, 0 if kept is None else kept.number
    # Commits of runs are never forgotten, so there are as many as the ledger has counted.
    if there < number:
        raise OutcomeUnknownError(
            f"pipeline {pipeline!r} has written {number} runs, and {names.commits} knows {there} of them",
            because="runs are remembered there alone, so a run that was removed would be written again",
            you_want="the rows of semel_commits from a backup; or another pipeline name for runs that are new; or, if "
            f"you have seen that the table does not have this run, {to_run} for this job",
        )


def has_run(
    connection: psycopg.Connection[Any],
    names: Names,
    micro_batch: MicroBatch,
    *,
    target: str,
    target_oid: int,
    ledger_missing: LedgerMissing,
    words: Callable[..., str],
) -> bool:
    """Whether a batch job's run is in this table; ConfigError when it went into another and nobody has chosen."""
    look = "SELECT target, target_oid, ledger_oid = '{ledger_text}'::regclass FROM {commits}"
    text = names.sql(look) + " WHERE pipeline = %s AND query_id = %s ORDER BY number"
    is_known, written, written_oid = False, "", None
    for written, written_oid, is_same_ledger in connection.execute(
        text.encode(), (micro_batch.pipeline, micro_batch.query_id)
    ):
        # With another number of the ledger a dump was loaded, and numbers of tables mean nothing any more.
        is_known = bool(is_same_ledger and written_oid)
        # A run has more lines than one if somebody let it be written again, into another table.
        if written_oid == target_oid if is_known else written == target:
            return True
    if not written:
        return False
    if not is_known:
        raise written_elsewhere(
            micro_batch,
            f"the table {written}",
            target,
            or_else="; or, if you know that the table was renamed, this statement",
            next_command=_name_anew(names, micro_batch.pipeline, written, target),
        )
    statement = _move_runs(names, micro_batch.pipeline, written_oid, target)
    if written != target:
        raise written_elsewhere(
            micro_batch, f"the table {written}", target, or_else=f"; or, {_IF_COPIED}", next_command=statement
        )
    match ledger_missing:
        case LedgerMissing.RUN:
            return False
        case LedgerMissing.SKIP:
            return True
        case LedgerMissing.STOP:
            raise _table_replaced(micro_batch, written, words, statement)


def _table_replaced(micro_batch: MicroBatch, written: str, words: Callable[..., str], statement: str) -> ConfigError:
    """Why a run is neither skipped nor run when another table has the name of the one that it went to.

    No other name for pipeline or run is offered: under it the run would be written beside the rows that a copy has.
    """
    assert micro_batch.run is not None, "runs alone are looked for"
    run, skip = (words(ledger_missing=str(one)) for one in (LedgerMissing.RUN, LedgerMissing.SKIP))
    return ConfigError(
        f"run {micro_batch.run.id!r} of pipeline {micro_batch.pipeline!r} was written to a table {written} that was "
        "dropped or renamed since, and this sink writes to the one that has its name now",
        because="nobody can tell whether that one has the run: skipped, it could be missing there; run, it could be "
        "there twice",
        you_want=f"{_IF_COPIED}, or {skip} for this job; if you know that it has none of them, {run} for this job",
        next_command=statement,
    )


_IF_COPIED = "if you know that this table has the rows of that one, as after a copy, this statement"


def _move_runs(names: Names, pipeline: str, written_oid: int | None, target: str) -> str:
    """The statement with which an operator says that the rows of one table are in another."""
    name, new = (text.replace("'", "''") for text in (pipeline, target))
    return (
        f"UPDATE {names.commits} SET target = '{new}', target_oid = '{new}'::regclass"  # noqa: S608
        f" WHERE pipeline = '{name}' AND target_oid = {written_oid} AND ledger_oid = '{names.ledger_text}'::regclass"
    )


def _name_anew(names: Names, pipeline: str, written: str, target: str) -> str:
    """The statement with which an operator says that a table was renamed."""
    name, old, new = (text.replace("'", "''") for text in (pipeline, written, target))
    return f"UPDATE {names.commits} SET target = '{new}' WHERE pipeline = '{name}' AND target = '{old}'"  # noqa: S608

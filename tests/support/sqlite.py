"""A look into an SQLite file from beside whoever uses it."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any


def ask(path: Path | str, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """Run one statement, committed at once."""
    with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
        return connection.execute(sql, parameters).fetchall()

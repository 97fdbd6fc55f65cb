"""Runs cells with the sink of `tests.support.mistaken_sinks` in place of Delta's, and prints a line of JSON for each.

Each cell that a mistake is found by is run with that mistake, and without any. In a process of its own: in these cells
Spark tries tasks again, which the session that tests share does not.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

from examples import sqlite_sink
from semel.drill import spark_cells
from semel.drill.cells import chosen_cells, judge
from semel.drill.spark_cells import SparkCells
from semel.drill.spark_targets import COLUMNS, Target
from semel.drill.spark_ways import DELTA
from tests.support.mistaken_sinks import MISTAKES, MistakenSink

SEED = 1
Session = type[sqlite_sink.SqliteSession]


def found(path: str) -> Counter[str]:
    connection = sqlite3.connect(path)
    try:
        connection.executescript(sqlite_sink.TABLES)
        return Counter(str(value) for (value,) in connection.execute("SELECT value FROM output"))
    finally:
        connection.close()


def target_of(session: Session, _: str, place: str, __: int) -> Target:
    path = str(Path(place) / "output.db")
    return Target(name="results", place=path, sink=partial(MistakenSink, path, session), found=partial(found, path))


def verdict_of(cells: SparkCells, session: Session, name: str, folder: Path) -> tuple[str, str]:
    setattr(spark_cells, "new_target", partial(target_of, session))  # noqa: B010  (not exported: replaced where it is used)
    (cell,) = chosen_cells([name])
    observed = cells.run(cell, SEED, folder)
    verdict, why = judge(cell.way.guarantee, observed, cell.certain)
    return verdict.value, why or "; ".join(observed.errors)


def main() -> None:
    runs: list[tuple[str, Session, str]] = [(one.name, one.session, one.cell) for one in MISTAKES]
    for cell in sorted({one.cell for one in MISTAKES}):
        runs.append(("", sqlite_sink.SqliteSession, cell))
    COLUMNS[DELTA] = ("string(key) AS key", "string(value) AS value")
    with tempfile.TemporaryDirectory() as scratch, SparkCells(Path(scratch, "cells")) as cells:
        for number, (mistake, session, name) in enumerate(runs):
            folder = Path(scratch, str(number))
            folder.mkdir()
            told = (mistake, name, *verdict_of(cells, session, name, folder))
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

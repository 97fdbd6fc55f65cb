"""Ten million rows in one micro-batch into PostgreSQL and into a Delta table, each Python worker held to 512 MB.

The kernel holds the workers to it; executors and driver have JVM heaps of 512 MB each. The driver's Python process must
not need more for ten million rows than for one. What every process held at most is printed:

    make soak PYTEST_ARGS=tests/spark/test_table_memory.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import deltalake
import psycopg
import pytest

from semel.engine.postgres import PostgresServer
from tests.spark.limited_daemon import DATA_BYTES_MAX
from tests.spark.matrix.cells import LOCAL_CLUSTER
from tests.spark.matrix.drivers import SHOWN_CHARACTERS_MAX, kill_group
from tests.spark.process_memory import MemoryWatch, Process
from tests.support.postgres import started

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("table_memory_program.py")
DAEMON = "tests.spark.limited_daemon"
FEW, MANY = 1_000_000, 10_000_000
DRIVER_GROWTH_MB_MAX = 32
WRITE_S_MAX = 900
pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


def written(sink: str, rows: int, table: str, dsn: str, folder: Path) -> MemoryWatch:
    """Write so many rows with a driver of its own, and look at all its processes."""
    folder.mkdir()
    given = {
        "sink": sink,
        "rows": rows,
        "table": table,
        "dsn": dsn,
        "folder": str(folder),
        "daemon": DAEMON,
        "master": LOCAL_CLUSTER,
    }
    with (folder / "driver.log").open("wb") as log:
        driver = subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps(given)],
            start_new_session=True,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        )
    try:
        with MemoryWatch(driver.pid) as watch:
            ended = driver.wait(WRITE_S_MAX)
    finally:
        kill_group(driver)
    assert ended == 0, (folder / "driver.log").read_text(errors="replace")[-SHOWN_CHARACTERS_MAX:]
    assert [one.name for one in (folder / "checkpoint" / "commits").glob("[0-9]*")] == ["0"], "one micro-batch"
    return watch


def count_in(server: PostgresServer, table: str) -> tuple[int, int]:
    """Rows, and different numbers among them."""
    with psycopg.connect(server.conninfo) as connection:
        found = connection.execute(f"SELECT count(*), count(DISTINCT id) FROM {table}".encode()).fetchone()
    assert found is not None
    return found[0], found[1]


def show(request: pytest.FixtureRequest, title: str, found: list[Process]) -> None:
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        sys.stdout.write(f"\n{title}: {', '.join(str(one.peak_mb) for one in found)} MB")


def check(request: pytest.FixtureRequest, sink: str, watches: dict[int, MemoryWatch]) -> None:
    """Workers stay below their limit, and the driver does not grow with the rows."""
    drivers: dict[int, int] = {}
    for rows, watch in watches.items():
        workers, own = watch.having(DAEMON), watch.having(str(PROGRAM))
        show(request, f"{sink}, {rows} rows: Python workers", workers)
        show(request, f"{sink}, {rows} rows: driver", own)
        show(request, f"{sink}, {rows} rows: JVMs", watch.running("java"))
        assert {one.data_bytes_max for one in workers} == {DATA_BYTES_MAX}
        assert workers[0].peak_mb < DATA_BYTES_MAX >> 20
        drivers[rows] = own[0].peak_mb
    assert drivers[MANY] - drivers[FEW] < DRIVER_GROWTH_MB_MAX


def test_ten_million_rows_into_postgres(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    server = started()
    try:
        watches: dict[int, MemoryWatch] = {}
        for rows in (FEW, MANY):
            table = f"rows_{rows}"
            with psycopg.connect(server.conninfo, autocommit=True) as connection:
                connection.execute(f"CREATE TABLE {table} (id bigint, note text)".encode())
            watches[rows] = written("postgres", rows, table, server.conninfo, tmp_path / str(rows))
            assert count_in(server, table) == (rows, rows)
    finally:
        server.stop()
    check(request, "PostgreSQL", watches)


def test_ten_million_rows_into_a_delta_table(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    watches: dict[int, MemoryWatch] = {}
    for rows in (FEW, MANY):
        table = tmp_path / f"table-{rows}"
        watches[rows] = written("delta", rows, str(table), "", tmp_path / str(rows))
        assert deltalake.DeltaTable(table).count() == rows
    check(request, "Delta", watches)

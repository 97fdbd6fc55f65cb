"""M26, M27: the same faults through `foreachBatch` with Spark's JDBC writer or `write_deltalake`, and through semel.

Make the table of the guides with

    .venv/bin/python -m pytest tests/spark/formats/test_by_hand.py

What is doubled by hand is what at least once means: those writers have nowhere to keep what they have written.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import semel
from semel.engine.postgres import PostgresServer
from tests.spark.formats.writers import (
    BY_HAND,
    DELTA,
    IN_DRIVER,
    IN_TASKS,
    JDBC,
    NUMBERS,
    POSTGRES,
    Copy,
    add_jdbc_driver,
)
from tests.spark.sink_jobs import fill, new_topics, outcome_of

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]
PROGRAM, ROOT = Path(__file__).with_name("killed_driver.py"), Path(__file__).resolve().parents[3]
WRITERS = (JDBC, POSTGRES, IN_DRIVER, IN_TASKS, DELTA)
DRIVER_S_MAX = 500
KILLED, TASK_FAILS = "the driver is killed between rows and commit log", "a task fails near its end"


@pytest.fixture(scope="module")
def doubled(request: pytest.FixtureRequest) -> Iterator[dict[tuple[str, str], int]]:
    """Filled by the tests, printed when they are done."""
    found: dict[tuple[str, str], int] = {}
    yield found
    head = ["| fault | writer | rows lost | rows twice |", "|---|---|---|---|"]
    lines = [f"| {fault} | {writer} | 0 | {rows} |" for (fault, writer), rows in found.items()]
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        sys.stdout.write("\n".join(["", *head, *lines, ""]))


@pytest.fixture
def copies(cluster: semel.Cluster, postgres: PostgresServer, tmp_path: Path) -> list[Copy]:
    (topic,) = new_topics(cluster.bootstrap, 2)
    fill(cluster.bootstrap, topic, NUMBERS, partitions=2)
    given = {"bootstrap": cluster.bootstrap, "topic": topic, "dsn": postgres.conninfo, "folder": str(tmp_path)}
    return [Copy(writer=writer, **given) for writer in WRITERS]


def count(copy: Copy) -> int:
    """How many rows are more than one of their number; none may be missing."""
    found = copy.numbers()
    assert set(found) == set(NUMBERS), copy.writer
    return len(found) - len(NUMBERS)


def finish(spark: SparkSession, copy: Copy, *, task_fails: bool = False) -> None:
    assert outcome_of(copy.start(spark, task_fails=task_fails)) is None


def test_the_driver_is_killed_before_its_commit_log(
    spark: SparkSession, copies: list[Copy], tmp_path: Path, doubled: dict[tuple[str, str], int]
) -> None:
    add_jdbc_driver(spark)
    given = json.dumps({"folder": str(tmp_path), "copies": [asdict(one) for one in copies]})
    with (tmp_path / "driver.log").open("wb") as log:
        driver = subprocess.Popen(
            [sys.executable, str(PROGRAM), given],
            start_new_session=True,
            stdout=log,
            stderr=log,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        )
    try:
        ended = driver.wait(DRIVER_S_MAX)
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait(DRIVER_S_MAX)
    assert ended == -signal.SIGKILL, (tmp_path / "driver.log").read_text(errors="replace")[-4_000:]
    for copy in copies:
        assert count(copy) == 0, "the first time every row was written once"
        finish(spark, copy)
        doubled[KILLED, copy.writer] = count(copy)
    found = {one.writer: doubled[KILLED, one.writer] for one in copies}
    assert found == {one.writer: len(NUMBERS) if one.writer in BY_HAND else 0 for one in copies}


def test_a_task_fails_near_its_end(
    spark: SparkSession, copies: list[Copy], doubled: dict[tuple[str, str], int]
) -> None:
    """The other task's rows are there already, except where the driver writes them all or nobody sees them yet."""
    add_jdbc_driver(spark)
    for copy in copies:
        failure = outcome_of(copy.start(spark, task_fails=True))
        assert copy.mark.exists(), failure
        finish(spark, copy, task_fails=True)
        doubled[TASK_FAILS, copy.writer] = count(copy)
    found = {writer: doubled[TASK_FAILS, writer] > 0 for writer in WRITERS}
    assert found == {JDBC: True, IN_TASKS: True, IN_DRIVER: False, POSTGRES: False, DELTA: False}

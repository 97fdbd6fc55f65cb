"""Spark's workers, forked from our daemon, have the kernels from the start."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("daemon_program.py")
FROZEN_OBJECTS_MIN = 50_000  # numba alone has more
SOURCES = Path(__file__).resolve().parents[3] / "src"


def workers(*arguments: str) -> list[dict[str, Any]]:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["PYTHONPATH"] = str(SOURCES)
    finished = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    found: list[dict[str, Any]] = json.loads(finished.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.full
def test_workers_start_with_kernels() -> None:
    found = workers("semel.spark.daemon")
    assert [row["loaded"] for row in found] == [True, True]
    assert len({row["parent"] for row in found}) == 1
    assert found[0]["worker"] != found[0]["parent"]
    # Spark's workers collect garbage after every task, and need not look through the kernels' compiler.
    assert all(row["frozen"] > FROZEN_OBJECTS_MIN for row in found)

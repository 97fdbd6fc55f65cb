"""`semel drill replay` on queries without a sink of semel: what is exactly once holds, what is not is counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from semel.cli.exit_code import ExitCode
from semel.engine.jars import POSTGRES_DRIVER
from semel.engine.java import spark_environment
from semel.engine.postgres import PostgresServer
from tests.support.postgres import postgres

__all__ = ["postgres"]

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]

RECORDS, PER_MICRO_BATCH = 50, 25  # the examples read so many at a time
RUN_S_MAX = 3_000
ROWS = "{folder}/rows"


def struck(
    job: str, to: str, *outputs: str, options: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code, and the points by name."""
    program = [sys.executable, f"examples/jobs/{job}.py", "{bootstrap}", "{input}", "{checkpoint}", *outputs]
    words = ["--embedded", "--records", str(RECORDS), "--kills", "1", "--to", to, *options, "--format", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "semel", "drill", "replay", *words, "--", *program],
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
        env={**os.environ, **spark_environment(), **(environment or {})},
    )
    assert done.returncode in (ExitCode.HELD, ExitCode.BROKEN), done.stderr
    points = {point["point"]: point for point in json.loads(done.stdout)["points"]}
    for point in points.values():
        assert point["times"] == int(point["applies"]), point
        assert point["anomalies"].get("lost", 0) == 0
    return done.returncode, points


def test_an_append_doubles_what_the_commit_log_forgot() -> None:
    options = ("--point", "planned", "--point", "forgotten")
    code, points = struck("append_in_foreach_batch", f"parquet:{ROWS}", ROWS, options=options)
    assert code == ExitCode.BROKEN
    assert points["PLANNED"]["verdict"] == "HELD"
    assert points["FORGOTTEN"]["anomalies"]["duplicated"] == PER_MICRO_BATCH


@pytest.mark.soak
@pytest.mark.parametrize("job", ["copy_to_files", "first_of_each"])
def test_what_sparks_file_sink_writes_is_there_once(job: str) -> None:
    code, points = struck(job, f"json:{ROWS}", ROWS)
    assert code == ExitCode.HELD
    assert points["STATE"]["applies"] == (job == "first_of_each")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("job", "to", "output"),
    [
        ("copy_with_sparks_sink", "kafka://{bootstrap}/{output}", "{output}"),
        ("append_with_deltalake", f"delta:{ROWS}", ROWS),
    ],
)
def test_a_sink_without_a_ledger_doubles_a_micro_batch(job: str, to: str, output: str) -> None:
    code, points = struck(job, to, output)
    assert code == ExitCode.BROKEN
    assert points["PLANNED"]["verdict"] == "HELD"
    assert points["FORGOTTEN"]["anomalies"]["duplicated"] == PER_MICRO_BATCH


@pytest.mark.soak
def test_a_table_by_jdbc(postgres: PostgresServer) -> None:
    login = conninfo_to_dict(postgres.conninfo)
    url = f"jdbc:postgresql://127.0.0.1:{postgres.port}/postgres"
    (jar,) = POSTGRES_DRIVER.fetch()
    audit = ("--map-left=id=string(value)", "--map-right=id=value", "--key=id", f"--conf=spark.jars={jar}")
    code, points = struck(
        "append_with_jdbc",
        f"{url}#replayed_{{point}}",
        url,
        "replayed_{point}",
        options=tuple(f"--audit={one}" for one in audit),
        environment={"SEMEL_JDBC_USER": str(login["user"]), "SEMEL_JDBC_PASSWORD": str(login["password"])},
    )
    assert code == ExitCode.BROKEN
    assert points["FORGOTTEN"]["anomalies"]["duplicated"] == PER_MICRO_BATCH


@pytest.mark.soak
def test_a_driver_that_dies_between_two_outputs() -> None:
    options = ("--also", "parquet:{folder}/more", "--point", "between")
    code, points = struck("append_to_two_places", f"parquet:{ROWS}", ROWS, "{folder}/more", options=options)
    assert code == ExitCode.BROKEN
    assert points["BETWEEN"]["anomalies"]["duplicated"] == PER_MICRO_BATCH, "in the first output alone"

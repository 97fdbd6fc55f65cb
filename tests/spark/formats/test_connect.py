"""M37: `format("semel-postgres")` on a real server of Spark Connect, with a client that has no JVM."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psycopg
import pytest

import semel
from semel.engine.postgres import PostgresServer
from tests.spark.formats.conftest import ConnectServer, spark_variables
from tests.spark.sink_jobs import fill, new_topics

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]
PROGRAM = Path(__file__).with_name("connect_program.py")
PROGRAM_S_MAX = 400


def test_every_row_once_on_spark_connect(
    connect: ConnectServer, cluster: semel.Cluster, postgres: PostgresServer, tmp_path: Path
) -> None:
    (topic,) = new_topics(cluster.bootstrap, 2)
    fill(cluster.bootstrap, topic, range(60), partitions=2)
    given = {
        "remote": connect.remote,
        "bootstrap": cluster.bootstrap,
        "topic": topic,
        "checkpoint": str(tmp_path / "checkpoint"),
        "options": {"dsn": postgres.conninfo, "table": "connected", "create_table": "true"},
    }
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps(given)],
        capture_output=True,
        text=True,
        timeout=PROGRAM_S_MAX,
        cwd=tmp_path,
        env=spark_variables(),
        check=False,
    )
    assert ran.returncode == 0, ran.stderr + connect.told()
    assert ran.stdout.splitlines() == ["micro-batch 1", "micro-batch 1"], "the second start repeated the last one"
    with psycopg.connect(postgres.conninfo) as connection:
        found = Counter(row[0] for row in connection.execute("SELECT number FROM connected"))
    assert found == Counter([*range(60), *range(1000, 1020)])

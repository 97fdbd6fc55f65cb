"""M37: the formats for tables on a real server of Spark Connect, with a client that has no JVM."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import psycopg
import pyarrow as pa
import pytest

import semel
from semel.engine.postgres import PostgresServer
from tests.spark.formats.conftest import ConnectServer, spark_variables
from tests.spark.sink_jobs import fill, new_topics
from tests.support.object_store import BUCKET, SECRET, ObjectStore

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]
PROGRAM = Path(__file__).with_name("connect_program.py")
PROGRAM_S_MAX = 400
STREAMED, OF_THE_JOB = range(60), range(1000, 1020)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Runs the program against a server."""

    connect: ConnectServer
    cluster: semel.Cluster
    folder: Path

    def run(self, kind: str, options: Mapping[str, str], job_options: Mapping[str, str] | None = None) -> str:
        """A stream of sixty numbers whose last micro-batch is repeated, and a job that is; gives what all printed."""
        (topic,) = new_topics(self.cluster.bootstrap, 2)
        fill(self.cluster.bootstrap, topic, STREAMED, partitions=2)
        given = {
            "remote": self.connect.remote,
            "bootstrap": self.cluster.bootstrap,
            "topic": topic,
            "checkpoint": str(self.folder / "checkpoint"),
            "format": kind,
            "options": options,
            "job_options": job_options or options,
        }
        ran = subprocess.run(
            [sys.executable, str(PROGRAM), json.dumps(given)],
            capture_output=True,
            text=True,
            timeout=PROGRAM_S_MAX,
            cwd=self.folder,
            env=spark_variables(),
            check=False,
        )
        assert ran.returncode == 0, ran.stderr + self.connect.told()
        assert ran.stdout.splitlines() == ["micro-batch 1", "micro-batch 1"], "the second start repeated the last one"
        return ran.stderr + self.connect.log.read_text(errors="replace")


@pytest.fixture
def client(connect: ConnectServer, cluster: semel.Cluster, tmp_path: Path) -> Client:
    return Client(connect=connect, cluster=cluster, folder=tmp_path)


def test_every_row_once_into_postgres(client: Client, postgres: PostgresServer) -> None:
    client.run("semel-postgres", {"dsn": postgres.conninfo, "table": "connected", "create_table": "true"})
    with psycopg.connect(postgres.conninfo) as connection:
        found = Counter(row[0] for row in connection.execute("SELECT number FROM connected"))
    assert found == Counter([*STREAMED, *OF_THE_JOB])


def test_every_row_once_into_delta_tables(client: Client, object_store: ObjectStore) -> None:
    """The stream goes into a folder, the job into an object store, whose secret the server's environment has."""
    folder, bucket = str(client.folder / "table"), f"s3://{BUCKET}/connected"
    storage = object_store.options()
    given = {name: value for name, value in storage.items() if value != SECRET}
    assert len(given) == len(storage) - 1
    told = client.run("semel-delta", {"path": folder}, {"path": bucket, "storage_options": json.dumps(given)})
    assert numbers_of(deltalake.DeltaTable(folder)) == Counter(STREAMED)
    assert numbers_of(deltalake.DeltaTable(bucket, storage_options=storage)) == Counter(OF_THE_JOB)
    assert SECRET not in told


def numbers_of(table: deltalake.DeltaTable) -> Counter[Any]:
    return Counter(pa.table(table.to_pyarrow_dataset().to_table()).column("number").to_pylist())

"""M37: `format("semel-postgres")` as a sink of a `spark-pipelines run` project, over a full refresh of it.

A full refresh begins with a new checkpoint and leaves the sink's data. So the whole topic is read again, and the ledger
has to notice.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

import semel
from semel.engine.postgres import PostgresServer
from tests.spark.formats.conftest import ConnectServer, spark_variables
from tests.spark.sink_jobs import fill, new_topics
from tests.support.spark_home import spark_home

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]
RUN_S_MAX = 400
SPEC = """
name: orders
storage: file://{folder}/storage
libraries:
  - glob:
      include: transformations/**
"""
FLOW = """
from pyspark import pipelines as dp

dp.create_sink("orders_table", "semel-postgres", {options!r})


@dp.append_flow(target="orders_table")
def orders():
    reader = spark.readStream.format("semel").options(**{source!r})
    return reader.load().selectExpr("cast(string(value) as bigint) AS number")
"""
STARTING = re.compile(r"""\.option\("startingOffsets", '(\{.*?\}\})'\) on the source""")


@dataclass(slots=True, kw_only=True)
class Project:
    """A folder as `spark-pipelines init` makes it."""

    folder: Path
    remote: str
    options: dict[str, str]
    source: dict[str, str]

    def run(self, *arguments: str) -> str:
        """`spark-pipelines run`; the text of its failure, or nothing."""
        flows = self.folder / "transformations"
        flows.mkdir(exist_ok=True)
        (flows / "orders.py").write_text(FLOW.format(options=self.options, source=self.source))
        (self.folder / "spark-pipeline.yml").write_text(SPEC.format(folder=self.folder))
        ran = subprocess.run(
            [str(spark_home() / "bin" / "spark-pipelines"), "run", "--remote", self.remote, *arguments],
            capture_output=True,
            text=True,
            timeout=RUN_S_MAX,
            cwd=self.folder,
            env=spark_variables(),
            check=False,
        )
        return "" if ran.returncode == 0 else ran.stdout + ran.stderr

    def numbers(self) -> Counter[int]:
        with psycopg.connect(self.options["dsn"]) as connection:
            return Counter(row[0] for row in connection.execute("SELECT number FROM piped"))


def test_a_full_refresh_is_noticed_and_goes_on_where_the_table_ends(
    connect: ConnectServer, cluster: semel.Cluster, postgres: PostgresServer, tmp_path: Path
) -> None:
    (topic,) = new_topics(cluster.bootstrap, 2)
    fill(cluster.bootstrap, topic, range(60), partitions=2)
    project = Project(
        folder=tmp_path,
        remote=connect.remote,
        options={
            "dsn": postgres.conninfo,
            "table": "piped",
            "create_table": "true",
            "pipeline": "piped",
            "guarantee": "exactly_once",
        },
        source={"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "startingOffsets": "earliest"},
    )
    assert project.run() == ""
    assert project.numbers() == Counter(range(60))
    fill(cluster.bootstrap, topic, range(60, 80), partitions=2)
    told = project.run("--full-refresh-all")
    assert "repeat records" in told, told + connect.told()
    assert project.numbers() == Counter(range(60)), "refused before anything was written"
    found = STARTING.search(told)
    assert found is not None, told
    project.source["startingOffsets"] = found[1]
    assert project.run("--full-refresh-all") == "", connect.told()
    assert project.numbers() == Counter(range(80))

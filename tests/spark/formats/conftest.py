"""A server of Spark Connect in a process of its own, with Kafka and PostgreSQL beside it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import semel
from semel.engine.child_guard import ChildGuard
from semel.engine.java import spark_environment
from semel.spark.sessions import SOCKETS, WORKERS_SHARED
from semel.world.ports import LOOPBACK, free_ports
from tests.support.object_store import SECRET, object_store
from tests.support.postgres import postgres
from tests.support.spark_home import java_options, spark_home
from tests.support.waiting import eventually

__all__ = ["object_store", "postgres"]

START_S_MAX = 240
END_S_MAX = 60
SHOWN_CHARACTERS_MAX = 4_000
CONF = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.port.maxRetries": "0",  # another port than the one that was asked for would be a secret
    "spark.connect.grpc.binding.address": LOOPBACK,
    "spark.python.daemon.module": "semel.spark.daemon",
    "spark.sql.shuffle.partitions": "2",
    # A flow that is refused would be refused again.
    "spark.sql.pipelines.maxFlowRetryAttempts": "0",
    SOCKETS: "true",
    WORKERS_SHARED: "1",
}


@pytest.fixture(scope="package")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


def spark_variables() -> dict[str, str]:
    """The environment of Spark's own programs; nothing of this process's own Spark leaks in."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return kept | spark_environment() | {"SPARK_HOME": str(spark_home())}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectServer:
    """A server that runs."""

    remote: str
    log: Path

    def told(self) -> str:
        """The end of what it printed."""
        return self.log.read_text(errors="replace")[-SHOWN_CHARACTERS_MAX:]


@pytest.fixture(scope="package")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """`start-connect-server.sh` without the script, which PyPI's package does not have."""
    folder = tmp_path_factory.mktemp("connect")
    (port,) = free_ports(1)
    conf = CONF | {
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.extraJavaOptions": java_options(),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    given = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    program = [str(spark_home() / "bin" / "spark-submit"), *given]
    server = ConnectServer(remote=f"sc://{LOOPBACK}:{port}", log=folder / "server.log")
    with server.log.open("wb") as log:
        process = subprocess.Popen(
            [*program, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            # Not as an option: a plan's options are in the requests that a server of Spark Connect logs by itself.
            env=spark_variables() | {"AWS_SECRET_ACCESS_KEY": SECRET},
        )
    guard = ChildGuard(process.pid)

    def answers() -> bool:
        assert process.poll() is None, server.told()
        with socket.socket() as line:
            return line.connect_ex((LOOPBACK, port)) == 0

    try:
        eventually(answers, START_S_MAX, what="the server of Spark Connect listens")
        yield server
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(END_S_MAX)
        guard.release()

"""A standalone Spark cluster on this machine: a master and two workers, each a JVM of its own.

Why two names of one machine: Spark starts a speculative attempt only on another host than the first, and a host is
what the worker calls itself.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from semel.engine.java import spark_environment
from semel.world.ports import LOOPBACK, free_ports
from tests.spark.matrix.drivers import ROOT
from tests.support.spark_home import java_options
from tests.support.waiting import eventually

WORKER_HOSTS = (LOOPBACK, "localhost")
START_S_MAX = 60.0
STOP_S_MAX = 30.0


class StandaloneSpark:
    """Start it with `with`; `master` is what a session needs."""

    def __init__(self, folder: Path) -> None:
        """Logs and the executors' folders go into `folder`."""
        self._folder = folder
        (self._port,) = free_ports(1)
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = f"spark://{LOOPBACK}:{self._port}"

    def __enter__(self) -> Self:
        """Start master and workers."""
        try:
            port = str(self._port)
            self._start("master", "master.Master", "--host", LOOPBACK, "--port", port, "--webui-port", "0")
            eventually(self._listens, START_S_MAX, what="the master listens")
            for host in WORKER_HOSTS:
                work = str(self._folder / f"work-{host}")
                options = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", work)
                self._start(f"worker-{host}", "worker.Worker", "--host", host, *options, self.master)
            eventually(self._has_workers, START_S_MAX, what="both workers are registered")
        except BaseException:
            self.stop()
            raise
        return self

    def _start(self, name: str, main: str, *arguments: str) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [f"{os.environ['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{main}", *arguments],
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self._folder,
                env=os.environ
                | spark_environment()
                | {
                    "SPARK_DAEMON_MEMORY": "256m",
                    "SPARK_DAEMON_JAVA_OPTS": f"{java_options()} -XX:ErrorFile={self._folder}/jvm_%p.log",
                    "PYTHONPATH": f"{ROOT}/src:{ROOT}",
                    "SPARK_LOCAL_DIRS": str(self._folder / "local"),
                },
            )
        self._processes.append(process)

    def _listens(self) -> bool:
        try:
            socket.create_connection((LOOPBACK, self._port), 1).close()
        except OSError:
            return False
        return True

    def _has_workers(self) -> bool:
        logs = [(self._folder / f"worker-{host}.log").read_text(errors="replace") for host in WORKER_HOSTS]
        return all("Successfully registered with master" in log for log in logs)

    def stop(self) -> None:
        """End all JVMs and what they started."""
        for process in reversed(self._processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(STOP_S_MAX)
        self._processes.clear()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

"""The two brokers that rows compare: semel's embedded one and Apache Kafka, one node each unless a row wants three.

Apache Kafka has a process for each node, semel one for all of them.

Both keep their data in a temporary folder of the same disk and leave syncing to the operating system, which is the
default of both. semel's process finds its modules compiled, as an installed package does.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Protocol, Self

from semel.engine.apache import ApacheCluster
from semel.engine.cache import cache_folder
from semel.errors import EnvironmentFailure

EMBEDDED = "semel"
APACHE = "Apache Kafka"
START_S_MAX = 60.0
STOP_S_MAX = 60.0
APACHE_HEAP_MB = 1024  # what its own start script gives it
APACHE_CONFIG = {"log.segment.delete.delay.ms": "1000"}  # or the topics of ended rounds fill the disk

_numbers = count()


class Server(Protocol):
    """What a row needs to know about a broker."""

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""

    def start(self) -> Self:
        """Return when clients can connect."""

    def stop(self) -> None:
        """End it and remove its data."""


def _environment() -> dict[str, str]:
    """Ours, with a place for compiled modules even where Python was told to write none."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(cache_folder() / "bytecode")}


class EmbeddedServer:
    """`semel cluster start` with one broker, or more."""

    def __init__(self, brokers: int = 1) -> None:
        """Nothing is started yet."""
        self._brokers = str(brokers)
        self.bootstrap = ""
        self._process: subprocess.Popen[str] | None = None
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process

    def start(self) -> Self:
        """Start the process and read where it listens."""
        name = f"bench-{os.getpid()}-{next(_numbers)}"
        command = [sys.executable, "-m", "semel", "cluster", "start", "--brokers", self._brokers]
        command += ["--port", "0", "--name", name]
        self._process = subprocess.Popen(
            command, env=_environment(), stdout=subprocess.PIPE, stderr=self._stderr, text=True
        )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], START_S_MAX)
        self.bootstrap = self._process.stdout.readline().strip() if ready else ""
        if not self.bootstrap:
            self._stderr.seek(0)
            because = self._stderr.read()[-500:]
            self.stop()
            raise EnvironmentFailure("the embedded cluster did not start", because=because)
        return self

    def stop(self) -> None:
        """Ask it to stop; kill it if it does not."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.communicate(timeout=STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.communicate(timeout=STOP_S_MAX)
            self._process = None
        self._stderr.close()


def apache(brokers: int = 1, heap_mb: int = APACHE_HEAP_MB) -> Server:
    """Apache Kafka with its own defaults."""
    return ApacheCluster(brokers=brokers, heap_mb=heap_mb, config=APACHE_CONFIG)


Servers = Mapping[str, Callable[[], Server]]
SERVERS: Servers = {EMBEDDED: EmbeddedServer, APACHE: apache}


@contextmanager
def started(servers: Servers = SERVERS) -> Iterator[dict[str, str]]:
    """Both brokers at once; where each listens."""
    with ExitStack() as stack:
        bootstraps: dict[str, str] = {}
        for name, make in servers.items():
            server = make()
            stack.callback(server.stop)
            bootstraps[name] = server.start().bootstrap
        yield bootstraps

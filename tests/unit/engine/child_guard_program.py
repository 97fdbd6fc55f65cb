"""Run by the guard's test in a process of its own: start a server, tell its process id, wait to be killed."""

import subprocess
import sys

from semel.engine.apache import ApacheCluster
from semel.engine.child_guard import ChildGuard
from semel.engine.postgres import PostgresServer


def _bare() -> int:
    server = subprocess.Popen(["sleep", "600"], start_new_session=True)
    _kept.append(ChildGuard(server.pid))
    return server.pid


def _apache() -> int:
    cluster = ApacheCluster(brokers=1).start()
    _kept.append(cluster)
    (node,) = cluster.nodes
    assert node.process is not None
    return node.process.pid


def _postgres() -> int:
    server = PostgresServer().start()
    _kept.append(server)
    assert server._process is not None
    return server._process.pid


_kept: list[object] = []
KINDS = {"bare": _bare, "apache": _apache, "postgres": _postgres}


if __name__ == "__main__":
    sys.stdout.write(f"{KINDS[sys.argv[1]]()}\n")
    sys.stdout.flush()
    sys.stdin.read()

"""A cluster in a process of its own, so that its memory can be measured; it ends when its stdin does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[2]
STOP_S_MAX = 60.0


class ServedCluster:
    """One broker in another process."""

    def __init__(self, **config: str) -> None:
        """Start it with these broker settings; names have dots written as underscores."""
        settings = json.dumps({name.replace("_", "."): value for name, value in config.items()})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hardening.served", settings],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.bootstrap = self._process.stdout.readline().strip()
        assert self.bootstrap, "the cluster did not start"

    def peak_bytes(self) -> int:
        """The most memory the process ever had, as the kernel counted."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            assert self._process.wait(STOP_S_MAX) == 0
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    def __enter__(self) -> Self:
        """Use it as a context."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()


def main() -> None:
    """Serve until stdin ends."""
    from semel.engine.embedded import Cluster

    with Cluster(brokers=1, topics=["quiet", "bulk"], config=json.loads(sys.argv[1])) as cluster:
        sys.stdout.write(cluster.bootstrap + "\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()

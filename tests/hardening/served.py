"""A cluster in a process of its own, so that its memory can be measured; it ends when its stdin does."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from semel.engine.embedded import Cluster

ROOT = Path(__file__).parents[2]
STOP_S_MAX = 60.0
HOLD_S_MAX = 0.05
# Processor time, but on a machine that is busy with other things the same work takes several times as much of it.
BUSY_HOLD_S_MAX = 10 * HOLD_S_MAX


class ServedCluster:
    """One broker in another process, which may have `files_max` descriptors; with TLS and a user when `secure`."""

    def __init__(
        self,
        *,
        files_max: int | None = None,
        data: Path | None = None,
        secure: bool = False,
        watched: bool = False,
        **config: str,
    ) -> None:
        """Start it with these broker settings; names have dots written as underscores."""
        wanted = {
            "config": {name.replace("_", "."): value for name, value in config.items()},
            "files_max": files_max,
            "data": None if data is None else str(data),
            "secure": secure,
            "watched": watched,
        }
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hardening.served", json.dumps(wanted)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self._process.stdout is not None
        started = self._process.stdout.readline()
        assert started, "the cluster did not start"
        self.settings: dict[str, str] = json.loads(started)
        self.bootstrap = self.settings["bootstrap.servers"]

    def descriptors(self) -> int:
        """How many descriptors the process has open."""
        return len(list(Path(f"/proc/{self._process.pid}/fd").iterdir()))

    def peak_bytes(self) -> int:
        """The most memory the process ever had, as the kernel counted."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def longest_hold_s(self) -> float:
        """How long one piece of work has held the loop since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def failures(self) -> list[str]:
        """Requests that ended in an exception of the broker's own, by its log: each is a bug."""
        self._log.seek(0)
        return [line for line in self._log.read().decode().splitlines() if line.endswith(" failed")]

    def kill(self) -> None:
        """End the process at once, as a crash does."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End the process, unless it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            assert self._process.wait(STOP_S_MAX) in (0, -signal.SIGKILL)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            self._log.close()

    def __enter__(self) -> Self:
        """Use it as a context."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()


class Hold:
    """How long the loop of a cluster was held by one piece of work, in processor time: other programs do not count.

    Nor does Python's own collector of garbage, which comes by when it likes and takes longer the more there is.
    """

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self.longest_s = 0.0
        self._collected_s = 0.0
        self._thread = 0

    def collecting(self, phase: str, _info: object) -> None:
        """The collector begins or ends."""
        if threading.get_ident() == self._thread:
            self._collected_s += time.thread_time() if phase == "stop" else -time.thread_time()

    async def watch(self) -> None:
        """Look at the clock whenever the loop comes round."""
        self._thread = threading.get_ident()
        gc.callbacks.append(self.collecting)
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time() - self._collected_s
            self.longest_s, before = max(self.longest_s, now - before), now


def _watch(cluster: Cluster) -> None:
    """Say for each line that comes how long the loop was held since the last one."""
    assert cluster._thread is not None
    hold = Hold()
    watching = asyncio.run_coroutine_threadsafe(hold.watch(), cluster._thread.loop)
    for _ in sys.stdin:
        _say(hold.longest_s)
        hold.longest_s = 0.0
    watching.cancel()


def _say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Serve until stdin ends."""
    from semel import Security, Tls

    wanted = json.loads(sys.argv[1])
    if wanted["files_max"]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted["files_max"], wanted["files_max"]))
    security = Security(tls=Tls.self_signed(), users={"alice": "secret"}) if wanted["secure"] else None
    with Cluster(
        brokers=1, topics=["quiet", "bulk"], config=wanted["config"], data=wanted["data"], security=security
    ) as cluster:
        _say(cluster.client_settings)
        if wanted["watched"]:
            _watch(cluster)
        else:
            sys.stdin.read()


if __name__ == "__main__":
    main()

"""What the processes of a session hold in memory, watched from outside while they live and die."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from semel.cli.demo_driver import session_members

INTERVAL_S = 0.1


class Process(NamedTuple):
    """The most that a process ever held, and what the kernel lets it write to (None: as much as it likes)."""

    command: tuple[str, ...]
    peak_bytes: int
    data_bytes_max: int | None

    @property
    def peak_mb(self) -> int:
        """In MiB, as limits are."""
        return self.peak_bytes >> 20


class MemoryWatch:
    """Looks at every process of a session again and again; `seen` has each at the last look."""

    def __init__(self, session_id: int) -> None:
        """Nothing was looked at yet."""
        self.seen: dict[int, Process] = {}
        self._looks: Counter[int] = Counter()
        self._session_id = session_id
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="memory-watch", daemon=True)

    def __enter__(self) -> Self:
        """Begin to look."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(INTERVAL_S):
            for number in session_members(self._session_id):
                try:
                    self.seen[number] = _process(Path("/proc", str(number)))
                except (OSError, KeyError):  # gone in the meantime, or about to be
                    continue
                self._looks[number] += 1

    def having(self, word: str) -> list[Process]:
        """The processes whose command has this word, largest first."""
        return self._largest_first(lambda one: word in one.command)

    def running(self, program: str) -> list[Process]:
        """The processes that run this program, largest first."""
        return self._largest_first(lambda one: Path(one.command[0]).name == program)

    def _largest_first(self, wanted: Callable[[Process], bool]) -> list[Process]:
        """Leave out what was seen once: a process on its way to another program still looks like its parent."""
        lasting = [one for number, one in self.seen.items() if self._looks[number] > 1]
        return sorted(filter(wanted, lasting), key=lambda one: one.peak_bytes, reverse=True)


def _process(folder: Path) -> Process:
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    command = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    return Process(tuple(command), int(status["VmHWM"].split()[0]) << 10, _data_bytes_max(folder / "limits"))


def _data_bytes_max(limits: Path) -> int | None:
    words = next(line for line in limits.read_text().splitlines() if line.startswith("Max data size")).split()
    return None if words[3] == "unlimited" else int(words[3])

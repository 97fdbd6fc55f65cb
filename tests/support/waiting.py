"""Wait for a condition with a limit: how tests wait for what another thread or process brings about."""

import select
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")
PAUSE_S = 0.01


class HasFileno(Protocol):
    """A socket, a pipe, a file."""

    def fileno(self) -> int:
        """Its number in this process."""


def is_readable(file: HasFileno | int, seconds_max: float) -> bool:
    """Wait until there is something to read, or until the limit; whatever the number of open files."""
    return _is_ready(file, select.POLLIN, seconds_max)


def is_writable(file: HasFileno | int, seconds_max: float) -> bool:
    """Wait until something can be written, or until the limit; whatever the number of open files."""
    return _is_ready(file, select.POLLOUT, seconds_max)


def _is_ready(file: HasFileno | int, event: int, seconds_max: float) -> bool:
    poll = select.poll()
    poll.register(file, event)
    return bool(poll.poll(seconds_max * 1000))


def eventually(condition: Callable[[], T | None], seconds_max: float = 60.0, *, what: str = "") -> T:
    """Ask `condition` again and again until its answer is true, and return that answer; fail after the limit."""
    deadline = time.monotonic() + seconds_max
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not so after {seconds_max:g} s: {what or condition}; the last answer was {answer!r}")
        time.sleep(PAUSE_S)

"""Wait for a condition with a limit: how tests wait for what another thread or process brings about."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PAUSE_S = 0.01


def eventually(condition: Callable[[], T], seconds_max: float = 20.0, *, what: str = "") -> T:
    """Ask `condition` again and again until its answer is true, and return that answer; fail after the limit."""
    deadline = time.monotonic() + seconds_max
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not so after {seconds_max:g} s: {what or condition}; the last answer was {answer!r}")
        time.sleep(PAUSE_S)

"""Looking for the next request a little longer before the loop sleeps, while requests come one right after another.

Why:    a client that sends one record at a time and waits for each answer is as fast as a sleeping thread is woken, and
        that costs more than the broker's work: across two processor cores a third of such a send's time.
Limits: it begins only after a streak of requests with short pauses, ends with the first pause that is longer than
        POLL_NS, and lets every other thread that can run on this core go first.
"""

import os
import time
from collections.abc import Callable
from typing import Protocol

POLL_NS = 150_000
STREAK_MIN = 8


class Loop(Protocol):
    """What is used of an event loop."""

    def call_soon(self, callback: Callable[[], object], /) -> object:
        """Call back in the next turn; a loop with such a callback does not sleep."""


class BusyPoll:
    """One for each event loop; it hears of everything that arrives there."""

    __slots__ = ("_loop", "_now_ns", "_quiet_since_ns", "_streak", "is_polling")

    def __init__(self, loop: Loop, *, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        """Sleep as usual until asked to poll."""
        self._loop = loop
        self._now_ns = now_ns
        self._quiet_since_ns = 0
        self._streak = 0
        self.is_polling = False

    def arrived(self) -> None:
        """Something came and was dealt with; what comes next is expected soon if that was so the last times."""
        now_ns = self._now_ns()
        # Twice the time of polling, so that a client which is a little slower once does not end the streak.
        self._streak = self._streak + 1 if now_ns - self._quiet_since_ns < 2 * POLL_NS else 0
        self._quiet_since_ns = now_ns
        if self._streak >= STREAK_MIN and not self.is_polling:
            self.is_polling = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        if self._now_ns() - self._quiet_since_ns < POLL_NS:
            # Lets any other thread that waits for this core run first; it returns at once when there is none.
            os.sched_yield()
            self._loop.call_soon(self._turn)
        else:
            self.is_polling = False
            self._streak = 0

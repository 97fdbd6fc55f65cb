"""One moment by which a whole chain of waits has to be over.

Why: timeouts per call add up; a chain of ten calls with 30 s each may take five minutes. A deadline is shared. A caller
     that waits for the chain may lose interest before that, as a Spark query does that is stopped: then little time is
     left.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self

CALLED_OFF_MS = 2_000  # enough for what needs a second attempt, short enough for somebody who wants to leave


def _never() -> bool:
    return False


class Deadline:
    """A moment on the monotonic clock of this process; not to be pickled."""

    __slots__ = ("_at_s", "_is_called_off", "limit_ms")

    def __init__(self, at_s: float, limit_ms: float, is_called_off: Callable[[], bool] = _never) -> None:
        """Use `after_ms`."""
        self._at_s = at_s
        self.limit_ms = limit_ms
        self._is_called_off = is_called_off

    @classmethod
    def after_ms(cls, ms: float, is_called_off: Callable[[], bool] = _never) -> Self:
        """The moment this many milliseconds from now; `is_called_off` says whether nobody wants the result any more."""
        return cls(time.monotonic() + ms / 1000, ms, is_called_off)

    def hurry_if_called_off(self) -> None:
        """Leave no more than `CALLED_OFF_MS` when nobody wants the result any more; asked before a wait."""
        if self._is_called_off():
            # Asked no more: once called off, the little time that is left must not be prolonged.
            self._is_called_off = _never
            self._at_s = min(self._at_s, time.monotonic() + CALLED_OFF_MS / 1000)

    @property
    def left_s(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self._at_s - time.monotonic())

    @property
    def left_ms(self) -> int:
        """Whole milliseconds left, never below zero."""
        return int(self.left_s * 1000)

    @property
    def expired(self) -> bool:
        """Whether it has passed."""
        return self.left_s <= 0

    def within_ms(self, ms: float) -> Deadline:
        """This deadline, or one that many milliseconds from now if that is earlier."""
        return Deadline.after_ms(ms) if ms / 1000 < self.left_s else self

    def wait_ms(self, ms: float) -> None:
        """Sleep that long, or until it passes."""
        time.sleep(min(ms / 1000, self.left_s))

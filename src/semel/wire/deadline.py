"""One moment by which a whole chain of waits has to be over.

Why: timeouts per call add up; a chain of ten calls with 30 s each may take five minutes. A deadline is shared.
"""

from __future__ import annotations

import time
from typing import Self


class Deadline:
    """A moment on the monotonic clock of this process; not to be pickled."""

    __slots__ = ("_at_s", "limit_ms")

    def __init__(self, at_s: float, limit_ms: float) -> None:
        """Use `after_ms`."""
        self._at_s = at_s
        self.limit_ms = limit_ms

    @classmethod
    def after_ms(cls, ms: float) -> Self:
        """The moment this many milliseconds from now."""
        return cls(time.monotonic() + ms / 1000, ms)

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

"""How far a drill of many cells is: a line on stderr for each, with what was shown so far and how long it may take."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from semel.cli.exit_code import ExitCode
from semel.cli.output import narrate

# Before that, one slow cell would promise an hour.
GUESSES_FROM = 3
WORDS = {ExitCode.HELD: "held", ExitCode.BROKEN: "broken", ExitCode.UNKNOWN: "unknown"}


class Progress:
    """Counts cells; rules and the matrix share one."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was run yet."""
        self._total, self._clock, self._begun = total, clock, clock()
        self._shown: Counter[ExitCode] = Counter()

    def begin(self, name: str) -> None:
        """Say that this one runs now."""
        narrate(f"[{self._shown.total() + 1}/{self._total}] {name} …{self._so_far()}")

    def end(self, verdict: ExitCode) -> None:
        """Count it."""
        self._shown[verdict] += 1

    def _so_far(self) -> str:
        done = self._shown.total()
        if not done:
            return ""
        told = ", ".join(f"{self._shown[one]} {word}" for one, word in WORDS.items() if self._shown[one])
        if done >= GUESSES_FROM:
            left_s = (self._clock() - self._begun) / done * (self._total - done)
            told += f"; about {left_s / 60:.0f} min left" if left_s >= 90 else f"; about {left_s:.0f} s left"
        return f" ({told})"

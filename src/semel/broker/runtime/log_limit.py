"""Limits log lines that clients can cause: a few of each kind in ten seconds, then how many were left out.

Why: one client that is refused again and again wrote more than a thousand lines a second, which fills disks and hides
     everything else.
"""

import logging
from dataclasses import dataclass

from semel.world.clock import Clock

LINES_MAX = 20
WINDOW_MS = 10_000.0


@dataclass(slots=True)
class _Window:
    lines: int = 0
    left_out: int = 0


class LimitedLog:
    """Writes to a logger; what is the same but for its arguments is of one kind."""

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        """Nothing was written yet."""
        self._log = log
        self._clock = clock
        # The key is the text without its arguments. Those texts are in the code, so clients cannot make this grow.
        self._windows: dict[str, _Window] = {}

    def write(self, level: int, text: str, *args: object, with_traceback: bool = False) -> None:
        """Write one line, or count it when there were many of its kind just now."""
        if not self._log.isEnabledFor(level):
            return
        window = self._windows.get(text)
        if window is None:
            window = self._windows[text] = _Window()
            # The window ends by a timer and not with the next line: the count must appear although nothing more comes.
            self._clock.call_later_ms(WINDOW_MS, lambda: self._end(level, text))
        if window.lines < LINES_MAX:
            window.lines += 1
            self._log.log(level, text, *args, exc_info=with_traceback)
        else:
            window.left_out += 1

    def _end(self, level: int, text: str) -> None:
        left_out = self._windows.pop(text).left_out
        if left_out:
            seconds = WINDOW_MS / 1000
            self._log.log(level, "%d more lines like this were left out in %.0f s: %s", left_out, seconds, text)

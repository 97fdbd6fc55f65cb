"""Writes down what clients do, in the order it ends, and gives the whole a digest.

Keeps: W1 one seed, one history: two runs of a seed have the same digest.
"""

from __future__ import annotations

import hashlib

from semel.history import Act, Op, Outcome
from semel.world.clock import Clock


class Recorder:
    """The history of one run as it grows."""

    def __init__(self, clock: Clock) -> None:
        """Start empty."""
        self.ops: list[Op] = []
        self._clock = clock
        # Not the time: in virtual time many things happen at the same moment.
        self._next = 0

    def begin(self) -> int:
        """An op begins; the number goes to `end`."""
        self._next += 1
        return self._next - 1

    def end(self, client: str, act: Act, outcome: Outcome, invoked: int, error: str = "") -> None:
        """The op that began with this number is over."""
        # From the same counter, so that numbers tell which op ended before which began.
        returned = self.begin()
        at_ms = int(self._clock.monotonic_ms())
        self.ops.append(
            Op(client=client, act=act, outcome=outcome, invoked=invoked, returned=returned, at_ms=at_ms, error=error)
        )

    def note(self, client: str, act: Act) -> None:
        """An op without duration."""
        self.end(client, act, Outcome.OK, self.begin())

    def digest(self) -> str:
        """The same for the same history, byte for byte."""
        whole = hashlib.sha256()
        for op in self.ops:
            # `repr` of a dataclass shows every field in a fixed order, so equal histories are equal bytes.
            whole.update(repr(op).encode())
        return whole.hexdigest()

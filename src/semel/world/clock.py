"""Time: what a broker may know about it, real or virtual.

Keeps: no other module reads a clock or sleeps, so a run in virtual time repeats exactly.
Why:   wall time and monotonic time are apart. Wall time goes into records and may jump either way; everything that
       waits or expires uses monotonic time. Each broker has its own clock object, so that one of them can jump.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

VIRTUAL_START_WALL_MS = 1_700_000_000_000  # a fixed date, so that record timestamps repeat from run to run


class Timer(Protocol):
    """A callback that has not run yet."""

    def cancel(self) -> None:
        """Make sure that the callback never runs; harmless when it already has."""


class Clock(Protocol):
    """Reads and waits for time."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""

    def monotonic_ms(self) -> float:
        """Milliseconds since some fixed moment; never goes back."""

    async def sleep_ms(self, ms: float) -> None:
        """Wait for this long; zero or less only lets others run."""

    def call_later_ms(self, ms: float, callback: Callable[[], object]) -> Timer:
        """Call back once, on the running loop, after this long."""


class _LoopTimers:
    """The half that is the same in real and virtual time: the running loop decides what a second is."""

    async def sleep_ms(self, ms: float) -> None:
        """Wait for this long; zero or less only lets others run."""
        await asyncio.sleep(max(ms, 0) / 1000)

    def call_later_ms(self, ms: float, callback: Callable[[], object]) -> Timer:
        """Call back once, on the running loop, after this long."""
        return asyncio.get_running_loop().call_later(max(ms, 0) / 1000, callback)


class RealClock(_LoopTimers):
    """The machine's clocks; the date can be moved for those who ask this one."""

    def __init__(self) -> None:
        """Start with the machine's date."""
        self._jumped_ms = 0

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000 + self._jumped_ms

    def jump_ms(self, delta: int) -> None:
        """Move the wall clock, forward or back; timers and monotonic time do not notice."""
        self._jumped_ms += delta

    def monotonic_ms(self) -> float:
        """Milliseconds since some fixed moment; never goes back."""
        return time.monotonic_ns() / 1_000_000


class VirtualClock(_LoopTimers):
    """Reads the time of a virtual loop; the wall clock can be moved on its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, start_wall_ms: int = VIRTUAL_START_WALL_MS) -> None:
        """`start_wall_ms` is the date at which the loop's time is zero."""
        self._loop = loop
        self._wall_at_zero_ms = start_wall_ms

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        # Whole microseconds first: 1.001 s * 1000 is 1000.9999..., which would read a millisecond too early.
        return self._wall_at_zero_ms + round(self._loop.time() * 1_000_000) // 1000

    def monotonic_ms(self) -> float:
        """Milliseconds of virtual time since the loop was made."""
        return self._loop.time() * 1000

    def jump_ms(self, delta: int) -> None:
        """Move the wall clock, forward or back; timers and monotonic time do not notice."""
        self._wall_at_zero_ms += delta

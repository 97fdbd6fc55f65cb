"""Stopping one broker in place, as SIGSTOP stops a process: its connections stay, it answers nothing, its timers wait.

Everything that makes a broker act asks `PauseSwitch` first: frames, link requests and their answers, timers, news of
the cluster. When the broker is resumed all of that goes on, with beliefs that may be long out of date.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from semel.world.clock import Clock, Timer
from semel.world.world import World


class PauseSwitch:
    """Whether a broker is paused, and what waits until it is resumed."""

    def __init__(self) -> None:
        """Start running."""
        self.is_paused = False
        self._held: list[Callable[[], object]] = []

    def pause(self) -> None:
        """Stop everything: calls and timers wait until `resume`."""
        self.is_paused = True

    def resume(self) -> None:
        """Let everything happen that has waited, in the order in which it came."""
        self.is_paused = False
        # Taken out first: a callback may pause the broker again and hold new ones.
        held, self._held = self._held, []
        for callback in held:
            callback()

    def call(self, callback: Callable[[], object]) -> None:
        """Call now, or when the broker is resumed."""
        if self.is_paused:
            self._held.append(callback)
        else:
            callback()

    async def resumed(self) -> None:
        """Return when the broker is not paused."""
        # A loop, since the broker may be paused once more before this one is woken.
        while self.is_paused:
            is_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._held.append(partial(_end_wait, is_over))
            await is_over


def _end_wait(is_over: asyncio.Future[None]) -> None:
    if not is_over.done():
        is_over.set_result(None)


class PausableClock:
    """A clock whose time goes on in a pause, while its timers wait."""

    def __init__(self, clock: Clock, pausing: PauseSwitch) -> None:
        """Wrap a clock."""
        self._clock = clock
        self._pausing = pausing

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return self._clock.wall_ms()

    def monotonic_ms(self) -> float:
        """Milliseconds since some fixed moment; never goes back."""
        return self._clock.monotonic_ms()

    async def sleep_ms(self, ms: float) -> None:
        """Wait for this long, and then for the end of a pause."""
        # A stopped process does not notice that its time is up: it finds that out when it goes on.
        await self._clock.sleep_ms(ms)
        if self._pausing.is_paused:
            await self._pausing.resumed()

    def call_later_ms(self, ms: float, callback: Callable[[], object]) -> Timer:
        """Call back after this long, or when a pause ends after it."""
        timer = _PausableTimer(callback)
        timer.inner = self._clock.call_later_ms(ms, lambda: self._pausing.call(timer.fire))
        return timer


class _PausableTimer:
    """A timer that can be cancelled while it waits for the end of a pause."""

    __slots__ = ("_callback", "inner")

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback
        self.inner: Timer | None = None

    def fire(self) -> None:
        if self._callback is not None:
            self._callback()

    def cancel(self) -> None:
        # The inner timer may have fired already and wait for the end of the pause.
        self._callback = None
        if self.inner is not None:
            self.inner.cancel()


def with_pauses(world: World, pausing: PauseSwitch) -> World:
    """The same world with timers that wait while it is paused."""
    return World(clock=PausableClock(world.clock, pausing), rng=world.rng, disk=world.disk, network=world.network)

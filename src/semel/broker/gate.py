"""Stopping one broker in place, as SIGSTOP stops a process: its connections stay, it answers nothing, its timers wait.

Everything that makes a broker act comes through its gate: frames, link requests and their answers, timers, news of the
cluster. When it opens again all of that goes on, with beliefs that may be long out of date.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from semel.world.clock import Clock, Timer
from semel.world.world import World


class Gate:
    """Open, or closed until `open` is called."""

    def __init__(self) -> None:
        """Start open."""
        self.closed = False
        self._held: list[Callable[[], object]] = []

    def close(self) -> None:
        """Let nothing through."""
        self.closed = True

    def open(self) -> None:
        """Let everything through again, in the order in which it came."""
        self.closed = False
        held, self._held = self._held, []
        for callback in held:
            callback()

    def call(self, callback: Callable[[], object]) -> None:
        """Call now, or when the gate opens."""
        if self.closed:
            self._held.append(callback)
        else:
            callback()

    async def passed(self) -> None:
        """Return when the gate is open."""
        while self.closed:
            opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._held.append(partial(_let_through, opened))
            await opened


def _let_through(opened: asyncio.Future[None]) -> None:
    if not opened.done():
        opened.set_result(None)


class GatedClock:
    """A clock whose time goes on while its timers wait behind a gate."""

    def __init__(self, clock: Clock, gate: Gate) -> None:
        """Wrap a clock."""
        self._clock = clock
        self._gate = gate

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return self._clock.wall_ms()

    def monotonic_ms(self) -> float:
        """Milliseconds since some fixed moment; never goes back."""
        return self._clock.monotonic_ms()

    async def sleep_ms(self, ms: float) -> None:
        """Wait for this long, and then for the gate."""
        await self._clock.sleep_ms(ms)
        if self._gate.closed:
            await self._gate.passed()

    def call_later_ms(self, ms: float, callback: Callable[[], object]) -> Timer:
        """Call back after this long, or when the gate opens after it."""
        timer = _GatedTimer(callback)
        timer.inner = self._clock.call_later_ms(ms, lambda: self._gate.call(timer.fire))
        return timer


class _GatedTimer:
    """A timer that can be cancelled while it waits behind the gate."""

    __slots__ = ("_callback", "inner")

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback
        self.inner: Timer | None = None

    def fire(self) -> None:
        if self._callback is not None:
            self._callback()

    def cancel(self) -> None:
        self._callback = None
        if self.inner is not None:
            self.inner.cancel()


def gated(world: World, gate: Gate) -> World:
    """The same world with timers that wait behind the gate."""
    return World(clock=GatedClock(world.clock, gate), rng=world.rng, disk=world.disk, network=world.network)

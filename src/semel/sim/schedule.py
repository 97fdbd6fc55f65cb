"""When faults strike and end: drawn from the seed, a few at a time, until the time of faults is over."""

from __future__ import annotations

from semel.sim.faults import KINDS, Fault
from semel.sim.stage import Stage

AT_ONCE_MAX = 3
DURATION_MS_MAX = 5_000


class Schedule:
    """The faults of one run."""

    def __init__(self, stage: Stage) -> None:
        """Draw from a stream of its own, so that clients' draws do not move the faults."""
        self._stage = stage
        self._rng = stage.rng.fork("faults")
        self._clock = stage.worlds[0].clock
        self._active: list[tuple[float, Fault]] = []

    async def run(self) -> None:
        """Let faults come and go for as long as the seed says, then undo all that are left."""
        options = self._stage.options
        end_ms = self._clock.monotonic_ms() + options.faulty_ms
        while self._clock.monotonic_ms() < end_ms:
            await self._clock.sleep_ms(self._rng.uniform(options.fault_gap_ms / 3, options.fault_gap_ms))
            await self._undo(self._clock.monotonic_ms())
            if len(self._active) < AT_ONCE_MAX:
                kind = self._rng.choice(options.faults)
                fault = KINDS[kind](self._stage, self._rng, kind)
                self._active.append((self._clock.monotonic_ms() + self._rng.integer(100, DURATION_MS_MAX), fault))
                await fault.inject()
        await self._undo(float("inf"))
        self._stage.tell("everything is healed")

    async def _undo(self, now_ms: float) -> None:
        over = [fault for end_ms, fault in self._active if end_ms <= now_ms]
        self._active = [(end_ms, fault) for end_ms, fault in self._active if end_ms > now_ms]
        for fault in over:
            await fault.undo()

"""Clocks: wall time may jump, monotonic time and timers do not notice."""

import asyncio
import time

import pytest

from semel.world import Clock, RealClock, VirtualClock
from semel.world.clock import VIRTUAL_START_WALL_MS
from semel.world.loop import VirtualLoop, run_virtual
from tests.unit.world.stages import STAGES, Scene, play


@pytest.mark.parametrize("stage", STAGES)
def test_timers_run_in_order_and_cancelled_ones_never(stage: str) -> None:
    async def scenario(scene: Scene) -> None:
        clock, calls, done = scene.clock, list[str](), asyncio.Event()
        # Set in the order they are due: on a busy machine time passes between two of these lines. And uvloop may run
        # a timer of one millisecond before one of none.
        clock.call_later_ms(-5, lambda: calls.append("at once"))
        clock.call_later_ms(1, lambda: calls.append("first"))
        clock.call_later_ms(10, lambda: calls.append("never")).cancel()
        clock.call_later_ms(20, lambda: calls.append("second"))
        clock.call_later_ms(40, done.set)
        before = clock.monotonic_ms()
        await done.wait()
        assert sorted(calls) == ["at once", "first", "second"]
        assert calls.index("first") < calls.index("second")
        assert clock.monotonic_ms() >= before

    play(stage, scenario)


@pytest.mark.parametrize("stage", STAGES)
def test_sleeping_for_nothing_lets_others_run(stage: str) -> None:
    async def scenario(scene: Scene) -> None:
        calls: list[str] = []
        asyncio.get_running_loop().call_soon(calls.append, "other")
        await scene.clock.sleep_ms(-1)
        assert calls == ["other"]

    play(stage, scenario)


def test_the_real_wall_clock_is_the_machines() -> None:
    before = time.time_ns() // 1_000_000
    assert before <= RealClock().wall_ms() <= time.time_ns() // 1_000_000


def test_virtual_time_passes_exactly_and_costs_nothing() -> None:
    async def main(loop: VirtualLoop) -> None:
        clock: Clock = VirtualClock(loop)
        assert clock.wall_ms() == VIRTUAL_START_WALL_MS
        for ms in (1, 2, 998, 3_600_000):
            before = clock.wall_ms()
            await clock.sleep_ms(ms)
            assert clock.wall_ms() - before == ms
        assert round(clock.monotonic_ms(), 2) == 3_601_001

    run_virtual(1, main)


def test_virtual_timers_run_when_they_are_due_however_they_were_set() -> None:
    async def main(loop: VirtualLoop) -> list[int]:
        clock, calls = VirtualClock(loop), list[int]()
        for ms in (30, 10, 20, 40, 0):
            clock.call_later_ms(ms, lambda ms=ms: calls.append(ms))  # type: ignore[misc]
        await clock.sleep_ms(35)
        return calls

    assert run_virtual(1, main) == [0, 10, 20, 30]


def test_a_jump_moves_one_wall_clock_and_nothing_else() -> None:
    async def main(loop: VirtualLoop) -> None:
        jumping, steady = VirtualClock(loop), VirtualClock(loop)
        rang: list[float] = []
        jumping.call_later_ms(1000, lambda: rang.append(steady.monotonic_ms()))
        jumping.jump_ms(3_600_000)
        assert jumping.wall_ms() - steady.wall_ms() == 3_600_000
        jumping.jump_ms(-7_200_000)
        assert jumping.wall_ms() - steady.wall_ms() == -3_600_000
        assert jumping.monotonic_ms() == steady.monotonic_ms() == 0
        await steady.sleep_ms(999)
        assert rang == []
        await steady.sleep_ms(2)
        assert [round(ms, 3) for ms in rang] == [1000]

    run_virtual(1, main)


def test_the_wall_clock_does_not_lose_a_millisecond_to_rounding() -> None:
    async def main(loop: VirtualLoop) -> None:
        loop._now_s = 1.001  # times 1000 this is a little less than 1001
        assert VirtualClock(loop, start_wall_ms=0).wall_ms() == 1001

    run_virtual(1, main)

"""The virtual loop: jumps, ends and limits."""

import asyncio

import pytest

from semel.errors import ConfigError
from semel.world import VirtualLoop, VirtualRunError, run_virtual
from semel.world.loop import VIRTUAL_MS_LIMIT


def test_years_take_no_time_when_allowed() -> None:
    async def main(loop: VirtualLoop) -> float:
        await asyncio.sleep(700 * 24 * 3600)
        await asyncio.sleep(0.001)
        return round(loop.time(), 4)

    assert run_virtual(1, main, virtual_ms_max=VIRTUAL_MS_LIMIT, steps_max=100) == 700 * 24 * 3600 + 0.001
    with pytest.raises(ConfigError, match="two years"):
        run_virtual(1, main, virtual_ms_max=VIRTUAL_MS_LIMIT + 1)


def test_callbacks_made_ready_run_in_the_order_they_were_given() -> None:
    async def main(loop: VirtualLoop) -> list[int]:
        calls: list[int] = []
        for number in range(50):
            loop.call_soon(calls.append, number)
        await asyncio.sleep(0)
        return calls

    assert run_virtual(3, main) == list(range(50))


def test_timers_of_one_moment_run_in_an_order_that_the_seed_decides() -> None:
    async def main(loop: VirtualLoop) -> list[int]:
        calls: list[int] = []
        for number in range(20):
            loop.call_later(1, calls.append, number)
        loop.call_later(1.00001, calls.append, 99)
        await asyncio.sleep(2)
        return calls

    assert run_virtual(1, main) == run_virtual(1, main)
    assert len({tuple(run_virtual(seed, main)) for seed in range(5)}) == 5
    assert sorted(run_virtual(1, main)) == [*range(20), 99]
    assert run_virtual(1, main)[-1] == 99


def test_a_deadlock_is_named_with_who_waits() -> None:
    async def wait_in_vain() -> None:
        await asyncio.Event().wait()

    async def main(loop: VirtualLoop) -> None:
        await asyncio.create_task(wait_in_vain(), name="the waiter")

    with pytest.raises(VirtualRunError, match=r"stuck(?s:.)*seed 5(?s:.)*the waiter in .*wait_in_vain"):
        run_virtual(5, main)


def test_spinning_runs_into_the_limit_of_steps() -> None:
    async def main(loop: VirtualLoop) -> None:
        while loop.is_running():
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    with pytest.raises(VirtualRunError, match="more than 1000 steps"):
        run_virtual(1, main, steps_max=1000)


def test_waiting_for_ever_runs_into_the_limit_of_time() -> None:
    async def main(loop: VirtualLoop) -> None:
        while loop.is_running():
            await asyncio.sleep(1)
            await asyncio.sleep(1)

    with pytest.raises(VirtualRunError, match="past 5000 ms"):
        run_virtual(1, main, virtual_ms_max=5000)


def test_what_main_leaves_running_is_cancelled_oldest_first() -> None:
    ended: list[int] = []

    async def linger(number: int) -> None:
        try:
            await asyncio.sleep(10_000)
        finally:
            ended.append(number)

    async def main(loop: VirtualLoop) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(linger(number)) for number in range(100)]
        await asyncio.sleep(0)
        return tasks

    tasks = run_virtual(1, main)
    assert ended == list(range(100))
    assert [task.get_name() for task in tasks[:2]] == ["virtual-2", "virtual-3"]


def test_an_error_of_main_comes_out() -> None:
    async def main(loop: VirtualLoop) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run_virtual(1, main)


def test_threads_and_sockets_are_refused() -> None:
    async def thread(loop: VirtualLoop) -> None:
        await asyncio.to_thread(print)

    async def server(loop: VirtualLoop) -> None:
        await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)

    async def client(loop: VirtualLoop) -> None:
        await asyncio.open_connection("127.0.0.1", 1)

    for main in (thread, server, client):
        with pytest.raises(VirtualRunError, match="do not exist in virtual time"):
            run_virtual(1, main)

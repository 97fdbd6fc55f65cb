"""Exchanges that begin outside of their task: what they see and how they end is what it would be inside of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from semel.broker.network.exchange import StartedExchange

Work = Callable[[], Coroutine[Any, Any, None]]


class Owner:
    """A task that rests until its work was started by the loop, then ends it."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._rest: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.started: StartedExchange | None = None
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def begin(self) -> StartedExchange:
        """Let the loop itself take the first step; the task is not woken."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[StartedExchange] = loop.create_future()
        loop.call_soon(lambda: done.set_result(StartedExchange(self._work(), self.task)))
        self.started = await done
        return self.started

    async def end(self) -> None:
        """Let the task go on to the end of the work."""
        self._rest.set_result(None)
        await self.task

    async def _run(self) -> None:
        await self._rest
        if self.started is not None:
            await self.started


def test_what_waits_for_nothing_ends_in_its_first_step() -> None:
    seen: list[object] = []

    async def work() -> None:
        seen.append(asyncio.current_task())

    async def main() -> None:
        owner = Owner(work)
        started = await owner.begin()
        assert started.finished
        assert seen == [owner.task]
        await owner.end()

    asyncio.run(main())


def test_what_waits_goes_on_in_the_task() -> None:
    steps: list[str] = []

    async def work() -> None:
        steps.append("first")
        for _ in range(3):
            await asyncio.sleep(0)
        async with asyncio.timeout(60):
            await asyncio.sleep(0.001)
        steps.append("last")

    async def main() -> None:
        owner = Owner(work)
        assert not (await owner.begin()).finished
        assert steps == ["first"]
        await owner.end()
        assert steps == ["first", "last"]

    asyncio.run(main())


def test_a_time_limit_that_began_outside_still_ends_the_work() -> None:
    limit = asyncio.Timeout(None)

    async def work() -> None:
        with pytest.raises(TimeoutError):
            async with limit:
                await asyncio.get_running_loop().create_future()

    async def main() -> None:
        owner = Owner(work)
        assert not (await owner.begin()).finished
        ending = asyncio.ensure_future(owner.end())
        await asyncio.sleep(0)  # the task is woken first, as a connection wakes it with the request
        limit.reschedule(asyncio.get_running_loop().time())
        await ending

    asyncio.run(main())


def test_an_error_of_the_first_step_is_raised_in_the_task() -> None:
    async def work() -> None:
        raise ValueError("first step")

    async def main() -> None:
        owner = Owner(work)
        assert not (await owner.begin()).finished
        with pytest.raises(ValueError, match="first step"):
            await owner.end()

    asyncio.run(main())


def test_what_it_waits_for_may_fail() -> None:
    async def main() -> None:
        waits_for: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            with pytest.raises(KeyError):
                await waits_for
            await asyncio.sleep(0)

        owner = Owner(work)
        assert not (await owner.begin()).finished
        waits_for.set_exception(KeyError())
        await owner.end()

    asyncio.run(main())


def test_cancelling_the_task_cancels_the_work() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def main() -> None:
        owner = Owner(work)
        assert not (await owner.begin()).finished
        ending = asyncio.get_running_loop().create_task(owner.end())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        owner.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        assert ended == ["cancelled"]

    asyncio.run(main())


def test_close_gives_up_what_was_begun() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("closed")

    async def main() -> None:
        owner = Owner(work)
        (await owner.begin()).close()
        assert ended == ["closed"]
        owner.started = None
        await owner.end()

    asyncio.run(main())

"""An asyncio loop in virtual time: when nothing is ready it jumps to the next timer.

Keeps: one seed, one run: the order of callbacks, the times and the task names repeat from run to run.
Why:   timers set for the same moment run in an order drawn from the seed, so that different seeds try different
       interleavings; `call_soon` stays first in, first out, which asyncio promises and programs rely on.
       A program can still break the rule by itself: do not loop over a set whose order depends on hashes.
Limits: no sockets, threads or signals. A run that has nothing left to wait for, or passes the limits, raises
       VirtualRunError instead of hanging.
"""

import asyncio
import contextvars
import weakref
from asyncio import base_events
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from semel.errors import ConfigError, SemelError
from semel.world.rng import SeededRng

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

VIRTUAL_MS_MAX = 24 * 3600 * 1000.0
STEPS_MAX = 5_000_000
CLEANUP_STEPS_MAX = 100_000
# Far below the microsecond that clocks show, far above what a float loses in days of virtual time.
TIE_BREAK_S_MAX = 1e-7
RESOLUTION_S = 1e-8
# Beyond this a float of seconds is coarser than the resolution, and a timer could be due and never run.
VIRTUAL_MS_LIMIT = 2 * 365 * 24 * 3600 * 1000.0


class VirtualRunError(SemelError):
    """A program in virtual time got stuck, or went past a limit."""


class VirtualLoop(base_events.BaseEventLoop):
    """Runs callbacks and timers only; time moves when nothing is ready."""

    def __init__(self, seed: int, *, virtual_ms_max: float = VIRTUAL_MS_MAX, steps_max: int = STEPS_MAX) -> None:
        """`steps_max` bounds the passes over ready callbacks, `virtual_ms_max` the virtual time."""
        super().__init__()
        if virtual_ms_max > VIRTUAL_MS_LIMIT:
            self.close()
            raise ConfigError("virtual time ends after two years", you_wrote=f"virtual_ms_max={virtual_ms_max:g}")
        self._clock_resolution = RESOLUTION_S
        self.seed = seed
        self.steps = 0
        self.steps_max = steps_max
        self.virtual_ms_max = virtual_ms_max
        self._now_s = 0.0
        self._ties = SeededRng(seed).fork("loop ties")
        self._task_count = 0
        self._task_numbers: weakref.WeakKeyDictionary[asyncio.Future[Any], int] = weakref.WeakKeyDictionary()
        self._selector = _Idle(self)

    def time(self) -> float:
        """Seconds of virtual time since the loop was made."""
        return self._now_s

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a timer; among timers of the same moment the seed decides."""
        return super().call_at(when + self._ties.uniform(0, TIE_BREAK_S_MAX), callback, *args, context=context)

    def create_task(
        self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], *, name: object = None, **options: Any
    ) -> asyncio.Task[T]:
        """Start a task; a default name counts from this loop's start, not from the process's."""
        self._task_count += 1
        task = super().create_task(coro, name=name or f"virtual-{self._task_count}", **options)
        self._task_numbers[task] = self._task_count
        return task

    def tasks_in_order(self) -> list[asyncio.Task[Any]]:
        """Tasks that are not done, oldest first."""
        return sorted(asyncio.all_tasks(self), key=lambda task: self._task_numbers.get(task, 0))

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:  # noqa: ARG002
        """Refuse: a thread would run in real time."""
        raise VirtualRunError("threads do not exist in virtual time", because="run_in_executor was called")

    async def create_connection(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: a socket would run in real time."""
        raise VirtualRunError("sockets do not exist in virtual time", because="create_connection was called")

    async def create_server(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: a socket would run in real time."""
        raise VirtualRunError("sockets do not exist in virtual time", because="create_server was called")

    def _step(self, timeout_s: float | None) -> None:
        self.steps += 1
        if self.steps > self.steps_max:
            self._fail(f"the virtual run took more than {self.steps_max} steps", "some task may be spinning")
        if timeout_s is None:
            self._fail("the virtual run is stuck: nothing is ready and no timer is set", self._waiting_tasks())
        if timeout_s > 0:
            self._advance(timeout_s)

    def _advance(self, timeout_s: float) -> None:
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        # The timer's own moment, not now + timeout: rounding could end a hair before it and spin.
        self._now_s = scheduled[0].when() if scheduled else self._now_s + timeout_s
        if self._now_s * 1000 > self.virtual_ms_max:
            self._fail(f"the virtual run went past {self.virtual_ms_max:.0f} ms of virtual time", self._waiting_tasks())

    def _fail(self, summary: str, because: str) -> NoReturn:
        raise VirtualRunError(f"{summary} (seed {self.seed}, step {self.steps}, {self._now_s:.6f} s)", because=because)

    def _waiting_tasks(self) -> str:
        waiting = [f"{task.get_name()} in {_where(task)}" for task in self.tasks_in_order()]
        return f"{len(waiting)} tasks wait: {', '.join(waiting[:20])}"

    def _process_events(self, event_list: list[object]) -> None:
        """Nothing to process: there are no descriptors."""

    def _write_to_self(self) -> None:
        """Nothing to wake up: the loop never blocks."""


class _Idle:
    """Stands where asyncio has its selector: called once per pass with how long there is to wait."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = weakref.ref(loop)

    def select(self, timeout_s: float | None) -> list[object]:
        loop = self._loop()
        assert loop is not None, "a loop outlives its own pass"
        loop._step(timeout_s)
        return []


def _where(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack(limit=1)
    coroutine = task.get_coro()
    name = getattr(coroutine, "__qualname__", repr(type(coroutine)))
    return f"{name}:{frames[0].f_lineno}" if frames else name


def run_virtual(
    seed: int,
    main: Callable[[VirtualLoop], Coroutine[Any, Any, T]],
    *,
    virtual_ms_max: float = VIRTUAL_MS_MAX,
    steps_max: int = STEPS_MAX,
) -> T:
    """Run `main(loop)` to its end in virtual time, then cancel what it left running."""
    loop = VirtualLoop(seed, virtual_ms_max=virtual_ms_max, steps_max=steps_max)
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main(loop))
    finally:
        try:
            _wind_down(loop)
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _wind_down(loop: VirtualLoop) -> None:
    """Cancel the rest, oldest first: asyncio's own runner does it in the order of a set."""
    loop.steps_max = loop.steps + CLEANUP_STEPS_MAX
    loop.virtual_ms_max = loop.time() * 1000 + VIRTUAL_MS_MAX
    left = loop.tasks_in_order()
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(_settle(left))
    loop.run_until_complete(loop.shutdown_asyncgens())


async def _settle(tasks: list[asyncio.Task[Any]]) -> None:
    results: list[Awaitable[Any]] = list(tasks)
    await asyncio.gather(*results, return_exceptions=True)

"""An asyncio loop in virtual time: when nothing is ready it jumps to the next timer.

Keeps: one seed, one run: the order of callbacks, the times and the task names repeat from run to run.
Why:   timers set for the same moment run in an order drawn from the seed, so that different seeds try different
       interleavings; `call_soon` stays first in, first out, which asyncio promises and programs rely on.
       A program can still break the rule by itself: do not loop over a set whose order depends on hashes.
       Passes, timers and `call_soon` are asyncio's, without what only a loop with descriptors and a debug mode needs:
       a simulation spends much of its time in them.
Limits: no sockets, threads or signals. A run that has nothing left to wait for, or passes the limits, raises
       VirtualRunError instead of hanging.
"""

import asyncio
import contextvars
import weakref
from asyncio import base_events
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from heapq import heappop, heappush
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

    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(self, seed: int, *, virtual_ms_max: float = VIRTUAL_MS_MAX, steps_max: int = STEPS_MAX) -> None:
        """`steps_max` bounds the passes over ready callbacks, `virtual_ms_max` the virtual time."""
        super().__init__()
        if virtual_ms_max > VIRTUAL_MS_LIMIT:
            self.close()
            raise ConfigError("virtual time ends after two years", you_wrote=f"virtual_ms_max={virtual_ms_max:g}")
        self.seed = seed
        self.steps = 0
        self.steps_max = steps_max
        self.virtual_ms_max = virtual_ms_max
        self._now_s = 0.0
        self._ties = SeededRng(seed).fork("loop ties")
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_count = 0
        # Weak, as in asyncio: a task that is done must not keep alive what it worked with.
        self._tasks: list[weakref.ref[asyncio.Task[Any]]] = []

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
        when += self._ties.uniform(0, TIE_BREAK_S_MAX)
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timer_count += 1
        # The count stands before the handle: two timers of exactly one moment keep the order in which they were set.
        heappush(self._timers, (when, self._timer_count, timer))
        return timer

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Run in the next pass."""
        made = asyncio.Handle(callback, args, self, context)
        self._ready.append(made)
        return made

    def create_task(
        self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], *, name: object = None, **options: Any
    ) -> asyncio.Task[T]:
        """Start a task; a default name counts from this loop's start, not from the process's."""
        task = super().create_task(coro, name=name or f"virtual-{len(self._tasks) + 1}", **options)
        self._tasks.append(weakref.ref(task))
        return task

    def tasks_in_order(self) -> list[asyncio.Task[Any]]:
        """Tasks that are not done, oldest first."""
        return [task for reference in self._tasks if (task := reference()) is not None and not task.done()]

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:  # noqa: ARG002
        """Refuse: a thread would run in real time."""
        raise VirtualRunError("threads do not exist in virtual time", because="run_in_executor was called")

    async def create_connection(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: a socket would run in real time."""
        raise VirtualRunError("sockets do not exist in virtual time", because="create_connection was called")

    async def create_server(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: a socket would run in real time."""
        raise VirtualRunError("sockets do not exist in virtual time", because="create_server was called")

    def _run_once(self) -> None:
        """One pass: time moves if nothing is ready, timers that are due become ready, and what is ready now runs."""
        self.steps += 1
        if self.steps > self.steps_max:
            self._fail(f"the virtual run took more than {self.steps_max} steps", "some task may be spinning")
        ready, timers = self._ready, self._timers
        # Cancelled timers on top would let time jump to moments at which nothing happens.
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if not ready and not self._stopping:
            self._advance()
        due_s = self._now_s + RESOLUTION_S
        while timers and timers[0][0] < due_s:
            ready.append(heappop(timers)[2])
        # Only what is ready now: callbacks that these add run in the next pass, as in asyncio.
        for _ in range(len(ready)):
            callback = ready.popleft()
            if not callback._cancelled:
                callback._run()

    def _advance(self) -> None:
        if not self._timers:
            self._fail("the virtual run is stuck: nothing is ready and no timer is set", self._waiting_tasks())
        self._now_s = max(self._now_s, self._timers[0][0])
        if self._now_s * 1000 > self.virtual_ms_max:
            self._fail(f"the virtual run went past {self.virtual_ms_max:.0f} ms of virtual time", self._waiting_tasks())

    def _fail(self, summary: str, because: str) -> NoReturn:
        raise VirtualRunError(f"{summary} (seed {self.seed}, step {self.steps}, {self._now_s:.6f} s)", because=because)

    def _waiting_tasks(self) -> str:
        waiting = [f"{task.get_name()} in {_where(task)}" for task in self.tasks_in_order()]
        return f"{len(waiting)} tasks wait: {', '.join(waiting[:20])}"

    def _write_to_self(self) -> None:
        """Nothing to wake up: the loop never blocks."""


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
            _cancel_tasks(loop)
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _cancel_tasks(loop: VirtualLoop) -> None:
    """Cancel the rest, oldest first: asyncio's own runner does it in the order of a set."""
    # Fresh limits: a run that ended by passing one could not be cleaned up otherwise.
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

"""`Worker`: the one thread in which an asyncio client does what blocks, one thing after the other.

Why: a task that is cancelled stops waiting, but nothing can stop what its thread is doing. So whatever has begun goes
     on to its end, in order, and what must happen all the same (close, commit, abort) is not given up with the task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar

from semel.clients.library import close_refusal, fork_refusal, log, tell_of_forks
from semel.errors import SemelError


class Closes(Protocol):
    """A client."""

    def close(self) -> None:
        """End."""


P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=Closes)


class Worker:
    """A thread of a client's own."""

    def __init__(self, what: str) -> None:
        """`what` is the client: "consumer" or "producer"."""
        self._what = what
        # One thread: confluent-kafka's objects may be used by several, but the order of calls would be lost.
        self._threads = ThreadPoolExecutor(1, f"semel-{what}")
        self._ended: SemelError | None = None
        tell_of_forks(self)

    def submit(self, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> Future[T]:
        """Let it be done after what was asked for before, also when nobody waits for it."""
        if self._ended is not None:
            raise self._ended
        return self._threads.submit(call, *arguments, **named)

    async def run(self, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Wait for it. A task that is cancelled before it began takes it back; what has begun is done to its end."""
        return await asyncio.wrap_future(self.submit(call, *arguments, **named))

    async def finish(self, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Wait for it. It is done to its end even when the task is cancelled; then its error is logged, not lost."""
        asked = self.submit(call, *arguments, **named)
        try:
            return await asyncio.shield(asyncio.wrap_future(asked))
        except asyncio.CancelledError:
            asked.add_done_callback(_log_error)
            raise

    async def open(self, make: Callable[[], C]) -> C:
        """Make the client; when nobody waits for it any more, it is closed again and holds nothing.

        Opening it again waits for that: two owners of one transactional id would fence each other.
        """
        making = self.submit(make)
        try:
            return await asyncio.wrap_future(making)
        except BaseException:
            self.submit(_close, making)
            raise

    def usable(self) -> Worker:
        """This one, or, after its end, one whose first work is to wait until this one has done all of its own.

        A task that was cancelled while it closed a client may open it again at once: the old client ends first.
        """
        if self._ended is None:
            return self
        successor = Worker(self._what)
        successor.submit(self._threads.shutdown)
        return successor

    def forked(self) -> None:
        """In a child process: the thread stayed in the parent, and whatever is asked for would never be done."""
        self._ended = fork_refusal(self._what)

    def end(self) -> None:
        """Take nothing more; the thread ends when it has done what was asked for."""
        self._ended = close_refusal(self._what)
        self._threads.shutdown(wait=False)


def _log_error(asked: Future[T]) -> None:
    error = asked.exception()
    if error is not None:
        log.error("what a cancelled task left behind has failed: %s", error)


def _close(making: Future[C]) -> None:
    try:
        made = making.result()
    except (Exception, CancelledError):  # noqa: BLE001 - raised for the one who waited, if anybody did
        return
    try:
        made.close()
    except SemelError as error:
        log.warning("a client that nobody waited for was closed with an error: %s", error)

"""Answers a request in the loop's call that brings it, without waking a task; what has to wait goes on in a task.

Why: most requests wait for nothing. To wake a task for each would cost more than the broker's own work on many of them.
     While the first step runs, the connection's task counts as the current one, as it does for all other steps.
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Coroutine, Generator
from typing import Any


class StartedExchange:
    """A coroutine after its first step: finished, failed, or to be awaited by the task it belongs to."""

    __slots__ = ("_coroutine", "_error", "_waits_for", "finished")

    def __init__(self, coroutine: Coroutine[Any, Any, None], task: asyncio.Task[Any]) -> None:
        """Take the first step; the task must be waiting, and no other one running."""
        self._coroutine = coroutine
        self._error: Exception | None = None
        self._waits_for: object = None
        self.finished = False
        loop = task.get_loop()
        _enter_task(loop, task)
        try:
            self._waits_for = coroutine.send(None)
        except StopIteration:
            self.finished = True
        except Exception as error:  # noqa: BLE001 - raised again where the task awaits it
            self._error = error
        finally:
            _leave_task(loop, task)

    def __await__(self) -> Generator[Any, Any, None]:
        """Go on from the first step."""
        if self.finished:
            return
        if self._error is not None:
            raise self._error
        waits_for = self._waits_for
        try:
            while True:
                try:
                    yield waits_for
                except BaseException as error:  # noqa: BLE001 - what it waited for failed, or the task is cancelled
                    waits_for = self._coroutine.throw(error)
                else:
                    waits_for = self._coroutine.send(None)
        except StopIteration:
            return

    def close(self) -> None:
        """Give up what has not ended."""
        self._coroutine.close()

"""Background work of the broker shell: started here, its errors logged, all of it cancelled at the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine

log = logging.getLogger("semel.broker")


class Tasks:
    """A set of running tasks."""

    def __init__(self) -> None:
        """Start with none."""
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[object, object, None]) -> None:
        """Run this in the background."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("background work failed", exc_info=task.exception())

    def cancel(self) -> None:
        """Stop everything."""
        for task in self._running:
            task.cancel()

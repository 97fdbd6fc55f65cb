"""Background work of the broker shell: started here, its errors logged, all of it cancelled at the end.

Why: tasks are kept in the order they began, not in a set: the order of cancelling must repeat under one seed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine

log = logging.getLogger("semel.broker")


class Tasks:
    """The running tasks, oldest first."""

    def __init__(self) -> None:
        """Start with none."""
        self._running: dict[asyncio.Task[None], None] = {}  # in the order they were started

    def start(self, work: Coroutine[object, object, None]) -> None:
        """Run this in the background."""
        # The loop itself keeps only a weak reference: a task that nobody holds can be collected while it runs.
        task = asyncio.get_running_loop().create_task(work)
        self._running[task] = None
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        # Nobody awaits these tasks, so an error would only show when Python collects them.
        if not task.cancelled() and task.exception() is not None:
            log.error("background work failed", exc_info=task.exception())

    def cancel(self) -> None:
        """Stop everything."""
        for task in tuple(self._running):
            task.cancel()

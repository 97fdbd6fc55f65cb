"""The accepting side of a listener, for both networks: one task per connection, a limit on them, an orderly end.

Keeps: an error in one connection's task ends that connection only, and is one logged line.
"""

import asyncio
import logging
from typing import Protocol

from semel.errors import ConnectionFailure, ProtocolError
from semel.world.network import Connection, Serve

CANCEL_MS_MAX = 1_000

log = logging.getLogger("semel.world")


class ServedConnection(Connection, Protocol):
    """A connection whose last bytes can be waited for."""

    async def wait_lost(self) -> None:
        """Return when nothing of the connection is left."""


class ConnectionTasks:
    """The connections of one listener, in the order they came."""

    def __init__(self, serve: Serve, *, connections_max: int) -> None:
        """`serve` runs once per connection."""
        self._serve = serve
        self._connections_max = connections_max
        self._tasks: dict[ServedConnection, asyncio.Task[None]] = {}
        self._closing = False
        self._refusing = False

    def admit(self, connection: ServedConnection) -> None:
        """Serve a new connection in a task of its own, or close it at once when there are too many."""
        if self._closing or len(self._tasks) >= self._connections_max:
            self._say_refusing()
            connection.abort()
            return
        self._refusing = False
        task = asyncio.get_running_loop().create_task(self._run(connection))
        self._tasks[connection] = task
        task.add_done_callback(lambda _: self._forget(connection))

    async def close(self, *, grace_ms: float) -> None:
        """Close every connection and end its task: first asked, after the grace cancelled."""
        self._closing = True
        if grace_ms > 0:
            for connection in list(self._tasks):
                connection.close()
            await self._wait_for_tasks(grace_ms)
        for connection, task in list(self._tasks.items()):
            connection.abort()
            if task is not asyncio.current_task():
                task.cancel()
        await self._wait_for_tasks(CANCEL_MS_MAX)

    async def _wait_for_tasks(self, timeout_ms: float) -> None:
        # A connection may close its own listener (a fault hook does): waiting for itself would never end.
        others = [task for task in self._tasks.values() if task is not asyncio.current_task()]
        if others:
            await asyncio.wait(others, timeout=timeout_ms / 1000)

    async def _run(self, connection: ServedConnection) -> None:
        try:
            await self._serve_logged(connection)
            connection.close()
            await connection.wait_lost()
        finally:
            connection.abort()

    async def _serve_logged(self, connection: ServedConnection) -> None:
        try:
            await self._serve(connection)
        except (ConnectionFailure, ProtocolError) as error:
            log.info("connection from %s: %s", connection.peer, error.summary)
        except Exception as error:
            log.error("connection from %s: %s: %s", connection.peer, type(error).__name__, error)  # noqa: TRY400 - one line
            log.debug("traceback of the line above", exc_info=error)

    def _forget(self, connection: ServedConnection) -> None:
        self._tasks.pop(connection, None)
        connection.abort()  # a task that was cancelled before it began has closed nothing

    def _say_refusing(self) -> None:
        if not self._refusing and not self._closing:
            log.warning("connections are refused: there are %d already", len(self._tasks))
            self._refusing = True

"""The accepting side of a listener, for both networks: one task per connection, a limit on them, an orderly end.

Keeps: an error in one connection's task ends that connection only, and is one logged line.
"""

import asyncio
import logging
from collections.abc import Callable
from threading import Lock
from typing import Protocol

from semel.errors import ConnectionFailure, ProtocolError
from semel.world.network import Connection, Serve

CANCEL_MS_MAX = 1_000

log = logging.getLogger("semel.world")


class ServedConnection(Connection, Protocol):
    """A connection whose last bytes can be waited for."""

    async def wait_lost(self) -> None:
        """Return when nothing of the connection is left."""


class ConnectionLimit:
    """How many connections all listeners of a process have together, and may have."""

    def __init__(self, limit: Callable[[], int]) -> None:
        """`limit` is asked each time: it may change while the process runs."""
        self._limit = limit
        self._lock = Lock()  # each cluster of a process has its own thread
        self._taken = 0

    def take(self) -> bool:
        """Count one more connection, unless there are too many."""
        with self._lock:
            if self._taken >= self._limit():
                return False
            self._taken += 1
            return True

    def give_back(self) -> None:
        """Count one connection less."""
        with self._lock:
            self._taken -= 1


class ConnectionTasks:
    """The connections of one listener, in the order they came."""

    def __init__(self, serve: Serve, *, connections_max: int, limit: ConnectionLimit | None = None) -> None:
        """`serve` runs once per connection; `limit` is shared with other listeners."""
        self._serve = serve
        self._connections_max = connections_max
        self._limit = limit
        self._count = 0  # with those whose handshake is under way
        self._tasks: dict[ServedConnection, asyncio.Task[None]] = {}
        self._closing = False
        self._refusing = False

    def is_taken(self) -> bool:
        """Count one more connection, from its very first byte on; False when there are too many."""
        if (
            self._closing
            or self._count >= self._connections_max
            or (self._limit is not None and not self._limit.take())
        ):
            self._log_refusals()
            return False
        self._refusing = False
        self._count += 1
        return True

    def given_up(self) -> None:
        """A connection that was counted is gone."""
        self._count -= 1
        if self._limit is not None:
            self._limit.give_back()

    def admit(self, connection: ServedConnection) -> None:
        """Serve a new connection, or close it at once when there are too many."""
        if self.is_taken():
            self.serve(connection)
        else:
            connection.abort()

    def serve(self, connection: ServedConnection) -> None:
        """Serve a connection that was counted in a task of its own."""
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
            # The last answer may still be on its way: the connection counts until it is gone.
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
        if self._tasks.pop(connection, None) is not None:
            self.given_up()
        connection.abort()  # a task that was cancelled before it began has closed nothing

    def _log_refusals(self) -> None:
        if not self._refusing and not self._closing:
            log.warning("connections are refused: there are %d already", self._count)
            self._refusing = True

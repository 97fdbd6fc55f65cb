"""The connections of one process: one per thread and broker, kept between calls.

Why: a Spark worker process runs task after task; connecting and logging in for each would cost more than a small task.
     After a fork the child starts with none: two processes on one socket would read each other's answers.
"""

from __future__ import annotations

import threading
import time
from enum import Enum

from semel.errors import ConnectionFailure
from semel.wire.connection import Connection
from semel.wire.deadline import Deadline
from semel.wire.settings import WireSettings
from semel.wire.topology import BrokerAddress

REST_MS_MAX = 2_000


class Lane(Enum):
    """What a connection is for: a question must not wait behind data that is under way."""

    ASK = "ask"
    DATA = "data"


class ConnectionPool:
    """Connections by thread and address; a broker that could not be reached is left alone for a moment."""

    def __init__(self, settings: WireSettings) -> None:
        """Nothing is connected yet."""
        self._settings = settings
        self._lock = threading.Lock()
        self._by_thread: dict[int, dict[tuple[BrokerAddress, Lane], Connection]] = {}
        self._rests: dict[BrokerAddress, float] = {}

    def get(self, address: BrokerAddress, lane: Lane, deadline: Deadline) -> Connection:
        """Give this thread's connection, made now if need be."""
        own = self._own()
        found = own.get((address, lane))
        # A broker closes idle connections. Noticed before the request leaves, that
        # costs a reconnect and no doubt about it.
        if found is not None and found.usable:
            return found
        if found is not None:
            found.close()
            del own[address, lane]
        made = own[address, lane] = self._open(address, deadline)
        return made

    def idle_ones(self) -> list[Connection]:
        """This thread's connections that can take a request and wait for no answer."""
        return [each for each in self._own().values() if not each.under_way and each.usable]

    def rests(self, address: BrokerAddress) -> bool:
        """Whether this broker could not be reached a moment ago: others go first."""
        return time.monotonic() < self._rests.get(address, 0.0)

    def close(self) -> None:
        """Close the connections of all threads."""
        with self._lock:
            threads, self._by_thread = self._by_thread, {}
        for connections in threads.values():
            for connection in connections.values():
                connection.close()

    def _open(self, address: BrokerAddress, deadline: Deadline) -> Connection:
        try:
            made = Connection.open(address, self._settings, deadline)
        except ConnectionFailure:
            # Not longer than a retry would wait, or a broker that is back would not be asked.
            rest_s = min(REST_MS_MAX, self._settings.retry_backoff_ms_max) / 1000
            self._rests[address] = time.monotonic() + rest_s
            raise
        self._rests.pop(address, None)
        return made

    def _own(self) -> dict[tuple[BrokerAddress, Lane], Connection]:
        # Without the lock: nobody but this thread makes or changes its entry.
        own = self._by_thread.get(threading.get_ident())
        if own is None:
            with self._lock:
                # Their sockets would stay open until the process ends.
                self._let_go_of_ended_threads()
                own = self._by_thread.setdefault(threading.get_ident(), {})
        return own

    def _let_go_of_ended_threads(self) -> None:
        alive = {thread.ident for thread in threading.enumerate()}
        for ident in [ident for ident in self._by_thread if ident not in alive]:
            for connection in self._by_thread.pop(ident).values():
                connection.close()

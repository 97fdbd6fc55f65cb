"""`LimitedCalls`: calls of the library that may never come back, in a thread that can be left behind.

Why: librdkafka keeps its time limits, but one. When the group's coordinator has left the cluster,
     `send_offsets_to_transaction` waits for it for ever, whatever limit it was given (confluentinc/librdkafka, issues
     5456 and 5511). Nothing can end that call; but a thread can be left in it, and a user cannot. The thread is kept
     from call to call: starting one costs as much as a small transaction.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

Call = Callable[[], object]


class LimitPassed(Exception):
    """The call has not come back; its thread is still in it."""


class LimitedCalls:
    """A thread that makes one call after the other, while its user waits for each; it ends with its owner."""

    def __init__(self) -> None:
        """No thread yet."""
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._ends: SimpleQueue[BaseException | None] = SimpleQueue()
        self._is_running = False

    def call(self, wait_s_max: float, function: Callable[..., object], *arguments: Any) -> None:
        """Make the call and wait for its end; LimitPassed past the limit, after which this is of no more use."""
        if not self._is_running:
            self._is_running = True
            weakref.finalize(self, self._calls.put, None)
            threading.Thread(
                target=_serve, args=(self._calls, self._ends), name="semel-limited-calls", daemon=True
            ).start()
        self._calls.put(partial(function, *arguments))
        try:
            error = self._ends.get(timeout=wait_s_max)
        except Empty:
            raise LimitPassed from None
        if error is not None:
            raise error


def _serve(calls: SimpleQueue[Call | None], ends: SimpleQueue[BaseException | None]) -> None:
    while (call := calls.get()) is not None:
        error = _error_of(call)
        del call  # whoever waits may free the client next
        ends.put(error)
        del error


def _error_of(call: Call) -> BaseException | None:
    try:
        call()
    except BaseException as error:  # noqa: BLE001 - raised where it is waited for
        return error
    return None

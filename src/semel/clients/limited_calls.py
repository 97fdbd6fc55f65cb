"""`LimitedCalls`: calls of the library that may never come back, in a thread that can be left behind.

Why: librdkafka keeps its time limits, but some. When the group's coordinator has left the cluster,
     `send_offsets_to_transaction` waits for it for ever, whatever limit it was given (confluentinc/librdkafka, issues
     5456 and 5511); a consumer's `commit` and `close` have no limit at all. Nothing can end such a call; but a thread
     can be left in it, and a user cannot. The thread is kept from call to call: starting one costs as much as a small
     transaction.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

Call = Callable[[], object]
Asked = tuple[int, Call]
Ended = tuple[int, BaseException | None]


class LimitPassed(Exception):
    """The call has not come back; its thread is still in it, or in the one before."""


class LimitedCalls:
    """A thread that makes one call after the other, while its user waits for each; it ends with its owner."""

    def __init__(self) -> None:
        """No thread yet."""
        self._calls: SimpleQueue[Asked | None] = SimpleQueue()
        self._ends: SimpleQueue[Ended] = SimpleQueue()
        self._asked = self._ended = 0  # how many calls
        self._thread: threading.Thread | None = None

    def call(self, wait_s_max: float, function: Callable[..., object], *arguments: Any) -> None:
        """Make the call and wait for its end; LimitPassed past the limit.

        A call that was left behind, by its limit or by an interrupt, is made to its end first; nobody is told of that.
        """
        deadline = time.monotonic() + wait_s_max
        if self._thread is threading.current_thread():  # a callback of the library asks
            function(*arguments)
            return
        if self._thread is None:
            # The thread must not hold its owner, or neither would ever end. So it gets the two queues only.
            weakref.finalize(self, self._calls.put, None)
            self._thread = threading.Thread(
                target=_serve, args=(self._calls, self._ends), name="semel-limited-calls", daemon=True
            )
            self._thread.start()
        self._asked += 1
        self._calls.put((self._asked, partial(function, *arguments)))
        error = self._wait_until(deadline)
        if error is not None:
            raise error

    def wait(self, wait_s_max: float) -> None:
        """Wait until nothing is under way that was left behind; LimitPassed past the limit."""
        self._wait_until(time.monotonic() + wait_s_max)

    @property
    def is_busy(self) -> bool:
        """Whether a call that was left behind is still under way."""
        try:
            self.wait(0)
        except LimitPassed:
            return True
        return False

    def _wait_until(self, deadline: float) -> BaseException | None:
        """What became of the last call; those that were left behind end before it."""
        error = None
        # By number: the end of a call that was left behind must not be taken for that of the present one.
        while self._ended != self._asked:
            try:
                self._ended, error = self._ends.get(timeout=max(deadline - time.monotonic(), 0))
            except Empty:
                raise LimitPassed from None
        return error


def _serve(calls: SimpleQueue[Asked | None], ends: SimpleQueue[Ended]) -> None:
    while (asked := calls.get()) is not None:
        number, call = asked
        error = _error_of(call)
        del asked, call  # the one who waits may free the client next
        ends.put((number, error))
        del error


def _error_of(call: Call) -> BaseException | None:
    try:
        call()
    except BaseException as error:  # noqa: BLE001 - raised where it is waited for
        return error
    return None

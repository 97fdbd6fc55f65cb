"""`interrupts_put_off`: no signal's handler runs while the library, or something else that must not be torn, is called.

Why: Python runs the handlers of signals between any two steps of the main thread, so also in a callback that librdkafka
     calls. confluent-kafka loses what is raised there: KeyboardInterrupt becomes a SystemError without a cause, and a
     Ctrl-C looks like the end of the producer.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

PUT_OFF = (signal.SIGINT, signal.SIGTERM)


class PutOff:
    """The interrupts that wait, and whether they may come in for a while."""

    def __init__(self) -> None:
        """None came."""
        # Ignored ones stay ignored; None is a handler that Python did not set, and cannot set again.
        self.handlers: dict[int, Any] = {
            one: handler for one in PUT_OFF if (handler := signal.getsignal(one)) not in (None, signal.SIG_IGN)
        }
        self.came: list[int] = []
        self._may_come_in = False

    def take(self, number: int, frame: FrameType | None) -> None:
        """A signal came: keep it for the end, or let its own handler run."""
        handler: Callable[[int, FrameType | None], object] | signal.Handlers = self.handlers[number]
        if not self._may_come_in:
            self.came.append(number)
        elif callable(handler):
            self._may_come_in = False  # what is raised now is cleaned up after, and that must not be torn
            handler(number, frame)
            self._may_come_in = True
        else:
            signal.signal(number, handler)  # the system's own, which ends the process
            signal.raise_signal(number)

    @contextmanager
    def let_in(self) -> Iterator[None]:
        """Let them come in while something is waited for that changes nothing; the first that raises is the last."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        try:
            self._may_come_in = True
            while self.came:
                self.take(self.came.pop(), None)
            yield
        finally:
            self._may_come_in = False


@contextmanager
def interrupts_put_off() -> Iterator[PutOff]:
    """Let Ctrl-C and SIGTERM wait until the end of this block, which must be short where it does not let them in."""
    put_off = PutOff()
    if threading.current_thread() is not threading.main_thread():
        yield put_off  # handlers run in the main thread alone
        return
    for one in put_off.handlers:
        # Kept and raised again at the end, so that no Ctrl-C is lost.
        signal.signal(one, put_off.take)
    try:
        yield put_off
    finally:
        for one, handler in put_off.handlers.items():
            signal.signal(one, handler)
        for number in put_off.came:
            signal.raise_signal(number)

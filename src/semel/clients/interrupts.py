"""`interrupts_put_off`: no signal's handler runs while the library, or something else that must not be torn, is called.

Why: Python runs the handlers of signals between any two steps of the main thread, so also in a callback that librdkafka
     calls. confluent-kafka loses what is raised there: KeyboardInterrupt becomes a SystemError without a cause, and a
     Ctrl-C looks like the end of the producer.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PUT_OFF = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupts_put_off() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait until the end of this block, which must be short."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread alone
        return
    came: list[int] = []
    # Ignored ones stay ignored; None is a handler that Python did not set, and cannot set again.
    handlers = {one: handler for one in PUT_OFF if (handler := signal.getsignal(one)) not in (None, signal.SIG_IGN)}
    for one in handlers:
        # Kept and raised again at the end, so that no Ctrl-C is lost.
        signal.signal(one, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for one, handler in handlers.items():
            signal.signal(one, handler)
        for number in came:
            signal.raise_signal(number)

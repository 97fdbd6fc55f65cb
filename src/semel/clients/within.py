"""`within`: a call of the library that may never come back, in a thread that can be left behind.

Why: librdkafka keeps its time limits, but one. When the group's coordinator has left the cluster,
     `send_offsets_to_transaction` waits for it for ever, whatever limit it was given (confluentinc/librdkafka, issues
     5456 and 5511). Nothing can end that call; but a thread can be left in it, and a user cannot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any


class Overrun(Exception):
    """The call has not come back; its thread is still in it."""


def within(wait_s_max: float, call: Callable[..., object], *arguments: Any) -> None:
    """Make the call and wait for its end; Overrun past the limit, or whatever the call raises."""
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def run() -> None:
        try:
            call(*arguments)
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            ended.put(error)
        else:
            ended.put(None)

    threading.Thread(target=run, name="semel-within", daemon=True).start()
    try:
        error = ended.get(timeout=wait_s_max)
    except Empty:
        raise Overrun from None
    if error is not None:
        raise error

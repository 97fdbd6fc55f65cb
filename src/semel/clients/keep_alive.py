"""`KeepAlive`: polls in the place of a user who works on a batch for long, so that the group does not expel the member.

Why: librdkafka sends heartbeats by itself, but a member that does not poll for `max.poll.interval.ms` is expelled all
     the same, its batch goes to another, and both do the work. Quick users never meet this thread: it begins late.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class KeepAlive:
    """A thread that calls `poll` again and again while the user is busy for longer than `after_s`."""

    def __init__(self, poll: Callable[[], None], after_s: float) -> None:
        """`poll` should take a little while; it is called without any lock held."""
        self._poll = poll
        self._after_s = after_s
        self._changed = threading.Condition()
        self._since: float | None = None
        self._stopped = False
        self._thread: threading.Thread | None = None
        self.polls = 0
        self.is_awaited = False  # whether a rebalance waits for the user

    def busy(self) -> None:
        """The user got a batch. Nobody is woken: the thread looks at the time by itself."""
        self._since = time.monotonic()
        if self._thread is None:
            # A daemon, so that a program which forgot to close its consumer can still end.
            self._thread = threading.Thread(target=self._run, name="semel-keep-alive", daemon=True)
            self._thread.start()

    def back(self) -> None:
        """The user is back; `poll` may still be under way."""
        self._since = None
        if self.is_awaited:
            with self._changed:
                self._changed.notify_all()

    @property
    def is_busy(self) -> bool:
        """Whether the user is at work."""
        return self._since is not None

    def wait_until_back(self, wait_s_max: float) -> bool:
        """Wait until the user is back; False when the limit was over first."""
        with self._changed:
            self.is_awaited = True
            is_back = self._changed.wait_for(lambda: self._since is None or self._stopped, wait_s_max)
            self.is_awaited = False
            return is_back

    def stop(self) -> None:
        """End the thread."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while self._wait_until_due():
            self.polls += 1
            self._poll()

    def _wait_until_due(self) -> bool:
        """Return True when somebody should poll, False when it is over."""
        with self._changed:
            while not self._stopped:
                # Read once: the user's thread may set it to None between a test and its use.
                since = self._since
                left_s = self._after_s if since is None else since + self._after_s - time.monotonic()
                if left_s <= 0:
                    return True
                self._changed.wait(left_s)
            return False

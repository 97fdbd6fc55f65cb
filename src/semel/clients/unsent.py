"""Records of a producer that nobody closed: they are sent when the process ends, or the end says how many were not.

Why: librdkafka keeps records for `linger.ms` and longer, and forgets them without a word when the process ends or the
     producer is dropped. What a signal kills, or `multiprocessing` forks, ends without this: close the producer.
"""

from __future__ import annotations

import atexit
import sys
import time
import weakref
from typing import Any, NoReturn, TextIO

from semel.clients.delivery import Failures
from semel.clients.failures import Fate

_open: set[Unsent] = set()


class Unsent:
    """What one producer has still to send; told apart from the producer, which may be gone by then."""

    def __init__(self, producer: object, client: Any, fate: Fate, failures: Failures, wait_s_max: float) -> None:
        """Watch until `forget`."""
        self._client, self._fate, self._failures, self._wait_s_max = client, fate, failures, wait_s_max
        self._dropped = weakref.finalize(producer, self.send)
        # At the end of the process `_at_exit` does it for all producers, with one time limit.
        self._dropped.atexit = False
        _open.add(self)

    def forget(self) -> None:
        """The producer was closed, or belongs to another process."""
        self._dropped.detach()
        _open.discard(self)

    def send(self, since: float | None = None) -> bool:
        """Send what is left within the producer's limit; False, and words on stderr, when some are not in Kafka."""
        self.forget()
        limit_s = self._wait_s_max - (0 if since is None else time.monotonic() - since)
        left = self._fate.flush(self._client, max(limit_s, 0.0))
        failed = self._failures.take_unseen()
        if not left and not failed:
            return True
        lines = [f"semel: {left + len(failed)} records of a producer that was not closed are not known to be in Kafka"]
        if left:
            lines.append(f"  because     {left} have no result after {self._wait_s_max:g} s")
        if failed:
            lines.append(f"  because     {len(failed)} failed; the first: {failed[0].summary}")
        lines.append("  you want    with semel.Producer(…) as producer: …, or producer.close(), which raises this")
        if sys.stderr is not None:
            sys.stderr.write("\n".join(lines) + "\n")
        return False


class _LostAtExit:
    """Stands in for stdout: Python ends with code 120 when its last flush fails, and no handler can choose a code."""

    closed = False

    def __init__(self, stdout: TextIO) -> None:
        """What was printed is still printed."""
        self._stdout = stdout

    def write(self, text: str) -> int:
        """As before."""
        return self._stdout.write(text)

    def flush(self) -> NoReturn:
        """Fail, and say why."""
        self._stdout.flush()
        raise RuntimeError("records were lost at the end of the process: see above")


def _at_exit() -> None:
    since = time.monotonic()
    are_sent = [unsent.send(since) for unsent in list(_open)]
    if not all(are_sent) and sys.stdout is not None:
        sys.stdout = _LostAtExit(sys.stdout)


atexit.register(_at_exit)

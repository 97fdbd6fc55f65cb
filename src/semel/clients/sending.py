"""`Sender`: what a producer and a transaction share: hand records over, wait for room in the queue, serve reports.

Why: the way of one record through `Producer.send` or `Transaction.send` is the cost of semel over the bare library, so
     each is one call of the library, with positional arguments and no more of them than are needed, and everything
     that is rare is here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from semel.clients.failures import Fate, failure, failure_in
from semel.errors import BrokerError, ConfigError, Outcome, SemelError

Headers = Sequence[tuple[str, bytes | str | None]]
Payload = bytes | str | None

SERVE_EVERY = 1_000  # sends between two looks at the reports
SLICE_S = 0.02  # another thread may have served our report: look again that often
QUEUE_FULL, TIMED_OUT = -184, -185


class Sender:
    """Hands records to librdkafka."""

    def __init__(self, client: Any, wait_s_max: float, fate: Fate) -> None:
        """`client` is a confluent_kafka.Producer."""
        self._client = client
        self.produce: Callable[..., None] = client.produce  # replaced by a refusal when the time to send is over
        self.wait_s_max = wait_s_max
        self._fate = fate

    def _refuse(self, error: SemelError) -> None:
        """Let every send from now on raise this."""

        def refuse(*_: object) -> None:
            raise error

        self.produce = refuse

    def send_again(self, error: Exception, *record: object) -> None:
        """The library did not take a record: wait for room when that was all, or raise what it was."""
        if not isinstance(error, BufferError):
            raise self.send_failure(error, str(record[0])) from None
        deadline = time.monotonic() + self.wait_s_max
        while time.monotonic() < deadline:
            # The queue has room again only when reports are served: a record counts until its report was taken.
            self.serve(SLICE_S)
            try:
                self.produce(*record)
            except BufferError:
                continue
            return
        raise self.queue_full(str(record[0]))

    def queue_full(self, topic: str) -> BrokerError:
        """There was no room for a record as long as the limit allows."""
        return BrokerError(
            f"the queue was full for {self.wait_s_max:g} s, so a record for {topic} was not taken",
            code=QUEUE_FULL,
            outcome=Outcome.DID_NOT_HAPPEN,
            because="records are sent faster than the cluster takes them, or it cannot be reached",
            next_command="send slower, or raise wait_ms_max or queue.buffering.max.messages",
        )

    def send_failure(self, error: Exception, topic: str) -> SemelError:
        """What an exception of the library means for a record."""
        if isinstance(error, SemelError):
            return error
        found = failure_in(error)
        if found is not None:
            cause = self._fate.error or found
            return failure(cause, f"a record for {topic} was not taken", outcome=Outcome.DID_NOT_HAPPEN)
        return ConfigError(
            f"a record for {topic!r} cannot be sent: {error}",
            you_want="topic: str, value and key: bytes | str | None, headers: [(str, bytes), …]",
        )

    def serve(self, wait_s: float) -> None:
        """Serve delivery reports for a while, or until one came."""
        self._fate.serve(self._client.poll, wait_s)

    def flush(self, wait_s_max: float | None = None) -> None:
        """Wait until everything sent has its result."""
        limit = self.wait_s_max if wait_s_max is None else wait_s_max
        left = self._fate.flush(self._client, limit)
        if left:
            raise BrokerError(
                f"{left} records have no result after {limit:g} s",
                code=TIMED_OUT,
                outcome=Outcome.UNKNOWN,
                next_command="flush again, or look at the cluster",
            )

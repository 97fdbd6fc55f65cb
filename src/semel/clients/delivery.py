"""`Delivery`: what becomes of one sent record: the callback that librdkafka calls, and the future to wait on.

Why: one object for each record is the price of a result for each; it must be the only one. There is no lock and no
     condition in it: whoever waits asks the library to serve its reports, and then looks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from semel.clients.failures import KafkaFailure, delivery_outcome, failure
from semel.errors import Outcome, SemelError

if TYPE_CHECKING:
    from confluent_kafka import Message


class Delivered(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    offset: int | None  # None with acks=0: nobody knows
    timestamp_ms: int | None


class Serves(Protocol):
    """Who can make delivery reports arrive."""

    def serve_until(self, delivery: Delivery, wait_s_max: float | None) -> None:
        """Serve reports until this one is there, or raise."""


class Delivery:
    """The result of one send, now or later."""

    __slots__ = ("_error", "_message", "_server")

    def __init__(self, server: Serves) -> None:
        """Nothing is known yet."""
        self._server = server
        self._message: Message | None = None
        self._error: KafkaFailure | None = None

    def __call__(self, error: KafkaFailure | None, message: Message) -> None:
        """Take the library's report."""
        self._error = error
        self._message = message

    @property
    def done(self) -> bool:
        """Whether the result is known; only `result`, `flush` and further sends make it so."""
        return self._message is not None

    def result(self, wait_s_max: float | None = None) -> Delivered:
        """Where the record is; raises the error that says what became of it otherwise. Waits up to the limit."""
        if self._message is None:
            self._server.serve_until(self, wait_s_max)
        error = self.error()
        if error is not None:
            raise error
        assert self._message is not None
        return delivered(self._message)

    def error(self) -> SemelError | None:
        """Why it failed and whether it may have happened; None when it did not fail, or nothing is known yet."""
        if self._error is None or self._message is None:
            return None
        return delivery_failure(self._error, self._message)


def delivered(message: Message) -> Delivered:
    """Read a report of success."""
    offset, (kind, at_ms) = message.offset(), message.timestamp()
    known = offset if offset is not None and offset >= 0 else None
    return Delivered(message.topic() or "", message.partition() or 0, known, at_ms if kind else None)


def delivery_failure(error: KafkaFailure, message: Message) -> SemelError:
    """Read a report of failure."""
    outcome = delivery_outcome(error)
    return failure(
        error,
        f"a record for {message.topic()} was not acknowledged",
        outcome=outcome,
        next_command="" if outcome is Outcome.DID_NOT_HAPPEN else "look in the topic before you send it again",
    )

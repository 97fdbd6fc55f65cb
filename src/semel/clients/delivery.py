"""`Delivery`: what becomes of one sent record: the callback that librdkafka calls, and the future to wait on.

Keeps: K2 a send has one outcome, and a failure that nobody looked at is told by the next flush.
Why:   one object for each record is the price of a result for each, so it is small: no constructor, no lock, numbers
       instead of the library's message, which would keep the record's bytes and the garbage collector busy. Whoever
       waits asks the library to serve its reports, and then looks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

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

    def note_failure(self, delivery: Delivery) -> None:
        """Keep a failure until somebody looks at it."""

    def forget_failure(self, delivery: Delivery) -> None:
        """Somebody has looked at it."""


class Delivery:
    """The result of one send, now or later. Made by a producer, whose own subclass knows it."""

    __slots__ = ("_at_ms", "_error", "_offset", "_partition", "topic")

    _server: ClassVar[Serves]
    topic: str

    def __call__(self, error: KafkaFailure | None, message: Message) -> None:
        """Take the library's report."""
        if error is None:
            self._partition = message.partition()
            kind, at_ms = message.timestamp()
            self._at_ms = at_ms if kind else None
            self._offset = message.offset()
        else:
            self._error = error
            self._server.note_failure(self)

    @property
    def done(self) -> bool:
        """Whether the result is known; only `result`, `flush` and further sends make it so."""
        return hasattr(self, "_offset") or hasattr(self, "_error")

    @property
    def failed(self) -> bool:
        """Whether it is known to have failed; `error` says how."""
        return hasattr(self, "_error")

    def result(self, wait_s_max: float | None = None) -> Delivered:
        """Where the record is; raises the error that says what became of it otherwise. Waits up to the limit."""
        if not self.done:
            self._server.serve_until(self, wait_s_max)
        error = self.error()
        if error is not None:
            raise error
        offset = self._offset if self._offset is not None and self._offset >= 0 else None
        return Delivered(self.topic, self._partition or 0, offset, self._at_ms)

    def error(self) -> SemelError | None:
        """Why it failed and whether it may have happened; None when it did not fail, or nothing is known yet."""
        if not hasattr(self, "_error"):
            return None
        self._server.forget_failure(self)
        return delivery_failure(self._error, self.topic)


def delivered(message: Message) -> Delivered:
    """Read a report of success."""
    offset, (kind, at_ms) = message.offset(), message.timestamp()
    known = offset if offset is not None and offset >= 0 else None
    return Delivered(message.topic() or "", message.partition() or 0, known, at_ms if kind else None)


def delivery_failure(error: KafkaFailure, topic: str) -> SemelError:
    """Read a report of failure."""
    outcome = delivery_outcome(error)
    return failure(
        error,
        f"a record for {topic} was not acknowledged",
        outcome=outcome,
        next_command="" if outcome is Outcome.DID_NOT_HAPPEN else "look in the topic before you send it again",
    )

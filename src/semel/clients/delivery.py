"""`Delivery`: what becomes of one sent record: the callback that librdkafka calls, and the future to wait on.

Keeps: K2 a send has one outcome, and a failure that nobody looked at is raised by the next flush.
Why:   one object for each record is the price of a result for each, so it does as little as it can: no constructor, no
       lock, no look into the report before somebody asks. A caller that waits asks the library to serve its reports,
       and then looks again. A Delivery that is kept keeps its record.
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

    __slots__ = ("_error", "_message")

    _server: ClassVar[Serves]

    def __call__(self, error: KafkaFailure | None, message: Message) -> None:
        """Take the library's report."""
        self._message = message
        if error is not None:
            self._error = error
            self._server.note_failure(self)

    @property
    def done(self) -> bool:
        """Whether the result is known; only `result`, `flush` and further sends make it so."""
        # A slot that was never set raises AttributeError, which `hasattr` turns into no. So no constructor has to run.
        return hasattr(self, "_message")

    @property
    def failed(self) -> bool:
        """Whether it is known to have failed; `error` says how."""
        return hasattr(self, "_error")

    def result(self, wait_s_max: float | None = None) -> Delivered:
        """Where the record is; raises the error that says what became of it otherwise. Waits up to the limit."""
        if not hasattr(self, "_message"):
            self._server.serve_until(self, wait_s_max)
        if hasattr(self, "_error"):
            self._server.forget_failure(self)
            raise delivery_failure(self._error, self._message.topic() or "")
        return delivered(self._message)

    def error(self) -> SemelError | None:
        """Why it failed and whether it may have happened; None when it did not fail, or nothing is known yet."""
        if not hasattr(self, "_error"):
            return None
        self._server.forget_failure(self)
        return delivery_failure(self._error, self._message.topic() or "")


class Failed(Protocol):
    """A send whose report was a failure."""

    def error(self) -> SemelError | None:
        """What it was, unless somebody has looked at it already."""


class Failures:
    """What failed and nobody has looked at yet."""

    def __init__(self) -> None:
        """Nothing."""
        self.unseen: dict[Failed, None] = {}
        self.in_transaction: list[SemelError] = []

    def take(self, error: KafkaFailure | None, message: Message) -> None:
        """The report of a record without a Delivery: one of a transaction."""
        if error is not None:
            self.in_transaction.append(delivery_failure(error, message.topic() or ""))

    def take_unseen(self) -> list[SemelError]:
        """What nobody has looked at; somebody has now."""
        # A copy, taken in one step: reports of an AsyncProducer come in a thread of their own. One that comes meanwhile
        # stays, and is told the next time.
        taken = list(self.unseen)
        for delivery in taken:
            self.unseen.pop(delivery, None)
        return [error for error in (delivery.error() for delivery in taken) if error is not None]

    def tell(self) -> None:
        """Raise the first that nobody has looked at, with the number of all."""
        errors = self.take_unseen()
        if errors:
            errors[0].add_note(f"{len(errors)} records failed; this is the first that nobody had looked at")
            raise errors[0]


def delivered(message: Message) -> Delivered:
    """Read a report of success."""
    offset, (kind, at_ms) = message.offset(), message.timestamp()
    if offset is not None and offset < 0:
        offset = None
    return Delivered(message.topic() or "", message.partition() or 0, offset, at_ms if kind else None)


def delivery_failure(error: KafkaFailure, topic: str) -> SemelError:
    """Read a report of failure."""
    outcome = delivery_outcome(error)
    return failure(
        error,
        f"a record for {topic} was not acknowledged",
        outcome=outcome,
        next_command="" if outcome is Outcome.DID_NOT_HAPPEN else "look in the topic before you send it again",
    )

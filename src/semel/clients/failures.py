"""librdkafka's errors as semel's: which class, and whether it may have happened."""

from __future__ import annotations

from typing import Protocol

from semel.errors import BrokerError, FencedError, Outcome


class KafkaFailure(Protocol):
    """The part of confluent_kafka.KafkaError that is looked at."""

    def code(self) -> int:
        """Kafka's number, or librdkafka's own below zero."""

    def name(self) -> str:
        """The number's name."""

    def str(self) -> str:
        """What the library says about it."""

    def fatal(self) -> bool:
        """Whether the client is of no more use."""

    def retriable(self) -> bool:
        """Whether the same call may work a moment later."""

    def txn_requires_abort(self) -> bool:
        """Whether only an abort of the transaction is left."""


class Fate:
    """The fatal error of one client, once it has one; what the library tells by callback ends here."""

    def __init__(self) -> None:
        """None yet."""
        self.error: KafkaFailure | None = None

    def __call__(self, error: KafkaFailure) -> None:
        """Take an error from the library, which would raise it out of the callback otherwise."""
        if error.fatal():
            self.error = error


# A newer owner exists: librdkafka's own code, then Kafka's for producers and for members of groups.
FENCED_PRODUCER = frozenset({-144, 47, 90})
FENCED_MEMBER = frozenset({22, 25, 82, 110, 113, -142})
# The record never left this process, or every attempt to send it must have been refused before the append. Errors that
# are tried again are not here: an earlier attempt may have been appended without anybody knowing.
_NOT_APPENDED = frozenset(
    {
        -190,  # unknown partition
        -188,  # unknown topic
        -184,  # queue full
        -152,  # purged while queued
        -186,  # invalid argument
        -172,  # wrong state
        10,  # message too large
        17,  # invalid topic
        18,  # record list too large
        21,  # invalid required acks
        29,  # topic authorization failed
        31,  # cluster authorization failed
        32,  # invalid timestamp
        42,  # invalid request
        53,  # transactional id authorization failed
        76,  # unsupported compression type
        87,  # invalid record
    }
)


def delivery_outcome(error: KafkaFailure) -> Outcome:
    """Whether a record whose delivery failed may be in the log all the same."""
    return Outcome.DID_NOT_HAPPEN if error.code() in _NOT_APPENDED else Outcome.UNKNOWN


def failure(
    error: KafkaFailure, what: str, *, outcome: Outcome, because: str = "", next_command: str = ""
) -> BrokerError:
    """The error of the tree that fits, for `what` was being done."""
    is_fenced = error.code() in FENCED_PRODUCER | FENCED_MEMBER
    kind = FencedError if is_fenced else BrokerError
    if is_fenced and not next_command:
        next_command = "stop here: a newer owner does this work"
    text = error.str() or error.name()
    return kind(
        f"{what}: {error.name()}",
        code=error.code(),
        outcome=outcome,
        because=because or text,
        next_command=next_command,
    )

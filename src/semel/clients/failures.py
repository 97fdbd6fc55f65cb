"""librdkafka's errors as semel's: which class, and whether it may have happened."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from semel.clients.interrupts import interrupts_put_off
from semel.errors import BrokerError, FencedError, Outcome

T = TypeVar("T")
FLUSH_SLICE_S = 0.2


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
    """The fatal error of one client, once it has one.

    Why: confluent-kafka raises a fatal error out of whatever call happens to serve it, as a SystemError when that was
         inside a callback. The call that matters, a send or a commit, tells it better a moment later.
    """

    def __init__(self) -> None:
        """None yet."""
        self.error: KafkaFailure | None = None
        self.is_met = False

    def serve(self, call: Callable[..., T], *arguments: object) -> T | None:
        """Make a call that serves callbacks; a fatal error that comes out of it is kept, not raised.

        An interrupt waits for the end of the call: in a callback it would be lost, and taken for that error.
        """
        try:
            with interrupts_put_off():
                return call(*arguments)
        except Exception as error:
            found = failure_in(error)
            is_bare = isinstance(error, SystemError) and found is None  # raised, and lost on its way through a callback
            if not is_bare and (found is None or not found.fatal()):
                raise
            self.is_met, self.error = True, found or self.error
            return None

    def flush(self, client: Any, limit_s: float) -> int:
        """Serve reports until every record has its own, or until the limit; gives how many have none."""
        deadline = time.monotonic() + limit_s
        while True:
            # In slices, since an interrupt waits for the end of each.
            left = self.serve(client.flush, min(max(deadline - time.monotonic(), 0.0), FLUSH_SLICE_S))
            left = len(client) if left is None else left  # a fatal error came out instead of a number
            if not left or time.monotonic() >= deadline:
                return left


def failure_in(error: BaseException) -> KafkaFailure | None:
    """The library's error inside an exception, if it is one of the library's."""
    cause = error.__cause__ if isinstance(error, SystemError) else error
    # By name, so that this module does not import the library, which is an extra.
    if cause is not None and type(cause).__name__ == "KafkaException" and cause.args:
        return cast("KafkaFailure", cause.args[0])
    return None


# A newer owner exists: librdkafka's own code, then Kafka's for producers and for members of groups.
FENCED_PRODUCER = frozenset({-144, 47, 90})
FENCED_MEMBER = frozenset({22, 25, 82, 110, 113, -142})
# A group's coordinator moves, starts or does not answer: the same commit may pass a moment later. The library tries it
# three times and gives up, and does not call the error retriable: it says so of transactions alone.
COORDINATOR_AWAY = frozenset(
    {
        7,  # request timed out
        13,  # network exception
        14,  # coordinator load in progress
        15,  # coordinator not available
        16,  # not coordinator
        -180,  # waiting for the coordinator
        -185,  # timed out
        -195,  # the connection broke
    }
)
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


def position_gone(error: KafkaFailure, topic: str, partition: int, way_on: str) -> BrokerError:
    """There is no record where a partition stands."""
    return failure(
        error,
        f"{topic}-{partition} cannot be read: there is no record at the position",
        outcome=Outcome.DID_NOT_HAPPEN,
        because="retention has deleted the records, or the topic was made again; going on elsewhere would skip or "
        "repeat without a word",
        next_command=way_on,
    )

"""What a client has just done, so that a test can stop it there and see that a crash does no harm."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class ClientStep(StrEnum):
    """A point between two effects; `on_step` of a client is called there."""

    POLLED = "polled"  # records are here, nobody has seen them
    COMMITTED_BEFORE = "committed-before"  # at most once: the offsets are kept, then the records handed out
    COMMITTED_AFTER = "committed-after"  # at least once: the records were processed, then the offsets sent
    BEGUN = "begun"  # a transaction is open
    SENT = "sent"  # a record was handed to the library
    OFFSETS_SENT = "offsets-sent"  # part of the transaction, not visible yet
    COMMITTING = "committing"  # everything is in the transaction, the commit comes next
    COMMITTED = "committed"
    ABORTED = "aborted"


OnStep = Callable[[ClientStep], None]


def ignore_step(_: ClientStep) -> None:
    """Nobody asked."""

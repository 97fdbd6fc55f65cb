"""A history sorted by what the laws ask for: sends, ends, reads, and what the final reads found."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeVar

from semel.history.op import Act, EndTransaction, Op, Outcome, Place, Read, Send

A = TypeVar("A", bound=Act)


def acts(history: Sequence[Op], kind: type[A]) -> Iterator[tuple[Op, A]]:
    """Every op of one kind, with its act."""
    for op in history:
        if isinstance(op.act, kind):
            yield op, op.act


def final_records(history: Sequence[Op], *, committed: bool) -> dict[Place, list[tuple[int, str]]] | None:
    """What each partition holds in the end for a reader of this isolation; None when that was never read."""
    found: dict[Place, dict[int, str]] = defaultdict(dict)
    for op, read in acts(history, Read):
        if read.final and read.committed == committed and op.outcome is Outcome.OK:
            # Several reads together: each covers a part of the partition.
            found[read.place].update(read.records)
    # None and not empty: a history in which nobody has looked proves neither loss nor its absence.
    return {place: sorted(records.items()) for place, records in found.items()} or None


def sends_by_value(history: Sequence[Op]) -> dict[str, tuple[Op, Send]]:
    """Values are unique, so a record that is read leads back to its send."""
    return {send.value: (op, send) for op, send in acts(history, Send)}


def ends_by_transaction(history: Sequence[Op]) -> dict[str, list[tuple[Op, EndTransaction]]]:
    """How each transaction was asked to end."""
    found: dict[str, list[tuple[Op, EndTransaction]]] = defaultdict(list)
    for op, end in acts(history, EndTransaction):
        found[end.transaction].append((op, end))
    return found


def was_committed(ends: Sequence[tuple[Op, EndTransaction]]) -> bool:
    """Whether the client has the answer that its transaction is committed."""
    return any(end.commit and op.outcome is Outcome.OK for op, end in ends)


def may_be_committed(ends: Sequence[tuple[Op, EndTransaction]]) -> bool:
    """Whether a commit was asked for and not refused for good."""
    return any(end.commit and op.outcome is not Outcome.FAILED for op, end in ends)


def shown(place: Place) -> str:
    """A partition as Kafka writes it."""
    return f"{place[0]}-{place[1]}"

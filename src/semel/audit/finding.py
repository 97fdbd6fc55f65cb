"""What an audit finds between two places, and when a finding is proven.

An audit holds a left side (what went in) against a right side (what came out). Records are paired by identity and
counted as a multiset: one record in and three out are two doubled. A side that is not whole proves less than a whole
one, and `is_proven` says what is left: a record that retention took from the output was not lost by the pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from semel.errors import ConfigError


class Kind(StrEnum):
    """One way in which the right side differs from what the left side asks for."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    ALTERED = "altered"
    REORDERED = "reordered"
    UNEXPECTED = "unexpected"
    TORN = "torn"
    LEDGER_GAP = "ledger_gap"


MEANING = {
    Kind.LOST: "records of the left side that did not arrive",
    Kind.DUPLICATED: "copies beyond those that are expected",
    Kind.ALTERED: "records that arrived with other content",
    Kind.REORDERED: "records that arrived behind one that follows them",
    Kind.UNEXPECTED: "records on the right that the left side does not ask for",
    Kind.TORN: "transactions or micro-batches that arrived in part",
    Kind.LEDGER_GAP: "source offsets that no committed micro-batch covers",
}


class Gap(StrEnum):
    """Why a side may not hold all that it should be judged by."""

    RETENTION = "retention"
    COMPACTION = "compaction"
    OPEN_TRANSACTION = "open_transaction"
    WINDOW = "window"
    LEDGER = "ledger"
    CHANGED = "changed"
    DECLARED = "declared"


class Place(StrEnum):
    """The two sides."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incomplete:
    """One side is not whole: why, and the facts in one line for people."""

    side: Place
    gap: Gap
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One record that shows a finding; a coordinate is empty where that side has no such record."""

    identity: str
    left: str = ""
    right: str = ""


EXAMPLES_MAX = 100


def check_examples(count: int) -> None:
    """Refuse a number of examples that nobody would read: they pass through the driver."""
    if not 0 <= count <= EXAMPLES_MAX:
        raise ConfigError(f"{count} examples of each kind", you_want=f"a number from 0 to {EXAMPLES_MAX}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How often one kind was found, and the first of them."""

    kind: Kind
    count: int
    is_proven: bool = True
    examples: tuple[Example, ...] = ()


# A record that the left side no longer has makes its copies on the right look like strangers. A record that the right
# side no longer has looks lost, and its transaction torn. Order is judged by the first of equal records, and the one
# that is gone may have been the first.
_SHAKEN_BY = {
    Place.LEFT: frozenset({Kind.DUPLICATED, Kind.ALTERED, Kind.UNEXPECTED, Kind.REORDERED}),
    Place.RIGHT: frozenset({Kind.LOST, Kind.TORN, Kind.REORDERED}),
}


def is_proven(kind: Kind, incomplete: Iterable[Incomplete]) -> bool:
    """Tell whether a difference of this kind can only be an anomaly, although these sides are not whole."""
    # Of a side that gave other rows when it was read again, no row is known to be there at all.
    return not any(one.gap is Gap.CHANGED or kind in _SHAKEN_BY[one.side] for one in incomplete)

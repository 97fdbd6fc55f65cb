"""What a page draws besides the counts: how both sides grew, where the anomalies stand, and which cells they fall into.

Plain values, small whatever the sides hold: `charting` has Spark add them up, `page` draws them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from semel.audit.finding import Kind

BINS = 60
CELLS_PER_ROW = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Records of both sides in steps of equal length; a side without a time is empty."""

    begin_s: int
    step_s: int
    left: tuple[int, ...] = ()
    right: tuple[int, ...] = ()
    untimed: int = 0
    """Records of sides with a time that have none."""

    @property
    def steps(self) -> int:
        """How many there are."""
        return max(len(self.left), len(self.right))

    def lag(self, copies: int) -> tuple[int, ...]:
        """At the end of each step, how many records were in and not yet out; empty where one side has no time.

        Below zero the output is ahead, by doubled records or because its times are those of other clocks.
        """
        if not self.left or not self.right:
            return ()
        pairs = zip(accumulate(self.left), accumulate(self.right), strict=True)
        return tuple(went_in * copies - came_out for went_in, came_out in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Anomalies of one kind in one lane (a partition, or the whole side) and step; None: of a record without a time."""

    lane: str
    kind: Kind
    step: int | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """All that is drawn of one comparison."""

    timeline: Timeline | None = None
    placed: tuple[Placed, ...] = ()
    cells: tuple[tuple[int, int], ...] = ()
    """Cells of identities with anomalies in them, and how many."""
    commits_s: tuple[int, ...] = ()
    """When the ledger says that commits were made."""

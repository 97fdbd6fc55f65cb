"""Every mutation of the cluster, and the cell that turns BROKEN under it; docs/DRILL_MUTATIONS.md says the same.

A cell is a story of `semel.drill.stories`, a cell of the matrix, or the half of a rule's drill that follows the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.mutations import table
from tests.mutations.switches import Patch
from tests.sim import mutations


@dataclass(frozen=True, slots=True)
class Row:
    """One mutation."""

    name: str
    bug: str
    apply: Callable[[Patch], None]
    cell: str

    def line(self) -> str:
        """As the page has it."""
        return f"| {self.name} | {self.bug} | `{self.cell}` |"


TRANSACTIONS = {
    "producer epoch unchecked": "story.exactly-once.late-marker",
    "sequence unchecked": "produce.exactly-once.answers-lost-at-work",
    "write unverified": "story.exactly-once.late-batch",
    "marker overtaken": "story.exactly-once.overtaken-marker",
    "late marker taken": "story.exactly-once.late-marker",
    "owner unchecked": "story.exactly-once.late-add",
    "end by anybody": "story.exactly-once.late-end",
    "epoch kept": "story.exactly-once.late-end",
    "markers not asked for": "story.exactly-once.late-end",
    "epochs without end": "story.exactly-once.last-epoch",
    "marker skipped": "story.exactly-once.late-end",
    "answer before the record": "story.exactly-once.lonely-decision",
    "decision turned round": "story.exactly-once.unanswered-commit",
    "decision forgotten": "story.exactly-once.dead-coordinator",
    "no timeout": "story.exactly-once.dead-owner",
    "aborted list ignored": "story.exactly-once.unfinished",
    "open transactions read": "story.exactly-once.unfinished",
    "offsets early": "copy.exactly-once.client-killed-at-offsets-sent",
    "two reporters": "story.exactly-once.two-newcomers",
}
REPLICATION = {
    "no truncation on rejoin": "story.exactly-once.parted-replica",
    "high watermark of the leader": "story.exactly-once.early-read",
    "in-sync replicas shrunk alone": "story.exactly-once.lonely-leader",
    "in-sync too early": "story.exactly-once.hasty-follower",
    "markers lost": "story.exactly-once.lost-marker",
    "one marker skipped": "story.exactly-once.late-end",
    "sequences not copied": "story.exactly-once.moved-leader",
    "aborted index not copied": "story.exactly-once.moved-leader",
    "unclean elections": "S023",
    "acknowledged at append": "story.exactly-once.lonely-leader",
    "leader epochs unchecked": "story.exactly-once.reader-ahead",
    "leader does not step down": "story.exactly-once.demoted-leader",
    "coordinator not fenced": "story.exactly-once.moved-coordinator",
    "stable offset ignored": "story.exactly-once.unfinished",
    "stable offset of the leader's end": "story.exactly-once.early-read",
    "aborted list ignored": "story.exactly-once.unfinished",
    "duplicate window not rebuilt": "story.exactly-once.restarted-replica",
    "sequences unchecked": "story.exactly-once.moved-leader",
    "owner unchecked": "story.exactly-once.late-add",
    "epoch kept": "story.exactly-once.late-end",
    "decisions forgotten": "story.exactly-once.dead-coordinator",
    "offsets early": "copy.exactly-once.client-killed-at-offsets-sent",
    "no sync": "story.exactly-once.power-cut",
    "old controller writes": "story.exactly-once.replaced-controller",
}


def rows_of(found: dict[str, str], mutated: list[tuple[str, str, Callable[[Patch], None]]]) -> list[Row]:
    return [Row(name, bug, apply, found[name]) for name, bug, apply in mutated]


TRANSACTION_ROWS = rows_of(TRANSACTIONS, [(one.name, one.switched_off, one.apply) for one in table.MUTATIONS])
REPLICATION_ROWS = rows_of(REPLICATION, [(one.name, one.bug, one.apply) for one in mutations.MUTATIONS])

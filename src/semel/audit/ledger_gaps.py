"""Holes in a ledger: source offsets between committed micro-batches that no commit covers.

A ledger that remembers each commit, such as that of a table, shows more than how far the output goes. Commits that
cover 0 to 100 and 120 to 200 have skipped twenty offsets, whatever the rows say. Offsets that are covered twice are no
hole; if they did damage, the rows show it as DUPLICATED.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from semel.audit.finding import Example, Finding, Kind
from semel.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What one committed micro-batch covers of one source partition; the end is exclusive."""

    partition: str
    offset_first: int
    offset_next: int
    committed_s: int | None = None
    """When, in seconds since 1970; drawn in charts."""

    def __post_init__(self) -> None:
        """Refuse a range that ends before it begins."""
        if not 0 <= self.offset_first <= self.offset_next:
            raise ConfigError(
                f"a commit of {self.partition} covers {self.offset_first} to {self.offset_next}",
                you_want="offset_first <= offset_next, both from 0 on",
            )


def find_ledger_gaps(commits: Iterable[Commit], examples_max: int) -> Finding:
    """Count the offsets behind the first commit and before the last one that no commit covers."""
    by_partition: dict[str, list[Commit]] = defaultdict(list)
    for commit in commits:
        # A micro-batch without records of a partition covers nothing, and stands nowhere.
        if commit.offset_first < commit.offset_next:
            by_partition[commit.partition].append(commit)
    missing = 0
    examples: list[Example] = []
    for partition, covered in sorted(by_partition.items()):
        ordered = sorted(covered, key=lambda commit: commit.offset_first)
        reached = ordered[0].offset_first
        for commit in ordered:
            if commit.offset_first > reached:
                missing += commit.offset_first - reached
                examples.append(Example(identity=partition, left=f"{reached} … {commit.offset_first - 1}"))
            # The furthest, not the last: a commit may lie inside of an earlier one.
            reached = max(reached, commit.offset_next)
    return Finding(kind=Kind.LEDGER_GAP, count=missing, examples=tuple(examples[:examples_max]))

"""Holes in a ledger, held against sets of offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.audit.finding import Example
from semel.audit.ledger_gaps import Commit, find_ledger_gaps
from semel.errors import ConfigError

RANGES = st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.integers(0, 8))


@given(ranges=st.lists(RANGES, max_size=8))
def test_every_offset_between_commits_is_covered_or_counted(ranges: list[tuple[str, int, int]]) -> None:
    commits = [Commit(partition=name, offset_first=at, offset_next=at + size) for name, at, size in ranges]
    missing = 0
    for partition in "ab":
        covered = {one for name, at, size in ranges if name == partition for one in range(at, at + size)}
        missing += len(set(range(min(covered, default=0), max(covered, default=0))) - covered)
    assert find_ledger_gaps(commits, 5).count == missing


def test_a_hole_is_shown_with_its_offsets() -> None:
    commits = [
        Commit(partition="orders-0", offset_first=a, offset_next=b) for a, b in ((120, 200), (0, 100), (300, 301))
    ]
    found = find_ledger_gaps(commits, 1)
    assert (found.count, found.examples) == (120, (Example(identity="orders-0", left="100 … 119"),))


def test_no_commits_have_no_holes() -> None:
    assert find_ledger_gaps([], 5).count == 0


def test_a_commit_that_ends_before_it_begins_is_refused() -> None:
    for first, behind in ((5, 4), (-1, 3)):
        with pytest.raises(ConfigError, match="covers"):
            Commit(partition="orders-0", offset_first=first, offset_next=behind)

"""Ledgers of tables: what each commit covers, where the source is judged, and what is another topic's."""

from __future__ import annotations

import pytest

from semel.audit.ledger_gaps import Commit, find_ledger_gaps
from semel.audit.ledgers import Line, commits_of, counted_of
from semel.errors import ConfigError
from semel.sinks.ledger import Held
from semel.wire.topology import TopicPartition

PLACE = TopicPartition("orders", 0)


def line(number: int, offset_next: int, offset_first: int = 0) -> Line:
    held = {PLACE: Held(offset_next=offset_next, offset_first=offset_first)}
    return Line(number=number, held=held | {TopicPartition("other", 0): Held(offset_next=9)}, committed_s=number)


def covered(*lines: Line) -> list[tuple[int, int]]:
    return [(one.offset_first, one.offset_next) for one in commits_of(lines, "orders")]


def test_each_commit_covers_what_was_not_held_before() -> None:
    assert covered(line(2, 25), line(1, 10), line(3, 25), line(4, 40)) == [(0, 10), (10, 25), (25, 40)]
    (first, *_) = commits_of([line(7, 10, 3)], "orders")
    assert first == Commit(partition="orders-0", offset_first=3, offset_next=10, committed_s=7)


def test_history_that_was_removed_is_no_gap() -> None:
    # Line 1 is a batch job's, which stays when older ones are forgotten.
    assert covered(line(1, 10), line(5, 50), line(6, 60)) == [(0, 50), (50, 60)]
    assert find_ledger_gaps(commits_of([line(5, 50), line(6, 60)], "orders"), 5).count == 0
    assert covered() == []


def test_a_commit_that_begins_behind_the_end_of_the_one_before_leaves_a_gap() -> None:
    found = find_ledger_gaps(commits_of([line(1, 10), line(2, 40, 30)], "orders"), 5)
    assert found.count == 20
    assert found.examples[0].left == "10 … 29"


def test_an_unknown_beginning_is_the_beginning_of_the_topic() -> None:
    assert covered(line(1, 10, -1)) == [(0, 10)]


def test_the_source_is_judged_where_the_ledger_counts_it() -> None:
    held = {PLACE: Held(offset_next=10, offset_first=-1, topic_id="a"), TopicPartition("bills", 1): Held(offset_next=3)}
    assert counted_of(held, pipeline="p", topic="orders", topic_id="a") == {0: (0, 10)}
    with pytest.raises(ConfigError, match="counts nothing of shipments"):
        counted_of(held, pipeline="p", topic="shipments", topic_id="")
    with pytest.raises(ConfigError, match="deleted and created again"):
        counted_of(held, pipeline="p", topic="orders", topic_id="b")

"""Offsets of thousands of groups are deleted in parts, and nobody sees that they are (G2, G8)."""

from __future__ import annotations

import pytest

from semel.broker.groups import deletion
from semel.broker.groups.offsets.types import FetchOffsetsRequest
from semel.broker.groups.types import DAY_MS
from semel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.harness import Harness

GROUPS = [f"group-{number}" for number in range(10)]


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Harness:
    """A coordinator that does little at once, with a topic that ten groups have read."""
    monkeypatch.setattr(deletion, "OFFSETS_AT_ONCE_MAX", 3)
    monkeypatch.setattr(deletion, "FEW_OFFSETS_MAX", 19)
    monkeypatch.setattr(deletion, "EXPIRED_AT_ONCE_MAX", 3)
    harness = Harness()
    for group_id in GROUPS:
        harness.ask_commit(5, group_id=group_id)
        harness.ask_commit(6, group_id=group_id, topic="u")
    return harness


def offsets(group: Harness, topic: str = "t") -> list[int]:
    return [group.fetch(group_id=group_id, topic=topic).offset_next for group_id in GROUPS]


def all_of(group: Harness, group_id: str) -> list[tuple[str, int]]:
    """What OffsetFetch gives that names no partition."""
    fetched = group.core.fetch_offsets(FetchOffsetsRequest(group_id=group_id))
    return [(row.topic, row.offset_next) for row in fetched]


def finish(group: Harness) -> int:
    """Do all that was left for later; how many parts that were."""
    parts = 0
    while group.later:
        group.resume()
        parts += 1
    return parts


def test_a_topic_is_forgotten_in_parts(group: Harness) -> None:
    group.delete_topic("t")
    assert finish(group) > 3
    for _ in range(2):
        assert offsets(group) == [-1] * 10
        assert offsets(group, "u") == [6] * 10
        group.restart()


def test_few_offsets_are_deleted_at_once(group: Harness) -> None:
    group.delete_offsets(("u", 0), group_id=GROUPS[0])
    group.delete_topic("t")
    group.restart()
    assert offsets(group)[0] == -1


def test_nobody_sees_an_offset_that_will_be_deleted(group: Harness) -> None:
    group.holds_appends = True
    group.delete_topic("t")
    assert offsets(group) == [-1] * 10
    group.resume()
    assert group.held
    assert group.later
    assert offsets(group) == [-1] * 10
    assert all_of(group, GROUPS[-1]) == [("u", 6)]
    group.release_all()
    assert offsets(group) == [-1] * 10
    finish(group)
    assert offsets(group) == [-1] * 10


def test_a_commit_to_a_topic_that_was_made_again_stays(group: Harness) -> None:
    """The shell appends it behind the tombstones, whatever part of them was written when it came."""
    group.holds_appends = True
    group.delete_topic("t")
    group.resume()
    group.ask_commit(7, group_id=GROUPS[-1])
    commit = group.held.pop()
    finish(group)
    group.held.append(commit)
    group.release_all()
    for _ in range(2):
        assert offsets(group) == [-1] * 9 + [7]
        group.restart()


def test_a_topic_that_is_deleted_twice_is_shown_again_only_when_both_are_done(group: Harness) -> None:
    group.holds_appends = True
    group.delete_topic("t")
    group.delete_topic("t")
    finish(group)
    while group.held:
        assert offsets(group) == [-1] * 10
        group.release()
    group.holds_appends = False
    assert group.commit(8) is ErrorCode.NONE
    assert group.fetch().offset_next == 8


def test_commits_on_their_way_and_in_transactions_go_too(group: Harness) -> None:
    group.holds_appends = True
    group.ask_commit(9, group_id="late")
    group.ask_txn_commit(9, 4, partition=1)
    group.delete_topic("t")
    finish(group)
    group.release_all()
    group.end_transaction(4, commit=True)
    for _ in range(2):
        assert group.fetch(group_id="late").offset_next == -1
        assert group.fetch(partition=1).offset_next == -1
        group.restart()


def test_a_part_that_cannot_be_written_leaves_its_offsets(group: Harness) -> None:
    group.holds_appends = True
    group.delete_topic("t")
    finish(group)
    group.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    group.release_all()
    for _ in range(2):
        assert offsets(group) == [5] + [-1] * 9
        group.restart()


def test_an_unload_in_the_middle_forgets_the_rest_of_the_work(group: Harness) -> None:
    group.delete_topic("t")
    group.resume()
    group.later.clear()
    group.unload()
    group.restart()
    assert offsets(group)[0] == -1
    assert offsets(group)[-1] == 5
    assert group.core.topics_with_offsets() == {"t", "u"}


def test_retention_looks_at_a_few_groups_at_a_time(group: Harness) -> None:
    before = len(group.log)
    group.now_ms += 8 * DAY_MS
    group._perform(group.core.tick(group.now_ms))
    first = len(group.log) - before
    assert 0 < first < 3 * len(GROUPS)
    group.advance(len(GROUPS))
    assert len(group.log) - before == 3 * len(GROUPS)  # two offsets and the group
    assert group.core.list_groups() == ()
    group.restart()
    assert group.core.list_groups() == ()

"""A member's view of its library, with a library that answers as told.

Keeps: K4 an unfinished record is neither counted as done nor skipped; K5 a partition that was taken away takes its
       offsets along.
"""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from semel.clients import membership
from semel.clients.membership import Membership
from semel.clients.progress import Progress
from semel.clients.records import TopicPartition
from semel.errors import BrokerError, FencedError
from tests.unit.clients.messages import A, B, message

ILLEGAL_GENERATION, COORDINATOR_LOADING = 22, 14


class Library:
    """A consumer that keeps a list of what it was asked."""

    def __init__(self) -> None:
        self.positions = {A: 100, B: 200}
        self.committed_at = {A: 5, B: 6}
        self.here: list[list[Message]] = []
        self.refusals: list[KafkaException] = []
        self.asked: list[tuple[str, dict[TopicPartition, int]]] = []
        self.before_consume: list[Any] = []

    def _note(self, what: str, places: list[Place]) -> None:
        self.asked.append((what, {TopicPartition(one.topic, one.partition): one.offset for one in places}))

    def position(self, places: list[Place]) -> list[Place]:
        return [Place(one.topic, one.partition, self.positions[TopicPartition(*_key(one))]) for one in places]

    def committed(self, places: list[Place], _: float) -> list[Place]:
        return [Place(one.topic, one.partition, self.committed_at[TopicPartition(*_key(one))]) for one in places]

    def assign(self, places: list[Place]) -> None:
        self._note("assign", places)

    def unassign(self) -> None:
        self._note("unassign", [])

    def seek(self, place: Place) -> None:
        self._note("seek", [place])

    def commit(self, offsets: list[Place], asynchronous: bool) -> None:
        self._note("commit soon" if asynchronous else "commit", offsets)
        if self.refusals:
            raise self.refusals.pop(0)

    def consume(self, *_: object) -> list[Message]:
        for action in self.before_consume:
            action()
        self.before_consume = []
        return self.here.pop(0) if self.here else []

    def poll(self, _: float) -> None:
        return None


def _key(place: Place) -> tuple[str, int]:
    return place.topic, place.partition


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(membership, "make", lambda *_: made)
    return made


@pytest.fixture
def member(library: Library) -> Membership:
    """A member that has both partitions and has read from both."""
    made = Membership(
        {"auto.offset.reset": "earliest"},
        Progress(),
        wait_s_max=1,
        keep_alive_s=60,
        revoke_wait_s=1,
        read_positions=None,
        commits_on_revoke=True,
    )
    made._assign(library, [Place(A.topic, 0), Place(B.topic, 1)])
    made._moved.clear()
    library.asked.clear()
    return made


def test_positions_are_the_librarys_until_a_partition_is_moved(member: Membership) -> None:
    assert member.standing([message(A, 99)]) == {A: 100, B: 200}
    member.seek({B: 7})
    assert member.standing([message(A, 99)]) == {A: 100}, "the library may still say 200 of the other"
    assert member.standing([message(B, 7)]) == {B: 8}
    assert member.standing([message(B, 8)]) == {A: 100, B: 200}, "both have read since"


def test_a_partition_begins_where_the_group_stands(member: Membership, library: Library) -> None:
    member._assign(library, [Place(A.topic, 0)])
    assert library.asked == [("assign", {A: 5})]
    assert member.progress.positions[A] == 5


def test_records_that_came_with_a_revocation_are_read_again(member: Membership, library: Library) -> None:
    library.before_consume = [lambda: member._revoke(library, [Place(B.topic, 1)])]
    library.here = [[message(A, 5), message(B, 6)]]
    assert member.poll(10, 0) == []
    assert library.asked == [("seek", {A: 5})]


def test_an_error_that_came_with_a_revocation_is_told(member: Membership, library: Library) -> None:
    bad = Message("t", 0, error=KafkaError(3))
    library.before_consume = [lambda: member._revoke(library, [Place(B.topic, 1)])]
    library.here = [[bad, message(A, 5)]]
    assert member.poll(10, 0) == [bad]


def test_positions_that_cannot_be_read_leave_the_member_without_partitions(
    member: Membership, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KafkaException(KafkaError(7))

    monkeypatch.setattr(library, "committed", fail)
    with pytest.raises(KafkaException):
        member._assign(library, [Place(A.topic, 0)])
    assert library.asked == [("unassign", {})]


def test_a_revoked_partition_is_committed_first_and_then_forgotten(member: Membership, library: Library) -> None:
    member.progress.finished = {A: 9, B: 10}
    member._revoke(library, [Place(A.topic, 0)])
    assert library.asked == [("commit", {A: 9})]
    assert member.progress.finished == {B: 10}


def test_a_lost_partition_is_not_committed(member: Membership, library: Library) -> None:
    member.progress.finished = {A: 9, B: 10}
    member._lose(library, [Place(A.topic, 0)])
    assert library.asked == []
    assert member.progress.finished == {B: 10}


def test_a_refused_commit_is_fenced_and_one_that_may_pass_is_tried_again(member: Membership, library: Library) -> None:
    library.refusals = [KafkaException(KafkaError(COORDINATOR_LOADING, retriable=True))]
    member.commit({A: 9})
    assert [what for what, _ in library.asked] == ["commit", "commit"]
    library.refusals = [KafkaException(KafkaError(ILLEGAL_GENERATION))]
    with pytest.raises(FencedError):
        member.commit({A: 9})
    library.refusals = [KafkaException(KafkaError(29))]
    with pytest.raises(BrokerError, match="not committed"):
        member.commit({A: 9})
    assert member.commits_refused == 1


def test_a_commit_under_way_carries_no_second_one(member: Membership, library: Library) -> None:
    member.progress.finished = {A: 9}
    member.commit_soon()
    member.progress.finished = {A: 12}
    member.commit_soon()
    assert library.asked == [("commit soon", {A: 9})]
    member._on_commit(None, [Place(A.topic, 0, 9)])
    member.commit_soon()
    assert library.asked[1:] == [("commit soon", {A: 12})]


def test_a_commit_that_failed_is_made_again_unless_a_later_one_is_due(member: Membership) -> None:
    member.progress.finished = {B: 20}
    failed = KafkaError(COORDINATOR_LOADING)
    member._on_commit(failed, [Place(A.topic, 0, 9), Place(B.topic, 1, 10)])
    assert member.progress.finished == {A: 9, B: 20}
    assert member.commits_refused == 1

"""A member's view of its library, with a library that answers as told.

Keeps: K4 an unfinished record is neither counted as done nor skipped; K5 a partition that was taken away takes its
       offsets along.
"""

from __future__ import annotations

import signal
from collections.abc import Collection
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from semel.clients import membership, topic_lives
from semel.clients.membership import Membership
from semel.clients.progress import Progress
from semel.clients.records import Life
from semel.clients.topic_lives import TopicLives
from semel.errors import BrokerError, FencedError
from semel.protocol.topic_partition import TopicPartition
from tests.unit.clients.messages import A, B, batch, message

ILLEGAL_GENERATION, COORDINATOR_LOADING = 22, 14


class Library:
    """A consumer that keeps a list of what it was asked."""

    def __init__(self) -> None:
        self.positions = {A: 100, B: 200}
        self.committed_at = {A: 5, B: 6}
        self.here: list[list[Message]] = []
        self.refusals: list[KafkaException] = []
        self.asked: list[tuple[str, dict[TopicPartition, int]]] = []
        self.polled: list[Message] = []
        self.before_consume: list[Any] = []
        self.before_poll: list[Any] = []
        self.assigned: list[Place] = []
        self.paused: set[TopicPartition] = set()  # also of partitions that went: the library does not forget it

    def _note(self, what: str, places: list[Place]) -> None:
        self.asked.append((what, {TopicPartition(one.topic, one.partition): one.offset for one in places}))

    def position(self, places: list[Place]) -> list[Place]:
        return [Place(one.topic, one.partition, self.positions[TopicPartition(*_key(one))]) for one in places]

    def committed(self, places: list[Place], _: float) -> list[Place]:
        return [Place(one.topic, one.partition, self.committed_at[TopicPartition(*_key(one))]) for one in places]

    def assign(self, places: list[Place]) -> None:
        self.assigned = places
        self._note("assign", places)

    def unassign(self) -> None:
        self.assigned = []
        self._note("unassign", [])

    def assignment(self) -> list[Place]:
        return self.assigned

    def pause(self, places: list[Place]) -> None:
        self.paused |= {TopicPartition(one.topic, one.partition) for one in places}

    def resume(self, places: list[Place]) -> None:
        self.paused -= {TopicPartition(one.topic, one.partition) for one in places}

    def seek(self, place: Place) -> None:
        self._note("seek", [place])

    def commit(self, offsets: list[Place], asynchronous: bool) -> None:
        self._note("commit soon" if asynchronous else "commit", offsets)
        if self.refusals:
            raise self.refusals.pop(0)

    def consume(self, *_: object) -> list[Message]:
        actions, self.before_consume = self.before_consume, []
        for action in actions:
            action()
        return self.here.pop(0) if self.here else []

    def poll(self, _: float) -> Message | None:
        actions, self.before_poll = self.before_poll, []
        for action in actions:
            action()
        return self.polled.pop(0) if self.polled else None


class Unchanged(TopicLives):
    """Topics that nobody deletes."""

    def __init__(self) -> None:
        super().__init__({}, 1)

    def learn(self, topics: Collection[str]) -> dict[str, Life]:
        return dict.fromkeys(topics, Life())


def _key(place: Place) -> tuple[str, int]:
    return place.topic, place.partition


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(membership, "make", lambda *_: made)
    return made


def member_of(settings: dict[str, Any]) -> Membership:
    return Membership(
        {"auto.offset.reset": "earliest", **settings},
        Progress(),
        Unchanged(),
        wait_s_max=1,
        keep_alive_s=60,
        revoke_wait_s=1,
        read_positions=None,
        commits_on_revoke=True,
    )


@pytest.fixture
def member(library: Library) -> Membership:
    """A member that has both partitions and has read from both."""
    made = member_of({})
    made._assign(library, [Place(A.topic, 0), Place(B.topic, 1)])
    made._moved.clear()
    library.asked.clear()
    return made


def drawn(member: Membership, records_max: int) -> list[Message]:
    """Polled, and handed out: from here on nobody asks the library for these messages."""
    messages = member.poll(records_max, 0)
    member.may_skip = False
    return messages


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


def test_batches_are_cut_from_what_was_fetched_at_once(member: Membership, library: Library) -> None:
    library.here = [[message(A, 5), message(B, 6), message(A, 6)]]
    assert [one.offset() for one in drawn(member, 2)] == [5, 6]
    assert member.standing([message(A, 5), message(B, 6)]) == {A: 6, B: 7}, "the library stands behind all of them"
    assert member.standing([message(A, 5)]) == {A: 6}
    library.polled = [message(B, 7)]  # while the group is served
    assert [one.offset() for one in drawn(member, 1)] == [6]
    assert member.standing([message(A, 6)]) == {A: 7}
    assert [one.offset() for one in drawn(member, 2)] == [7]
    assert member.standing([message(B, 7)]) == {A: 100, B: 200}, "nothing is left"


def test_a_batch_is_filled_up_from_what_comes_next(member: Membership, library: Library) -> None:
    library.here = [[message(A, 5), message(B, 6), message(A, 6)], [message(B, 7), message(A, 7)]]
    batches = [[(one.partition(), one.offset()) for one in drawn(member, 2)] for _ in range(3)]
    assert batches == [[(0, 5), (1, 6)], [(0, 6), (1, 7)], [(0, 7)]], "in the order of the library"


def test_what_was_fetched_goes_with_its_partition(member: Membership, library: Library) -> None:
    """Also when the partition went while the user was at work, in another thread's poll."""
    library.here = [[message(A, 5), message(B, 6), message(A, 6), message(B, 7)]]
    assert len(drawn(member, 1)) == 1
    member._revoke(library, [Place(B.topic, 1)])
    assert [(one.partition(), one.offset()) for one in drawn(member, 10)] == [(0, 6)]


def test_what_was_fetched_is_not_handed_out_when_its_partition_was_moved(member: Membership, library: Library) -> None:
    library.here = [[message(A, 5), message(B, 6), message(A, 6), message(B, 7)]]
    assert len(drawn(member, 2)) == 2
    member.seek({A: 5})
    assert [(one.partition(), one.offset()) for one in drawn(member, 10)] == [(1, 7)]


def test_the_group_is_served_with_every_batch(member: Membership, library: Library) -> None:
    """Or it would expel a member that works on what it has fetched."""
    library.here = [[message(A, 5), message(A, 6)]]
    assert len(drawn(member, 1)) == 1
    library.before_poll = [lambda: member._revoke(library, [Place(A.topic, 0)])]
    assert drawn(member, 1) == []


def test_an_answer_counts_for_what_was_fetched_before_it(
    member: Membership, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def describe(*arguments: object) -> dict[str, object]:
        asked.append(arguments)
        return {}

    monkeypatch.setattr(member.lives, "_describe", describe)
    monkeypatch.setattr(topic_lives, "ASKING_SHARE", 1e-9)
    monkeypatch.setattr(topic_lives, "QUIET_S_MAX", 3600)
    library.here = [[message(A, 5), message(A, 6)], [message(A, 7)]]
    for _ in range(2):
        drawn(member, 1)
        member.commits.commit({A: 6})
        member.commits.commit({A: 7})
    assert len(asked) == 1
    drawn(member, 1)
    member.progress.finished = {A: 8}
    member.commits.commit_soon()
    assert (len(asked), member.progress.finished) == (1, {A: 8}), "in a moment"
    member.commits.commit({A: 8})
    assert len(asked) == 2
    member.commits.commit_if_possible({A: 8})
    assert len(asked) == 3, "the last commit of all is not made on an old answer"


def test_an_error_that_came_with_a_revocation_is_told(member: Membership, library: Library) -> None:
    bad = Message("t", 0, error=KafkaError(3))
    library.before_consume = [lambda: member._revoke(library, [Place(B.topic, 1)])]
    library.here = [[bad, message(A, 5)]]
    assert drawn(member, 10) == [bad]


def test_positions_that_cannot_be_read_leave_the_member_without_partitions(
    member: Membership, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KafkaException(KafkaError(7))

    monkeypatch.setattr(library, "committed", fail)
    with pytest.raises(KafkaException):
        member._assign(library, [Place(A.topic, 0)])
    assert library.asked == [("unassign", {})]


def test_a_partition_that_went_while_it_was_paused_is_read_when_it_comes_back(
    member: Membership, library: Library
) -> None:
    member.keep_alive._since = 0.0  # a user at work
    member._poll_for_user()
    assert library.paused == {A, B}
    member.keep_alive.back()
    member._revoke(library, [Place(A.topic, 0), Place(B.topic, 1)])
    member.resume()
    member._assign(library, [Place(A.topic, 0), Place(B.topic, 1)])
    assert library.paused == set()


def test_a_revoked_partition_is_committed_first_and_then_forgotten(member: Membership, library: Library) -> None:
    member.progress.finished = {A: 9, B: 10}
    member._revoke(library, [Place(A.topic, 0)])
    assert library.asked == [("commit", {A: 9})]
    assert member.progress.finished == {B: 10}


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_what_an_interrupted_poll_may_have_lost_is_read_again(member: Membership, library: Library) -> None:
    library.before_consume = [interrupt]
    with pytest.raises(KeyboardInterrupt):
        member.poll(10, 0)
    library.here = [[message(A, 5)]]
    assert [one.offset() for one in drawn(member, 10)] == [5]
    assert library.asked == [("assign", {A: 5, B: 6})]
    drawn(member, 10)
    assert len(library.asked) == 1, "once is enough"


def test_messages_that_reached_no_batch_are_read_again(member: Membership, library: Library) -> None:
    library.here = [[message(A, 5), message(B, 6), message(A, 6)]]
    assert len(member.poll(1, 0)) == 1  # and an interrupt comes before the batch is handed out
    assert member.poll(10, 0) == []
    assert library.asked == [("assign", {A: 5, B: 6})]


def test_a_poll_for_a_user_at_work_that_failed_loses_nothing(member: Membership, library: Library) -> None:
    def fail() -> None:
        raise ValueError

    member.keep_alive._since = 0.0
    library.before_poll = [fail]
    member._poll_for_user()
    member.keep_alive.back()
    drawn(member, 10)
    assert library.asked == [("assign", {A: 5, B: 6})]


def test_a_seek_back_that_was_interrupted_is_made_good_by_the_next_poll(
    member: Membership, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "seek", interrupt)
    member.may_skip = True  # as it is while a batch is closed
    with pytest.raises(KeyboardInterrupt):
        member.seek({A: 2, B: 3})
    drawn(member, 10)
    assert library.asked == [("assign", {A: 2, B: 3})]


@pytest.mark.parametrize("at", ["learn", "committed", "assign", "resume"])
def test_ctrl_c_while_partitions_come_leaves_none_to_the_library(
    member: Membership, library: Library, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    member._revoke(library, [Place(A.topic, 0), Place(B.topic, 1)])
    with monkeypatch.context() as patch:
        patch.setattr(member.lives if at == "learn" else library, at, interrupt)
        with pytest.raises(KeyboardInterrupt):
            member._assign(library, [Place(A.topic, 0)])
    assert library.asked[-1] == ("unassign", {}), "or it would read from where it likes"
    drawn(member, 10)
    assert library.asked[-1] == ("assign", {A: 5})
    assert list(member._assigned) == [A]


def test_a_rebalance_that_the_library_finished_alone_is_made_good(member: Membership, library: Library) -> None:
    """Ctrl-C came before the first line of the callback."""
    member.progress.hand_out(batch((A, 5), (B, 6)))
    library.assigned, member.may_skip = [Place(A.topic, 0)], True
    drawn(member, 10)
    assert library.asked == [("assign", {A: 6})], "the other one went"
    assert member.progress.batch is not None
    assert member.progress.batch.lost == {B}
    library.asked.clear()
    member._revoke(library, [Place(A.topic, 0)])
    library.asked.clear()
    library.assigned, member.may_skip = [Place(B.topic, 1)], True
    drawn(member, 10)
    assert library.asked == [("unassign", {}), ("assign", {B: 6})], "one came, and is read from where the group stands"


def test_ctrl_c_is_raised_while_a_rebalance_waits_and_put_off_while_it_changes_things(
    member: Membership, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    after: list[str] = []

    def come_in(*_: object) -> dict[str, Life]:
        signal.raise_signal(signal.SIGINT)
        after.append("the wait went on")
        return {}

    def wait(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        after.append("assigned")

    with monkeypatch.context() as patch:
        patch.setattr(member.lives, "learn", come_in)
        with pytest.raises(KeyboardInterrupt):
            member._assign(library, [Place(A.topic, 0)])
    assert after == []
    monkeypatch.setattr(library, "assign", wait)
    with pytest.raises(KeyboardInterrupt):
        member._assign(library, [Place(A.topic, 0)])
    assert after == ["assigned"]
    assert A in member._assigned


def test_ctrl_c_in_a_last_commit_lets_the_partition_go(
    member: Membership, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    member.progress.hand_out(batch((A, 5)))
    member.progress.finished = {A: 6}
    monkeypatch.setattr(library, "commit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        member._revoke(library, [Place(A.topic, 0)])
    assert member.progress.finished == {}
    assert member.progress.batch is not None
    assert member.progress.batch.lost == {A}
    assert not member.commits.is_in_callback


def test_records_of_partitions_that_nobody_took_are_refused(member: Membership, library: Library) -> None:
    member._assigned.clear()  # as after a rebalance that was cut off
    with pytest.raises(BrokerError, match="which this member has not taken"):
        member.standing([message(A, 5)])
    with pytest.raises(BrokerError, match="which this member has not taken"):
        member.poll(10, 0)


def test_what_a_callback_raises_does_not_cut_the_library_off(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {}
    monkeypatch.setattr(membership, "make", lambda _, given: settings.update(given) or library)

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    made = member_of({"on_commit": fail, "stats_cb": fail})
    made._assign(library, [Place(A.topic, 0)])
    library.asked.clear()
    library.before_consume = [lambda: settings["on_commit"](None, []), lambda: settings["stats_cb"]("")]
    library.here = [[message(A, 5)]]
    with pytest.raises(ZeroDivisionError):
        made.poll(10, 0)
    assert library.here == [], "it came to its end"
    library.here = [[message(A, 5)]]
    assert [one.offset() for one in made.poll(10, 0)] == [5]
    assert library.asked[-1] == ("assign", {A: 5}), "read again"


def test_a_lost_partition_is_not_committed(member: Membership, library: Library) -> None:
    member.progress.finished = {A: 9, B: 10}
    member._lose(library, [Place(A.topic, 0)])
    assert library.asked == []
    assert member.progress.finished == {B: 10}


def test_a_refused_commit_is_fenced_and_one_that_may_pass_is_tried_again(member: Membership, library: Library) -> None:
    library.refusals = [KafkaException(KafkaError(COORDINATOR_LOADING))]
    member.commits.commit({A: 9})
    assert [what for what, _ in library.asked] == ["commit", "commit"]
    library.refusals = [KafkaException(KafkaError(ILLEGAL_GENERATION))]
    with pytest.raises(FencedError):
        member.commits.commit({A: 9})
    library.refusals = [KafkaException(KafkaError(29))]
    with pytest.raises(BrokerError, match="not committed"):
        member.commits.commit({A: 9})
    assert member.commits.refused == 1


def test_a_commit_under_way_carries_no_second_one(member: Membership, library: Library) -> None:
    member.progress.finished = {A: 9}
    member.commits.commit_soon()
    member.progress.finished = {A: 12}
    member.commits.commit_soon()
    assert library.asked == [("commit soon", {A: 9})]
    member.commits.answered(None, [Place(A.topic, 0, 9)])
    member.commits.commit_soon()
    assert library.asked[1:] == [("commit soon", {A: 12})]


def test_a_commit_that_failed_is_made_again_unless_a_later_one_is_due(member: Membership) -> None:
    member.progress.finished = {B: 20}
    failed = KafkaError(COORDINATOR_LOADING)
    member.commits.answered(failed, [Place(A.topic, 0, 9), Place(B.topic, 1, 10)])
    assert member.progress.finished == {A: 9, B: 20}
    assert member.commits.refused == 1

"""A call of the library that never comes back ends the producer, not the program's patience."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator

import pytest

from semel.clients.delivery import Failures
from semel.clients.failures import Fate
from semel.clients.limited_calls import LimitedCalls, LimitPassed
from semel.clients.steps import ClientStep
from semel.clients.transaction import Coordination, State
from semel.errors import BrokerError, Outcome


class Stuck:
    """Stands for confluent_kafka.Producer when the group's coordinator has left the cluster."""

    def __init__(self) -> None:
        """Nothing is asked yet."""
        self.end, self.asked = threading.Event(), list[str]()

    def begin_transaction(self) -> None:
        self.asked.append("begin")

    def send_offsets_to_transaction(self, *_: object) -> None:
        self.asked.append("offsets")
        self.end.wait(60)

    def abort_transaction(self, *_: object) -> None:
        self.asked.append("abort")


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    made = Stuck()
    yield made
    made.end.set()


def test_a_producer_whose_offsets_are_never_answered_is_at_its_end(
    stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.clients.transaction.GRACE_S", 0.05)
    steps: list[ClientStep] = []
    coordination = Coordination(stuck, 0.05, steps.append, Fate(), Failures())
    coordination.begin()
    with pytest.raises(BrokerError, match="at its end") as caught:
        coordination.send_offsets([], None)
    assert caught.value.outcome is Outcome.DID_NOT_HAPPEN
    coordination.abort_because(caught.value)
    assert coordination.state is State.ENDED
    with pytest.raises(BrokerError, match="same transactional id"):
        coordination.begin()
    assert stuck.asked == ["begin", "offsets"], "nothing more is asked of a client that somebody is still in"
    assert steps == [ClientStep.BEGUN]


def test_calls_are_made_one_after_the_other_in_one_thread() -> None:
    calls, seen = LimitedCalls(), list[int]()
    for _ in range(3):
        calls.call(20, lambda: seen.append(threading.get_ident()))
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert seen[0] != threading.get_ident()


def test_an_error_is_raised_where_it_is_waited_for() -> None:
    calls = LimitedCalls()
    with pytest.raises(ZeroDivisionError):
        calls.call(20, lambda: 1 / 0)
    calls.call(20, lambda: None)


def test_the_limit() -> None:
    end = threading.Event()
    with pytest.raises(LimitPassed):
        LimitedCalls().call(0.01, end.wait, 60)
    end.set()


def test_the_end_of_a_call_that_was_left_behind_is_not_taken_for_the_next_one_s() -> None:
    """An interrupt, or a limit: the answer that comes late is nobody's."""
    calls, end, made = LimitedCalls(), threading.Event(), list[str]()
    with pytest.raises(LimitPassed):
        calls.call(0, end.wait, 60)
    assert calls.is_busy
    with pytest.raises(LimitPassed):
        calls.wait(0.01)
    end.set()

    def fail() -> None:
        made.append("second")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        calls.call(20, fail)
    assert made == ["second"]
    assert not calls.is_busy


def test_a_callback_inside_of_a_call_may_call() -> None:
    calls, made = LimitedCalls(), list[str]()
    calls.call(20, lambda: calls.call(20, made.append, "inner"))
    assert made == ["inner"]


def test_the_thread_ends_with_its_owner_and_keeps_nothing() -> None:
    threads, calls, held = list[threading.Thread](), LimitedCalls(), Stuck()
    held.end.set()
    kept = weakref.ref(held)
    calls.call(20, lambda: threads.append(threading.current_thread()))
    calls.call(20, held.send_offsets_to_transaction)
    del held
    assert kept() is None, "the client of a call is free when the call is over"
    del calls
    threads[0].join(20)
    assert not threads[0].is_alive()

"""A deadline is shared: what is taken from it never gives more time than is left."""

import pytest

from semel.errors import BrokerError, ConnectionFailure, FencedError, Outcome
from semel.protocol.error_codes import ErrorCode
from semel.wire.answers import Backoff, code_of, error_of
from semel.wire.deadline import CALLED_OFF_MS, Deadline
from semel.wire.settings import WireSettings

SETTINGS = WireSettings(bootstrap=(("a", 1),), retry_backoff_ms=1, retry_backoff_ms_max=4)


def test_a_deadline_counts_down_to_zero_and_not_below() -> None:
    passed = Deadline.after_ms(0)
    assert (passed.left_ms, passed.left_s, passed.expired) == (0, 0.0, True)
    assert not Deadline.after_ms(60_000).expired
    assert 59_000 < Deadline.after_ms(60_000).left_ms <= 60_000


def test_a_part_is_never_longer_than_the_whole() -> None:
    whole = Deadline.after_ms(60_000)
    assert whole.within_ms(120_000) is whole
    assert whole.within_ms(1_000).left_ms <= 1_000


def test_asking_again_ends_at_the_deadline_with_the_last_error() -> None:
    backoff = Backoff(SETTINGS, Deadline.after_ms(30))
    last = ConnectionFailure("down")

    def ask_for_ever() -> None:
        for _ in range(10_000):
            backoff.wait(last)

    with pytest.raises(ConnectionFailure) as raised:
        ask_for_ever()
    assert raised.value is last
    assert backoff.attempts > 1


def test_a_code_that_is_newer_than_this_client_keeps_its_number() -> None:
    assert code_of(9999) is ErrorCode.UNKNOWN_SERVER_ERROR
    error = error_of(9999, "asking")
    assert (error.code, "9999" in str(error)) == (9999, True)


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_newer_owner_is_an_error_of_its_own(code: ErrorCode) -> None:
    error = error_of(code, "writing", outcome=Outcome.UNKNOWN)
    assert (type(error), error.outcome) == (FencedError, Outcome.UNKNOWN)
    assert type(error_of(ErrorCode.INVALID_TXN_STATE, "writing")) is BrokerError


def test_an_attempt_cut_off_by_the_deadline_does_not_hide_the_reason() -> None:
    deadline = Deadline.after_ms(50)
    backoff = Backoff(SETTINGS, deadline)
    backoff.wait(ConnectionFailure("refused: wrong door", outcome=Outcome.DID_NOT_HAPPEN))
    deadline.wait_ms(1_000)
    with pytest.raises(ConnectionFailure, match="wrong door") as raised:
        backoff.wait(ConnectionFailure("the time is up"))
    assert raised.value.outcome is Outcome.UNKNOWN


def test_little_time_is_left_once_nobody_wants_the_result() -> None:
    called_off = False
    deadline = Deadline.after_ms(60_000, lambda: called_off)
    backoff = Backoff(SETTINGS, deadline)
    backoff.wait(ConnectionFailure("down"))
    assert deadline.left_ms > CALLED_OFF_MS
    called_off = True
    backoff.wait(ConnectionFailure("down"))
    left_ms = deadline.left_ms
    assert left_ms <= CALLED_OFF_MS
    backoff.wait(ConnectionFailure("down"))
    assert deadline.left_ms < left_ms  # not so much again


@pytest.mark.parametrize(("attempts", "words"), [(1, "gave up after 1 attempt in"), (3, "gave up after 3 attempts in")])
def test_whoever_gives_up_says_after_how_many_attempts(attempts: int, words: str) -> None:
    backoff = Backoff(SETTINGS, Deadline.after_ms(0))
    backoff.attempts = attempts - 1
    with pytest.raises(ConnectionFailure) as given_up:
        backoff.wait(ConnectionFailure("down"))
    assert given_up.value.because == f"{words} 0 ms, the time allowed"

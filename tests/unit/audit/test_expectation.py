"""What is expected of each record, and the counting, held against pairing records one by one."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.audit.expectation import COPIES_MAX, Expectation, Tally
from semel.audit.finding import Kind
from semel.errors import ConfigError
from tests.unit.audit.histories import History, histories
from tests.unit.audit.naive import Seen, naive_audit

EXPECTATIONS = [Expectation.parse(text) for text in ("exactly-one", "at-most-one", "at-least-one", "2", "3")]


@given(history=histories())
def test_every_planted_anomaly_is_counted_and_nothing_else(history: History) -> None:
    found = naive_audit(history.left, history.right, Expectation())
    assert +found == +history.planted


@given(
    contents=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=4),
    expectation=st.sampled_from(EXPECTATIONS),
)
def test_the_tally_of_an_identity_is_what_pairing_comes_to(
    contents: list[tuple[int, int]], expectation: Expectation
) -> None:
    left = [Seen(identity=0, content=at) for at, (copies, _) in enumerate(contents) for _ in range(copies)]
    right = [Seen(identity=0, content=at) for at, (_, copies) in enumerate(contents) for _ in range(copies)]
    naive = naive_audit(left, right, expectation)
    tally = expectation.tally(contents)
    assert tally == Tally(
        lost=naive[Kind.LOST],
        altered=naive[Kind.ALTERED],
        duplicated=naive[Kind.DUPLICATED],
        unexpected=naive[Kind.UNEXPECTED],
    )


@pytest.mark.parametrize("expectation", EXPECTATIONS, ids=str)
def test_the_usual_number_of_copies_holds(expectation: Expectation) -> None:
    assert expectation.tally([(2, 2 * expectation.copies_usual)]) == Tally()


def test_three_copies_are_two_doubled() -> None:
    assert Expectation().tally([(1, 3)]) == Tally(duplicated=2)


def test_late_records_are_counted_once_each() -> None:
    left = [Seen(identity=one, position=one) for one in range(4)]
    right = [Seen(identity=one, position=at) for at, one in enumerate([3, 0, 1, 2])]
    assert naive_audit(left, right, Expectation()) == Counter({Kind.REORDERED: 3})


def test_the_order_of_equal_records_is_not_judged() -> None:
    left = [Seen(identity=one, position=at) for at, one in enumerate([7, 8, 7])]
    right = [Seen(identity=one, position=at) for at, one in enumerate([8, 7])]
    assert naive_audit(left, right, Expectation())[Kind.REORDERED] == 0


@pytest.mark.parametrize(
    ("text", "bounds"),
    [("exactly-one", (1, 1)), ("AT_MOST_ONE", (0, 1)), ("at least one", (1, None)), ("7", (7, 7))],
)
def test_expectations_are_read_as_people_write_them(text: str, bounds: tuple[int, int | None]) -> None:
    read = Expectation.parse(text, where="amount > 0")
    assert (read.copies_min, read.copies_max, read.where) == (*bounds, "amount > 0")


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "1.5", "²", str(COPIES_MAX + 1)])
def test_what_cannot_be_expected_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot be expected"):
        Expectation.parse(text)


def test_bounds_that_contradict_each_other_are_refused() -> None:
    for least, most in ((-1, 1), (2, 1), (0, 0)):
        with pytest.raises(ConfigError):
            Expectation(copies_min=least, copies_max=most)

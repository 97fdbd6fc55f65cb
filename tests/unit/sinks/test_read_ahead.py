"""Reading ahead: in order, so far and no further, and with the errors of whoever is read."""

import threading
from collections.abc import Iterator
from itertools import count

import pytest

from semel.sinks.read_ahead import read_ahead
from tests.support.waiting import eventually


def test_everything_comes_in_order() -> None:
    assert list(read_ahead(iter(range(1_000)))) == list(range(1_000))
    assert list(read_ahead(())) == []


def test_the_next_is_taken_while_this_one_is_in_use_and_no_more() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in count():
            taken.append(number)
            yield number

    rows = read_ahead(items(), 2)
    assert next(rows) == 0
    eventually(lambda: taken == [0, 1, 2], what="two more were taken")
    assert next(rows) == 1
    eventually(lambda: taken == [0, 1, 2, 3], what="one more was taken")
    rows.close()


def test_nothing_is_taken_before_the_first_is_asked_for() -> None:
    taken: list[int] = []
    read_ahead(map(taken.append, range(3)))
    assert taken == []


def test_the_thread_ends_when_nobody_wants_more() -> None:
    before = set(threading.enumerate())
    rows = read_ahead(iter(range(1_000)))
    assert next(rows) == 0
    (thread,) = set(threading.enumerate()) - before
    rows.close()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_error_is_raised_after_what_came_before_it(kind: type[BaseException]) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise kind("the source broke")

    rows = read_ahead(items())
    assert next(rows) == 1
    with pytest.raises(kind, match="the source broke"):
        next(rows)


def test_what_was_given_out_is_not_kept() -> None:
    """Rows are megabytes."""
    alive = 0

    class Rows:
        def __init__(self) -> None:
            nonlocal alive
            alive += 1

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    most = 0
    for rows in read_ahead((Rows() for _ in range(50)), 1):
        most = max(most, alive)
        del rows
    assert most <= 4, "one in use, one waiting, one on its way, and one that the generator had just made"
    assert alive == 0

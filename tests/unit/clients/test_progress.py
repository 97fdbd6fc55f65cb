"""K4 an unfinished record is neither counted as done nor skipped; K5 a revoked partition takes its offsets along."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.clients.progress import Ending, Progress
from semel.clients.records import Batch
from tests.unit.clients.messages import A, B, batch


def handed(*at: tuple[object, int]) -> Progress:
    progress = Progress()
    progress.assign({A: 5, B: 20})
    progress.hand_out(batch((A, 5), (B, 20), (A, 6), (B, 25)))
    return progress


def in_hand(progress: Progress) -> Batch:
    assert progress.batch is not None
    return progress.batch


def test_a_finished_batch_counts_and_is_not_read_again() -> None:
    progress = handed()
    progress.end(progress.batch, Ending.FINISHED)
    assert progress.take_back() == {}
    assert progress.finished == {A: 7, B: 26}
    assert progress.positions == {A: 7, B: 26}


def test_a_batch_that_was_left_is_read_again_from_its_start() -> None:
    progress = handed()
    assert progress.take_back() == {A: 5, B: 20}
    assert progress.finished == {}
    assert progress.positions == {A: 5, B: 20}


def test_of_records_one_by_one_the_finished_ones_count() -> None:
    progress = handed()
    in_hand(progress).records_done = 2
    assert progress.take_back() == {A: 6, B: 25}
    assert progress.finished == {A: 6, B: 25}


def test_an_undone_batch_is_read_again_whole() -> None:
    progress = handed()
    in_hand(progress).records_done = 2
    progress.end(progress.batch, Ending.GIVEN_UP)
    assert progress.take_back() == {A: 5, B: 20}
    assert progress.finished == {}


def test_a_settled_batch_needs_no_commit() -> None:
    progress = handed()
    progress.end(progress.batch, Ending.SETTLED)
    assert (progress.take_back(), progress.finished) == ({}, {})


def test_a_revoked_partition_takes_its_offsets_along() -> None:
    progress = handed()
    progress.end(progress.batch, Ending.FINISHED)
    progress.revoke([A])
    assert progress.take_back() == {}
    assert progress.finished == {B: 26}
    assert progress.positions == {B: 26}


def test_what_was_finished_earlier_goes_with_its_partition_too() -> None:
    progress = handed()
    progress.end(progress.batch, Ending.FINISHED)
    progress.take_back()
    progress.revoke([B])
    assert progress.finished == {A: 7}


def test_a_revoked_partition_is_not_read_again() -> None:
    progress = handed()
    progress.revoke([B])
    assert progress.take_back() == {A: 5}


def test_a_gap_before_the_first_record_is_read_again_too() -> None:
    progress = Progress()
    progress.assign({A: 2})
    progress.hand_out(batch((A, 5), starts={A: 2}))
    assert progress.take_back() == {A: 2}


@given(st.lists(st.sampled_from(["finish", "leave", "undo", "settle"]), max_size=30), st.data())
def test_any_order_of_endings_hands_out_every_record_in_turn(endings: list[str], data: st.DataObject) -> None:
    """The position after a batch is where it ended, or exactly where the first record stands that is not done."""
    progress, wanted = Progress(), 0
    progress.assign({A: 0})
    for ending in endings:
        count = data.draw(st.integers(1, 4))
        assert progress.positions[A] == wanted
        progress.hand_out(batch(*((A, wanted + number) for number in range(count))))
        done = count
        if ending == "finish":
            progress.end(progress.batch, Ending.FINISHED)
        elif ending == "settle":
            progress.end(progress.batch, Ending.SETTLED)
        elif ending == "undo":
            done = 0
            progress.end(progress.batch, Ending.GIVEN_UP)
        else:
            done = in_hand(progress).records_done = data.draw(st.integers(0, count))
        again = progress.take_back()
        assert again == ({} if done == count else {A: wanted + done})
        wanted += done
        assert progress.finished.get(A, 0) <= wanted


def test_a_batch_in_a_commit_is_not_ended_by_its_loop_and_no_more_is_handed_out() -> None:
    progress, work = Progress(), batch((A, 0), (A, 1))
    progress.hand_out(work)
    assert progress.claim(work)
    progress.end_open(work, Ending.LEFT)
    assert (progress.ending, progress.ask_for_more()) == (Ending.UNDECIDED, False)
    progress.end(work, Ending.SETTLED)
    assert progress.ask_for_more()


def test_a_batch_that_comes_again_goes_into_no_commit() -> None:
    progress, work = Progress(), batch((A, 0), (A, 1))
    progress.hand_out(work)
    assert progress.ask_for_more()
    assert not progress.claim(work), "though it is not taken back yet"
    progress.take_back()
    progress.hand_out(batch((A, 0), (A, 1)))
    assert not progress.claim(work)


@pytest.mark.parametrize("step", ["hand_out", "take_back"])
def test_an_interrupt_at_any_line_leaves_a_batch_that_can_be_taken_back(step: str) -> None:
    for line in range(1, 20):
        progress = handed()
        if step == "hand_out":
            progress.end(progress.batch, Ending.SETTLED)
            progress.take_back()
        cut_off_at(
            line, partial(progress.hand_out, batch((A, 7), (B, 26))) if step == "hand_out" else progress.take_back
        )
        progress.take_back()
        assert progress.finished == {}
        assert progress.positions == ({A: 7, B: 26} if step == "hand_out" else {A: 5, B: 20})


def cut_off_at(line: int, work: Callable[[], object]) -> None:
    passed = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal passed
        if not frame.f_code.co_filename.endswith("clients/progress.py"):
            return None
        passed += event == "line"
        if event == "line" and passed == line:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)

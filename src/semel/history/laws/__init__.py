"""The laws: one file each, a pure function from a history to a judgement. The table below is the whole list."""

from collections.abc import Callable, Sequence

from semel.history.laws import (
    all_or_nothing,
    group_offsets,
    no_aborted_read,
    no_duplicate,
    no_false_gap,
    no_loss,
    no_phantom,
    one_owner,
    order,
    progress,
    replicas,
    stable_offsets,
    watermarks,
)
from semel.history.op import Op
from semel.history.verdict import Judgement

LAWS: tuple[Callable[[Sequence[Op]], Judgement], ...] = (
    no_loss.judge,
    no_duplicate.judge,
    order.judge,
    no_false_gap.judge,
    no_aborted_read.judge,
    no_phantom.judge,
    all_or_nothing.judge,
    stable_offsets.judge,
    watermarks.judge,
    replicas.judge,
    one_owner.judge,
    group_offsets.judge,
    progress.judge,
)


def judge_all(history: Sequence[Op]) -> list[Judgement]:
    """Judge a history by every law."""
    return [judge(history) for judge in LAWS]

"""Which things happen to pipelines on Spark: every commit step of every sink, and what is certain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import cast

import pytest

from semel.drill.cells import CELLS, Cell
from semel.drill.spark_pipeline import AtStep, Killed
from semel.drill.spark_ways import KAFKA, PATHS, POSTGRES, SPARK_WAYS, STEPS, Act, SparkFault
from semel.guarantee import Anomaly, Guarantee
from semel.sinks.base import CommitStep, MicroBatch, SinkSession
from semel.sinks.commit import Commit, Work
from semel.sinks.ledger import Ledger

SPARK_CELLS = [cell for cell in CELLS if cell.way in SPARK_WAYS]


def cells_with(act: Act) -> list[Cell]:
    return [cell for cell in SPARK_CELLS if isinstance(cell.fault, SparkFault) and cell.fault.act is act]


def step_of(cell: Cell) -> CommitStep:
    assert isinstance(cell.fault, SparkFault)
    return cell.fault.step


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_a_driver_is_killed_at_every_step(path: str, guarantee: Guarantee) -> None:
    killed = [cell for cell in cells_with(Act.KILL_DRIVER) if (cell.way.path, cell.way.guarantee) == (path, guarantee)]
    assert [step_of(cell) for cell in killed] == list(STEPS[guarantee])


class Sink:
    """Every function of a session, and of its work, that an order of steps calls: nothing fails."""

    def __getattr__(self, name: str) -> Callable[..., object]:
        answers: dict[str, object] = {"prepare": 1, "is_stateful": True, "read_ledger": Ledger()}
        return lambda *_, **__: answers.get(name)


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_the_steps_are_those_that_a_commit_goes_through(guarantee: Guarantee, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that were missing here would never be struck."""
    seen: list[CommitStep] = []
    monkeypatch.setattr(Commit, "_is_to_be_run", lambda _: True)
    micro_batch = MicroBatch(pipeline="p", query_id="q", id=0, guarantee=guarantee, offsets={})
    session, work = cast(SinkSession, Sink()), cast(Work, Sink())
    monkeypatch.setattr(Sink, "errors", (), raising=False)
    Commit(session=session, micro_batch=micro_batch, work=work, on_step=seen.append).execute()
    assert tuple(seen) == STEPS[guarantee]


def test_what_is_certain() -> None:
    certain = {(cell.way.guarantee, step_of(cell), cell.certain) for cell in SPARK_CELLS if cell.certain is not None}
    assert certain == {
        (Guarantee.AT_LEAST_ONCE, CommitStep.ROWS_WRITTEN, Anomaly.DUPLICATED),
        (Guarantee.AT_MOST_ONCE, CommitStep.COMMITTED, Anomaly.LOST),
    }


def test_each_sink_meets_what_it_can_meet() -> None:
    for act in (Act.KILL_JVM, Act.LOSE_CHECKPOINT, Act.TWO_DRIVERS, Act.KILL_TASK, Act.FAIL_WRITTEN_TASK):
        assert {cell.way.path for cell in cells_with(act)} == set(PATHS), act
    assert {cell.way.path for cell in cells_with(Act.KILL_POSTGRES)} == {POSTGRES}
    coordinator = [cell for cell in SPARK_CELLS if cell.fault.name.startswith("transaction coordinator")]
    exactly = Counter(step_of(cell) for cell in coordinator if cell.way.guarantee is Guarantee.EXACTLY_ONCE)
    assert exactly == Counter(CommitStep)
    assert {cell.way.path for cell in coordinator} == {KAFKA}


def test_a_step_is_struck_once_at_its_time() -> None:
    def die() -> None:
        raise Killed

    at_step = AtStep(CommitStep.OPENED, 2, die)
    at_step(CommitStep.OPENED)
    at_step(CommitStep.COMMITTED)
    assert at_step.fired == 0
    with pytest.raises(Killed):
        at_step(CommitStep.OPENED)
    at_step(CommitStep.OPENED)
    assert at_step.fired == 1

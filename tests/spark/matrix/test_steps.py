"""The driver dies after each step of a commit; "before a step" is after the one before it."""

import pytest

from semel.sinks.base import CommitStep
from tests.spark.matrix.conftest import Make
from tests.spark.sink_jobs import KillAfter

BOTH = pytest.mark.parametrize("partitioning", ["keyed", "spread"])


@pytest.mark.quick(6)
@BOTH
@pytest.mark.parametrize("step", list(CommitStep))
@pytest.mark.parametrize("nth", [1, 2])
def test_a_driver_dies(make: Make, partitioning: str, step: CommitStep, nth: int) -> None:
    pipeline = make(partitioning)
    kill = KillAfter(step, nth=nth)
    errors = pipeline.survive(kill)
    assert kill.fired == 1
    assert errors == [f"Killed: {step}"]
    assert pipeline.drivers == 2
    pipeline.check()


@BOTH
def test_drivers_die_after_every_step_in_turn(make: Make, partitioning: str) -> None:
    """Six drivers one after another, each gets one step further than the last."""
    pipeline = make(partitioning)
    for step in CommitStep:
        kill = KillAfter(step)
        with pytest.raises(Exception, match=step):
            pipeline.drive(kill)
        assert kill.fired == 1
    pipeline.drive()
    pipeline.check()


@BOTH
def test_nothing_of_an_unfinished_transaction_is_seen(make: Make, partitioning: str) -> None:
    pipeline = make(partitioning)
    with pytest.raises(Exception, match="offsets-written"):
        pipeline.drive(KillAfter(CommitStep.OFFSETS_WRITTEN))
    assert pipeline.output() == []
    pipeline.drive()
    pipeline.check()

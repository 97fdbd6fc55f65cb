"""Random histories of transactions against the model; the numbers say that each kind of step was taken often.

Keeps: T1 T2 T3 T4 T5 P3 B8, see machine.py.
"""

import sys

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import TransactionMachine

STEPS_MIN = 20_000
KINDS = (
    "records committed",
    "committed",
    "aborted",
    "told committed",
    "fenced",
    "refused writes",
    "late messages",
    "retries",
    "coordinator crashes",
    "partition crashes",
    "markers",
)


def run(examples: int, steps: int) -> dict[str, int]:
    TransactionMachine.counts.clear()
    run_state_machine_as_test(TransactionMachine, settings=settings(max_examples=examples, stateful_step_count=steps))
    return dict(TransactionMachine.counts)


@pytest.mark.full
def test_random_histories_keep_the_promises(capsys: pytest.CaptureFixture[str]) -> None:
    counts = run(examples=900, steps=60)
    with capsys.disabled():
        sys.stdout.write(f"\nmodel: {counts}\n")
    assert counts["steps"] >= STEPS_MIN
    for kind in KINDS:
        assert counts[kind] >= 100, f"too few: {kind}"


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_millions_of_steps_keep_the_promises() -> None:
    assert run(examples=25_000, steps=100)["steps"] >= 1_000_000

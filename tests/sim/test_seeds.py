"""Seeds hold, and together they show something: every kind of fault struck, every law had much to weigh."""

from collections import Counter

import pytest

from semel.history import Inject, Outcome, Verdict
from semel.history.laws import LAWS
from semel.history.view import acts
from semel.sim.faults import KINDS
from semel.sim.run import SimResult, run_seed
from semel.sim.summary import run_many, verdict_together, weighed_together

SEEDS, SEEDS_QUICK = range(1, 31), range(31, 37)
WEIGHED_MIN = 20


@pytest.fixture(scope="module")
def results() -> list[SimResult]:
    return [run_seed(seed) for seed in SEEDS]


def test_a_few_seeds_hold() -> None:
    assert {run_seed(seed).verdict for seed in SEEDS_QUICK} == {Verdict.HELD}


@pytest.mark.full
def test_every_seed_holds(results: list[SimResult]) -> None:
    broken = [
        f"semel sim --seed {one.options.seed}: {one.verdict.value} {one.stuck} "
        f"{[str(breach) for found in one.judgements for breach in found.breaches][:3]}"
        for one in results
        if one.verdict is not Verdict.HELD
    ]
    assert not broken, "\n".join(broken)


@pytest.mark.full
def test_every_kind_of_fault_struck(results: list[SimResult]) -> None:
    struck = Counter(inject.kind for one in results for _, inject in acts(one.history, Inject))
    assert not [kind for kind in KINDS if not struck[kind]], struck


@pytest.mark.full
def test_every_law_had_something_to_weigh(results: list[SimResult]) -> None:
    weighed = Counter[str]()
    for one in results:
        weighed.update({found.law: found.weighed for found in one.judgements})
    assert len(weighed) == len(LAWS)
    assert not {law: count for law, count in weighed.items() if count < WEIGHED_MIN}


@pytest.mark.full
def test_clients_were_left_in_doubt(results: list[SimResult]) -> None:
    """Without ops of unknown outcome the faults were too gentle to show anything."""
    outcomes = Counter((type(op.act).__name__, op.outcome) for one in results for op in one.history)
    for act in ("Send", "EndTransaction", "CommitOffset"):
        assert outcomes[act, Outcome.OK] > 100
        assert outcomes[act, Outcome.UNKNOWN] >= 3


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_thousands_of_seeds_hold() -> None:
    summaries = list(run_many(range(1_000, 3_000), jobs=2))
    broken = [f"{one.replay_command}: {one.breaches[:2]} {one.stuck}" for one in summaries if one.breaches or one.stuck]
    assert not broken, "\n".join(broken)
    assert verdict_together(summaries) is Verdict.HELD
    assert min(weighed_together(summaries).values()) > 1000

"""With a deliberate bug in the broker some seed is BROKEN; without it the same seed holds."""

from pathlib import Path

import pytest

from semel.history import Verdict
from semel.sim.run import SimResult, run_seed
from tests.sim.mutations import MUTATIONS, Mutation

PAGE = Path(__file__).resolve().parents[2] / "docs" / "SIM_MUTATIONS.md"
QUICK = [one for one in MUTATIONS if one.quick]
QUICK_SEEDS = range(1, 31)
ALL_SEEDS = range(1, 601)


def first_broken(seeds: range) -> SimResult | None:
    return next((found for seed in seeds if (found := run_seed(seed)).verdict is Verdict.BROKEN), None)


def find(mutation: Mutation, seeds: range) -> SimResult:
    with pytest.MonkeyPatch.context() as patch:
        mutation.apply(patch)
        found = first_broken(seeds)
    assert found is not None, f"{mutation.name}: not found by seeds {seeds.start} to {seeds.stop - 1}"
    return found


@pytest.mark.quick(2)
@pytest.mark.parametrize("mutation", QUICK, ids=[one.name for one in QUICK])
def test_a_seed_finds_it(mutation: Mutation) -> None:
    found = find(mutation, QUICK_SEEDS)
    assert run_seed(found.options.seed).verdict is not Verdict.BROKEN


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=[one.name for one in MUTATIONS])
def test_some_seed_finds_it(mutation: Mutation) -> None:
    find(mutation, ALL_SEEDS)


def test_the_page_lists_every_mutation() -> None:
    written = [line.split(" | ")[:2] for line in PAGE.read_text().splitlines() if line.startswith("| ")][2:]
    assert written == [[f"| {one.name}", one.bug] for one in MUTATIONS]

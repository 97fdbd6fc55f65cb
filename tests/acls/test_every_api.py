"""Every served API: refused without each right that it needs, carried out with exactly those (A2)."""

import pytest

from semel.broker.network.access import RULES
from semel.broker.network.registry import apis
from tests.acls.cases import Place
from tests.acls.running import CASES, refusals, run, without

OPEN = {17, 18, 36}  # what is said before anybody has authenticated


def test_every_api_has_a_row_and_a_case() -> None:
    assert set(RULES) == set(apis())
    assert {case.response.API_KEY for case in CASES.values()} == set(apis()) - OPEN


@pytest.mark.parametrize("name", CASES)
def test_it_needs_its_rights_and_no_others(embedded: Place, name: str) -> None:
    case = CASES[name]
    answers = run(case, embedded)
    allowed = answers["all"][-1].answer
    if not case.always_refused:
        assert refusals(answers["all"]) == [set()]
    for number in range(len(case.needs)):
        steps, code = answers[without(case, number)], case.code_without(number)
        assert code is None or all(code in found for found in refusals(steps))
        assert steps[-1].answer != allowed, "the answer is that of somebody with all rights"

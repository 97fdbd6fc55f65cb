"""With any mechanism switched off the tests named for it fail; docs/MUTATIONS.md says the same as the code."""

import pytest

from semel.errors import ProtocolError
from tests.mutations.bodies import Body
from tests.mutations.page import check_page
from tests.mutations.table import MUTATIONS, Mutation

CASES = [(mutation, body) for mutation in MUTATIONS for body in mutation.caught_by]


@pytest.mark.quick(9)
@pytest.mark.parametrize(("mutation", "body"), CASES, ids=[f"{one.name}-{body.test}" for one, body in CASES])
def test_it_is_caught(mutation: Mutation, body: Body, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.apply(monkeypatch)
    # A producer epoch that runs over because nobody checks it cannot be written, which notices it as well.
    with pytest.raises((AssertionError, ProtocolError)):
        body.run()


def test_the_page_says_what_the_code_does() -> None:
    rows = [
        f"| {one.name} | {one.switched_off} | {', '.join(f'`{body.test}`' for body in one.caught_by)} |"
        for one in MUTATIONS
    ]
    check_page("Transactions", rows)

"""One script of requests, two clusters, the same answers: the embedded cluster does what Apache Kafka does."""

import pytest

from tests.differential.run import Runs
from tests.differential.scripts import SCRIPTS


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_answers_are_the_same(runs: Runs, name: str) -> None:
    unexpected = runs.result(name, SCRIPTS[name]).unexpected
    assert not unexpected, "\n".join(map(str, unexpected))

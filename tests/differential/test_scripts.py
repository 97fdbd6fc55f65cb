"""One script of requests, two clusters, the same answers: the embedded cluster does what Apache Kafka does."""

from pathlib import Path

import pytest

from tests.differential.allowed import ALLOWED
from tests.differential.run import Runs
from tests.differential.scripts import SCRIPTS

STEPS_MIN = 3500
DIFFERENCES = Path(__file__).parents[2] / "docs" / "DIFFERENCES.md"


@pytest.mark.full
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_answers_are_the_same(runs: Runs, name: str) -> None:
    unexpected = runs.result(name, SCRIPTS[name]).unexpected
    assert not unexpected, "\n".join(map(str, unexpected))


@pytest.mark.full
def test_every_allowed_difference_still_occurs(runs: Runs) -> None:
    used = {entry for name, script in SCRIPTS.items() for entry in runs.result(name, script).used}
    unused = [entry for entry in ALLOWED if entry not in used]
    assert not unused, "\n".join(f"{entry.api}.{entry.path} at {entry.step}: {entry.reason}" for entry in unused)


@pytest.mark.full
def test_enough_is_compared(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    steps = sum(runs.result(name, script).steps for name, script in SCRIPTS.items())
    with capsys.disabled():
        print(f"\n{steps} answers of the embedded cluster compared with Apache Kafka's")  # noqa: T201
    assert steps >= STEPS_MIN


def test_every_reason_is_documented() -> None:
    text = " ".join(DIFFERENCES.read_text().split())
    sections = {part.split('"')[0]: part for part in text.split('<a id="')[1:]}
    missing = {(entry.anchor, entry.reason) for entry in ALLOWED if entry.reason not in sections.get(entry.anchor, "")}
    assert not missing, "\n".join(f"{anchor}: {reason}" for anchor, reason in sorted(missing))

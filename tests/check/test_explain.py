"""`semel explain`: every rule, invariant, error class and Kafka error code by its name, and the pages made of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from semel.check.explanation import Kind, explain, meaning_of
from semel.check.invariants import invariants, parse
from semel.check.known_errors import ELSEWHERE, error_classes, import_line
from semel.check.rules import RULES
from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.errors import ConfigError, MissingExtraError, SemelError
from semel.protocol.error_codes import ErrorCode
from tests.unit.test_errors import OWN
from tools import generate_pages

INSIDE = ("semel.broker.", "semel.world.", "semel.protocol.", "semel.sim.")  # what never reaches people


@pytest.mark.parametrize("path", generate_pages.render_all(), ids=lambda path: path.name)
def test_a_page_says_what_the_code_says(path: Path) -> None:
    text = generate_pages.render_all()[path]
    assert path.read_text(encoding="utf-8") == text, "write it again: make generate"


def test_an_id_means_one_thing() -> None:
    names = [rule.id for rule in RULES] + [one.id for one in invariants()] + [cls.__name__ for cls in error_classes()]
    names += ErrorCode.__members__
    lowered = [name.lower() for name in names]
    assert sorted(name for name in set(lowered) if lowered.count(name) > 1) == []
    assert not any(one.id.startswith("S") for one in invariants()), "S is for rules"


def test_a_rule_with_a_drill_ends_with_its_command() -> None:
    for rule in RULES:
        last = explain(rule.id).text.splitlines()[-1]
        assert (last.split() == ["see", "it", "semel", "drill", rule.id]) is bool(rule.shown_by), rule.id


def test_every_invariant_explains_itself() -> None:
    assert len(invariants()) >= 90
    for one in invariants():
        explained = explain(one.id.lower())
        assert explained.kind is Kind.INVARIANT
        assert explained.data["text"] == one.text
        assert one.text


def test_entries_are_read_whole() -> None:
    log = "### Log\n- **L1** One\n  and more.\n- **L2** (planned) Two.\n\nOf others:\n- **L3** Three.\n"
    page = f"{log}### World\n- **W1** Four."
    found = [(one.family, one.id, one.text, one.is_planned) for one in parse(page)]
    assert found == [
        ("Log", "L1", "One and more.", False),
        ("Log", "L2", "Two.", True),
        ("Log", "L3", "Three.", False),
        ("World", "W1", "Four.", False),
    ]


@pytest.mark.parametrize(
    "cls", [cls for cls in OWN if not cls.__module__.startswith(INSIDE)], ids=lambda cls: cls.__name__
)
def test_every_error_that_people_meet_explains_itself(cls: type[SemelError]) -> None:
    explained = explain(cls.__name__)
    assert explained.kind is Kind.ERROR
    assert explain(f"{cls.__module__}.{cls.__name__}").data == explained.data
    meaning, todo = meaning_of(cls)
    assert meaning.endswith(".")
    assert todo.endswith(".")
    place: dict[str, object] = {}
    exec(import_line(cls), place)
    assert place[cls.__name__] is cls


def test_a_kafka_code_says_which_error_it_becomes() -> None:
    for code in ErrorCode:
        assert explain(code.name).data == explain(f"code={code:d}").data
    assert explain("PRODUCER_FENCED").data["in_spark"] == "FencedError"
    assert explain("code=25").data["in_clients"] == "FencedError"
    assert explain("code=25").data["in_spark"] == "BrokerError"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("E99", "E9"),
        ("FenceError", "FencedError"),
        ("PRODUCER_FENCE", "PRODUCER_FENCED"),
        ("acks", "S001"),
        ("", "FencedError"),
    ],
)
def test_a_name_that_means_nothing_leads_to_one_that_does(name: str, near: str) -> None:
    with pytest.raises(ConfigError) as refused:
        explain(name)
    assert near in refused.value.you_want
    assert refused.value.next_command == "semel explain"


def test_without_pyspark_its_errors_name_the_extra_and_the_list_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ELSEWHERE["SecondAttemptError"]
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtraError, match="spark"):
        explain("SecondAttemptError")
    names = [cls.__name__ for cls in error_classes()]
    assert "FencedError" in names
    assert "SecondAttemptError" not in names


def test_several_kinds_at_once_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "S014", "E9", "FencedError", "code=90", "--format", "json"]) == ExitCode.HELD
    told = json.loads(capsys.readouterr().out)
    assert [len(told[kind]) for kind in Kind] == [1, 1, 1, 1]
    assert main(["explain", "--format", "json"]) == ExitCode.HELD
    told = json.loads(capsys.readouterr().out)
    assert len(told["rules"]) == len(RULES)
    assert len(told["invariants"]) == len(invariants())


def test_the_command_itself() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "semel", "explain", "FencedError", "E9"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "from semel.errors import FencedError" in told.stdout
    assert "Without a ledger a pipeline begins only where" in told.stdout
    assert told.stderr == ""
    wrong = subprocess.run(
        [sys.executable, "-m", "semel", "explain", "E99"], capture_output=True, text=True, check=False, timeout=60
    )
    assert wrong.returncode == ExitCode.USAGE
    assert "E9" in wrong.stderr


def test_what_is_no_error_is_not_proposed() -> None:
    with pytest.raises(ConfigError) as refused:
        explain("nonsense")
    assert "NONE" not in refused.value.you_want.split("; or ")

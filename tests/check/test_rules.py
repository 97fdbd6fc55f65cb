"""The rules as a list: ids, what each says about itself, its page, its damage, its two tests."""

import re
from pathlib import Path

import pytest

from semel.check.rules import RULES, find_rule
from semel.cli import main
from semel.drill.damage.running import rule_files
from semel.errors import ConfigError
from semel.guarantee import Anomaly, Guarantee
from tests.check import test_broker_rules, test_client_rules, test_query_rules, test_topic_rules

ROOT = Path(__file__).parents[2]
HARM = {Anomaly.LOST, Anomaly.DUPLICATED}
HARMFUL = [rule for rule in RULES if rule.anomalies & HARM]


def test_ids_are_a_sequence() -> None:
    assert [rule.id for rule in RULES] == [f"S{number:03}" for number in range(1, len(RULES) + 1)]
    assert len(RULES) >= 30


def test_a_file_has_the_id_of_its_rule() -> None:
    folder = ROOT / "src" / "semel" / "check" / "rules"
    for path in folder.glob("s0*.py"):
        assert path.read_text().startswith(f'"""{path.name[:4].upper()}: '), path


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_explains_itself(rule: object, capsys: pytest.CaptureFixture[str]) -> None:
    found = find_rule(getattr(rule, "id", ""))
    assert all([found.title, found.requires, found.wrong, found.fault, found.sources])
    assert any(found.matters_to(guarantee) for guarantee in Guarantee)
    assert main(["explain", found.id]) == 0
    told = capsys.readouterr().out
    assert found.title in told
    assert found.fault in told


@pytest.mark.parametrize("rule", HARMFUL, ids=lambda rule: rule.id)
def test_what_happens_without_it_is_shown(rule: object) -> None:
    found = find_rule(getattr(rule, "id", ""))
    assert (ROOT / found.shown_by).is_file(), found.shown_by
    if "/damage/" in found.shown_by:
        assert found.id in rule_files()


def test_every_damage_belongs_to_a_rule_that_names_it() -> None:
    for rule_id in rule_files():
        assert f"/damage/{rule_id.lower()}_" in find_rule(rule_id).shown_by


def test_every_rule_has_a_test_where_it_holds_and_one_where_it_does_not() -> None:
    tables = [*test_client_rules.CASES, *test_query_rules.CASES, *test_topic_rules.CASES]
    both = {row[0] for row in tables} | set(test_broker_rules.RULES) | {"S020"}
    texts = [path.read_text() for path in Path(__file__).parent.glob("test_*_rules.py")]
    named = {
        verdict: {rule for text in texts for rule in re.findall(rf'\b{verdict}\(.*"(S\d+)"\)', text)}
        for verdict in ("held", "broken")
    }
    every = {rule.id for rule in RULES}
    assert every - both - named["held"] == set()
    assert every - both - named["broken"] == set()


@pytest.mark.parametrize("text", ["S014", "s014", "14", "S14"])
def test_a_rule_is_found_however_it_is_written(text: str) -> None:
    assert find_rule(text).id == "S014"


@pytest.mark.parametrize("text", ["S999", "acks", "", "S"])
def test_a_rule_that_does_not_exist(text: str) -> None:
    with pytest.raises(ConfigError, match="no rule"):
        find_rule(text)

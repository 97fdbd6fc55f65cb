"""Every row and every fault of the table of features has a cell, a rule's drill, or a reason why it has neither."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.drill.cells import CELLS, rows
from semel.drill.coverage import FAULTS_SHOWN, ROW_REASONS, ROW_RULES, ROWS, fault_words, row_words
from semel.drill.damage.running import rule_files

ROOT = Path(__file__).resolve().parents[3]
# Word by word as the table of features has them.
FAULTS = """
request dropped; response dropped; response delayed past the timeout; connection cut mid-request; broker killed;
broker paused; broker restarted; leader moved; controller killed; network split between brokers; slow disk; full disk;
torn write at a crash; coordinator killed at each step; client process killed at each step; two owners; clock jump;
Spark task killed; executor killed; driver killed at each commit step; speculative task; stage run again;
PostgreSQL killed in the middle of a commit; rebalance; topic deleted or recreated; retention overtaking a reader
"""


def files_named_in(reason: str) -> list[str]:
    return re.findall(r"tests/[\w/*]+(?:\.py)?", reason)


def test_every_row_is_shown_or_has_a_reason() -> None:
    assert tuple(f"M{number:02d}" for number in range(1, 33)) == ROWS
    assert sorted([*rows(), *ROW_RULES, *ROW_REASONS]) == list(ROWS)


def test_every_fault_is_shown_or_has_a_reason() -> None:
    named = [" ".join(one.split()) for one in FAULTS.split(";")]
    assert [one.fault for one in FAULTS_SHOWN] == named
    kinds = {kind for cell in CELLS for kind in cell.kinds}
    for one in FAULTS_SHOWN:
        assert bool(one.kinds) + bool(one.rules) + bool(one.reason) == 1, one
        assert set(one.kinds) <= kinds, one
        assert set(one.rules) <= set(rule_files()), one


def test_rules_of_rows_have_drills() -> None:
    assert {rule for rules in ROW_RULES.values() for rule in rules} <= set(rule_files())


@pytest.mark.parametrize("reason", [*ROW_REASONS.values(), *(one.reason for one in FAULTS_SHOWN if one.reason)])
def test_a_reason_names_tests_that_are_there(reason: str) -> None:
    named = files_named_in(reason)
    assert named
    assert all(list(ROOT.glob(name if name.endswith(".py") else f"{name.rstrip('*')}*.py")) for name in named), named


def test_the_list_says_where_each_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "--list", "--format", "json"]) == ExitCode.HELD
    found = json.loads(capsys.readouterr().out)
    assert [one["shown"] for one in found["rows"]] == [row_words(row) for row in ROWS]
    assert [one["shown"] for one in found["faults"]] == [fault_words(one) for one in FAULTS_SHOWN]
    assert main(["drill", "--list"]) == ExitCode.HELD
    said = capsys.readouterr().out
    assert "M07  no cell: the codec" in said
    assert "two owners" in said

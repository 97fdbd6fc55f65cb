"""Cells on three nodes of Apache Kafka: a killed program, a killed coordinator, and a mistake that is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.drill import on_apache
from semel.drill.cells import Cell, ClientKill, judge
from semel.drill.on_apache import ApacheCells, apache_cells
from semel.drill.programs import SENT
from semel.drill.ways import LEAST, TRANSACTIONS
from semel.guarantee import Guarantee
from semel.history import Verdict

CELLS = ("copy.at-least-once.client-killed-at-sent", "copy.exactly-once.transaction-coordinator-killed")


@pytest.fixture(scope="module")
def apache() -> Iterator[ApacheCells]:
    with apache_cells(3) as cells:
        yield cells


def test_cells_are_as_expected(
    apache: ApacheCells, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(on_apache, "apache_cells", lambda _: nullcontext(apache))
    options = ["--engine", "apache", "--nodes", "3", "--runs", str(tmp_path), "--format", "json"]
    code = main(["drill", *CELLS, *options])
    found = json.loads(capsys.readouterr().out)["matrix"]
    assert code == ExitCode.HELD, found
    twice, once = (one["observed"] for one in found)
    assert twice["duplicated"] > 0
    assert (once["lost"], once["duplicated"], once["arrived"]) == (0, 0, once["sent"])
    assert [one["fired"] for one in found] == [{"kill-client step=sent": 1}, {"kill-broker": 1}]


def test_a_planted_mistake_is_broken(apache: ApacheCells, tmp_path: Path) -> None:
    """Transactions declared and not used."""
    # By its name the killed life finds its program: the one that commits offsets after records.
    wrong = Cell(way=replace(TRANSACTIONS, name=LEAST.name, life=LEAST.life), fault=ClientKill(step=SENT))
    verdict, why = judge(Guarantee.EXACTLY_ONCE, apache.run(wrong, 1, tmp_path))
    assert verdict is Verdict.BROKEN
    assert "duplicated, which exactly_once does not allow" in why

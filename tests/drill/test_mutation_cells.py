"""The proof can fail: with a mechanism of the cluster switched off, the cell named for it is BROKEN."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.drill.cells import CELLS, Cell, Observed, chosen_cells, judge
from semel.drill.damage.running import run_rule
from semel.drill.running import run_cell
from semel.drill.stories import STORIES, STORY_OF
from semel.drill.story import Story
from semel.drill.story_ways import NAMES, STORY_WAY
from semel.guarantee import Guarantee
from semel.history import Verdict
from tests.drill.mutation_table import REPLICATION_ROWS, TRANSACTION_ROWS, Row
from tests.support.mistaken_sinks import MISTAKES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "DRILL_MUTATIONS.md"
CASES = [
    pytest.param(row, id=f"{part}-{row.name}")
    for part, rows in (("transactions", TRANSACTION_ROWS), ("replication", REPLICATION_ROWS))
    for row in rows
]
SEED = 1


def verdict_of(cell: str, folder: Path) -> Verdict:
    """Run a cell as it is, and judge it."""
    if cell.startswith("S"):
        damage = run_rule(cell, followed=True)
        observed = Observed(
            sent=damage.sent,
            arrived=damage.sent - damage.lost,
            lost=damage.lost,
            duplicated=damage.duplicated,
            fired={cell: damage.fired},
        )
        return judge(Guarantee.EXACTLY_ONCE, observed)[0]
    (found,) = chosen_cells([cell])
    return judge(found.way.guarantee, run_cell(found, SEED, folder), found.certain)[0]


@pytest.mark.sampled(4)
@pytest.mark.quick(1)
@pytest.mark.parametrize("row", CASES)
def test_a_mutation_breaks_its_cell(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row.apply(monkeypatch)
    assert verdict_of(row.cell, tmp_path) is Verdict.BROKEN


@pytest.mark.sampled(6)
@pytest.mark.quick(1)
@pytest.mark.parametrize("cell", [pytest.param(cell, id=cell.id) for cell in CELLS if cell.way is STORY_WAY])
def test_a_story_holds(cell: Cell, tmp_path: Path) -> None:
    assert judge(cell.way.guarantee, run_cell(cell, SEED, tmp_path)) == (Verdict.HELD, "")


def test_every_name_has_its_story() -> None:
    assert list(NAMES) == list(STORY_OF) == [story.name for story in STORIES]


def test_the_page_has_every_mutation_and_every_mistake() -> None:
    for heading, wanted in (
        ("Transactions", [row.line() for row in TRANSACTION_ROWS]),
        ("Replication", [row.line() for row in REPLICATION_ROWS]),
        ("Sinks", [mistake.line() for mistake in MISTAKES]),
    ):
        _, text = PAGE.read_text().split(f"\n## {heading}\n")
        found = [line for line in text.split("\n## ")[0].splitlines() if line.startswith("| ")][2:]
        assert found == wanted, "\n".join(["the table should be:", *wanted])


def test_every_cell_that_is_named_is_there() -> None:
    for cell in {row.cell for row in (*TRANSACTION_ROWS, *REPLICATION_ROWS)} | {one.cell for one in MISTAKES}:
        assert cell.startswith("S0") or chosen_cells([cell])


def test_a_newcomer_that_says_nothing_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that no cluster gives ends a thread without a word to the story."""
    go_on = Story.go_on

    def silent(story: Story, topic: str, value: str, name: str | None = None) -> None:
        go_on(story, topic, value, name)
        if name == "shop 0":
            story.wanted.remove(value)
            story.maybe.add(value)

    monkeypatch.setattr(Story, "go_on", silent)
    observed = STORY_OF["two newcomers"].run(tmp_path)
    assert judge(Guarantee.EXACTLY_ONCE, observed) == (Verdict.UNKNOWN, "shop 0 ended without an answer")

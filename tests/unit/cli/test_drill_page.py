"""The page of a drill: all that was shown is on it, texts are texts, and no password is in the command."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from semel.cli import drill, drill_page, drill_replay, main
from semel.cli.drill_matrix import Matrix, Tried
from semel.cli.drill_rules import RuleCell
from semel.cli.exit_code import ExitCode
from semel.drill.cells import CELLS, Observed
from semel.drill.damage.records import Damage
from semel.drill.target import Target, Topic
from tests.unit.audit.test_page import HOSTILE, TAGS, Reader

FELT = Observed(sent=60, arrived=60, fired={"kill-broker broker=2": 1})


def read(folder: Path, parts: Iterator[str], verdict: ExitCode = ExitCode.HELD, command: str = "x") -> Reader:
    drill_page.write(str(folder / "page.html"), parts, verdict, [command])
    page = (folder / "page.html").read_text()
    found = Reader(page)
    assert found.tags <= TAGS
    assert found.attributes.isdisjoint({"src", "href", "style"})
    assert not [name for name in found.attributes if name.startswith("on")]
    for needed in ("default-src 'none'", "prefers-color-scheme: dark", "@media print"):
        assert needed in page
    return found


def test_every_cell_of_the_matrix_is_there(tmp_path: Path) -> None:
    tried = [Tried(cell=cell, seed=3, observed=FELT) for cell in CELLS if cell.certain is None]
    tried[4] = replace(tried[4], observed=replace(FELT, unexpected=2))
    tried[5] = replace(tried[5], observed=replace(FELT, fired={}))
    rule = RuleCell(rule="S003", followed=False, damage=Damage(sent=10, lost=0, duplicated=1, fired=1))
    found = read(tmp_path, drill_page.of_cells([rule], Matrix(tried=tried, folder=tmp_path)), ExitCode.BROKEN)
    for one in tried:
        assert one.cell.id in found.text
        assert one.cell.fault.name in found.text
    held = len(tried) - 1  # two of them are not held, and the rule is
    for told in (f"{held}HELD", "1BROKEN", "1UNKNOWN", "Drill: BROKEN", "S003", "kill-broker broker=2: 1", "Seed 3"):
        assert told in found.text, told
    for wrong in tried[4:6]:
        assert wrong.reason in found.text
        assert wrong.command in found.text
    assert tried[0].command not in found.text, "only what is not as expected has to be repeated"


def test_a_target_with_its_rounds(tmp_path: Path) -> None:
    target = Target(command=("job",), folder=tmp_path, source=Topic(name="a"), target=Topic(name="b"))
    rounds = target.draw(1)
    told = "BROKEN: 2 lost, which exactly_once does not allow"
    found = read(tmp_path, drill_page.of_target(Path("target.toml"), target, rounds, replace(FELT, lost=2), told))
    for one in rounds:
        assert one.schedule.entries
        assert all(str(entry) in found.text for entry in one.schedule.entries)
    for text in ("target.toml", told, "2lost", "round 4", "killed after", "kill-broker broker=2"):
        assert text in found.text, text


def test_what_programs_say_is_text(tmp_path: Path) -> None:
    bad = Tried(cell=CELLS[0], seed=1, observed=replace(FELT, reason=HOSTILE, fired={HOSTILE: 1}))
    found = read(tmp_path, drill_page.of_cells([], Matrix(tried=[bad], folder=Path(HOSTILE))), command=HOSTILE)
    assert found.text.count(HOSTILE) >= 2, "the reason, and what fired"
    read(tmp_path, drill_page.of_points(["point", HOSTILE], [[HOSTILE, 1]]))


def given(module: object, *arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    module.configure(parser)  # type: ignore[attr-defined] # both have it
    return parser.parse_args(arguments)


@pytest.mark.parametrize(
    "words",
    [
        ("M04", "s003", "--seed", "7", "--runs", "here", "--html", "page.html"),
        ("--fault", "disk full", "--html", "page.html"),
        ("--quick", "--html", "page.html"),
        ("--all", "--html", "page.html"),
    ],
)
def test_the_command_can_be_given_again(words: tuple[str, ...]) -> None:
    options = given(drill, *words)
    assert given(drill, *shlex.split(shlex.join(drill._words(options)))) == options


def test_a_replay_can_be_given_again_and_shows_no_password() -> None:
    sides = ("--checkpoint", "c", "--from", "kafka://h:9/a", "--to", "parquet:b", "--audit=--key=id")
    options = given(drill_replay, *sides, "--kills", "3", "--html", "p.html", "--", "python", "job.py", "--rows", "7")
    assert given(drill_replay, *drill_page.replay_words(options)[1:]) == options
    secret = ("--password", "hunter2", "--token=hunter2", "postgresql://me:hunter2@host/db", "api_secret=hunter2", "7")
    options = given(
        drill_replay,
        *("--checkpoint", "c", "--from", "jdbc:postgresql://h/db?password=hunter2#t", "--to", "parquet:b"),
        *("--audit=--conf=spark.my.password=hunter2", "--html", "p.html", "--", "python", "job.py", *secret),
    )
    told = drill_page.replay_words(options)
    assert "hunter2" not in " ".join(told)
    assert told[-1] == "7"


def test_a_page_that_cannot_be_is_refused_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "--list", "--html", str(tmp_path / "page.html")]) == ExitCode.USAGE
    assert "--list runs nothing" in capsys.readouterr().err
    assert main(["drill", "M04", "--html", str(tmp_path / "none" / "page.html")]) == ExitCode.USAGE
    assert "there is no folder" in capsys.readouterr().err
    sides = ["--checkpoint", str(tmp_path), "--from", "kafka://localhost:9/a", "--to", "json:b"]
    assert main(["drill", "replay", *sides, "--html", str(tmp_path), "--", "true"]) == ExitCode.USAGE
    assert "is no file" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())

"""`semel drill --html FILE`: what a drill showed as one page for a browser, with the look of the audit's page.

Keeps: all that is printed is on it, and how to repeat it; no password of a job's command is.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from semel.audit.document import document, figure, table, text_of, totals
from semel.audit.drawing import spans
from semel.cli.audit_page import made_now, put_page, without_login, without_secret
from semel.cli.exit_code import ExitCode
from semel.history import Verdict

if TYPE_CHECKING:
    from semel.cli.drill_matrix import Matrix, Tried
    from semel.cli.drill_rules import RuleCell
    from semel.drill.cells import Observed
    from semel.drill.target import Round, Target

# The login of an address: user:password@host.
_LOGIN = re.compile(r"://[^/\s]+@")


def write(path: str, parts: Iterator[str], verdict: ExitCode, command: Sequence[str]) -> None:
    """Write the page."""
    text = document("drill", verdict.name, parts, command=shlex.join(["semel", "drill", *command]), made=made_now())
    put_page(path, text, done="the drill")


# --- rules and cells


def of_cells(rules: Sequence[RuleCell], matrix: Matrix | None) -> Iterator[str]:
    """Rules and cells of the matrix: how many are as expected, then each of them."""
    from semel.cli import drill_rules

    cells = matrix.tried if matrix is not None else ()
    verdicts = Counter([*(one.verdict for one in rules), *(ExitCode[one.verdict.name] for one in cells)])
    yield totals({name.name: verdicts[name] for name in (ExitCode.HELD, ExitCode.BROKEN, ExitCode.UNKNOWN)})
    if rules:
        yield "<h2>Rules</h2>"
        yield '<p class="soft">Under one fault: ignored, records have to be harmed; followed, none may be.</p>'
        yield from table(drill_rules.HEADINGS, map(drill_rules.line_of, rules))
    if matrix is None:
        return
    yield "<h2>Guarantee x fault x path</h2>"
    yield f'<p class="soft">Seed {matrix.tried[0].seed}. Run folder: {text_of(str(matrix.folder))}.</p>'
    # One program makes no grid.
    if len({one.cell.way for one in cells}) > 1:
        yield from _grid(cells)
    wrong = [one for one in cells if one.verdict is not Verdict.HELD]
    if wrong:
        yield "<h3>Not as expected</h3>"
        yield from table(["verdict", "repeat"], ([f"{one.verdict.value}: {one.reason}", one.command] for one in wrong))
    yield "<h3>Every cell</h3>"
    headings = ["cell", "rows", "records", "lost", "doubled", "faults that fired", "verdict"]
    yield from table(headings, map(_cell, cells))


def _cell(one: Tried) -> list[str | int]:
    found = one.observed
    fired = ", ".join(f"{name}: {times}" for name, times in found.fired.items())
    rows = " ".join(one.cell.rows)
    return [one.cell.id, rows, found.sent, found.lost, found.duplicated, fired, one.verdict.value]


def _grid(cells: Sequence[Tried]) -> Iterator[str]:
    """A line for each fault, a column for each program."""
    ways = list(dict.fromkeys(one.cell.way for one in cells))
    found = {(one.cell.fault.name, one.cell.way): one for one in cells}
    headings = ["fault", *(f"{way.path}, {way.guarantee.value.replace('_', ' ')}" for way in ways)]
    faults = dict.fromkeys(one.cell.fault.name for one in cells)
    yield from table(headings, ([name, *(_harm(found.get((name, way))) for way in ways)] for name in faults))


def _harm(one: Tried | None) -> str:
    """The verdict, and what was lost or doubled: a weaker guarantee allows some."""
    if one is None:
        return ""
    counts = {"lost": one.observed.lost, "doubled": one.observed.duplicated}
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return f"{one.verdict.value}: {told}" if told else one.verdict.value


# --- a program of the user's own


def of_target(path: Path, target: Target, rounds: Sequence[Round], observed: Observed, told: str) -> Iterator[str]:
    """What was done to the program, and what came out; `told` is the verdict and why."""
    yield f"<h2>{text_of(str(path))}</h2>"
    yield f'<p class="soft">It promises {target.guarantee.value.replace("_", " ")}.</p>'
    yield f'<p class="{told.partition(":")[0]}">{text_of(told)}</p>'
    counts = {"records": observed.sent, "lost": observed.lost, "doubled": observed.duplicated}
    yield totals({**counts, "unexpected": observed.unexpected})
    yield "<h3>What fired</h3>"
    yield from table(["fault", "times"], ([name, times] for name, times in observed.fired.items()))
    yield "<h3>When</h3>"
    for number, one in enumerate(rounds, 1):
        entries = one.schedule.entries
        places = [(entry.at_ms, entry.at_ms + entry.duration_ms) for entry in entries]
        kill = f"killed after {one.kill_after} records" if one.kill_after else "not killed"
        drawn = spans(places, target.round_ms, [text_of(str(entry)) for entry in entries])
        yield figure(f"round {number}", f"{target.round_ms / 1000:g} s, {kill}", drawn)
    rows: list[list[str | int]] = []
    for number, one in enumerate(rounds, 1):
        rows += [[number, str(entry), entry.fault.fired] for entry in one.schedule.entries]
    yield from table(["round", "fault", "felt"], rows)


# --- a streaming query


def of_points(headings: Sequence[str], lines: Sequence[Sequence[str | int]]) -> Iterator[str]:
    """Crash point x anomaly."""
    yield "<h2>Where the query was struck</h2>"
    yield from table(headings, lines)
    yield '<p class="soft">Anomalies are counted for each point by itself.</p>'


def replay_words(options: argparse.Namespace) -> list[str]:
    """The command that repeats a replay, without what an address, a setting or the job's own words may hide."""
    sides = ["--checkpoint", options.checkpoint] if options.checkpoint else []
    for name, side in (("--from", options.left), ("--to", options.right), *(("--also", one) for one in options.also)):
        sides += [name, _word(without_login(side))] if side else []
    flags = [f"--{name}" for name in ("copy", "embedded") if getattr(options, name)]
    flags += ["--records", str(options.records)] if options.records is not None else []
    flags += [word for point in options.point for word in ("--point", point)]
    # Of the audit's options `--conf name=value` alone may have a password; `--key=id` is no key of that kind.
    audit = [f"--audit={one if one.startswith('--') and '--conf' not in one else _word(one)}" for one in options.audit]
    numbers = ["--kills", str(options.kills), "--seed", str(options.seed), "--timeout", f"{options.timeout:g}"]
    job = []
    for before, word in zip(["", *options.command], options.command, strict=False):
        # `--password hunter2`: the second word is what the first one names.
        is_named = before.startswith("-") and "=" not in before and without_secret(before) != before
        job.append("…" if is_named else _word(word))
    return ["replay", *sides, *flags, *audit, *numbers, "--html", options.html, "--", *job]


def _word(word: str) -> str:
    return _LOGIN.sub("://…@", without_secret(word) if "=" in word else word)

"""How findings are printed: a table whose cells are wrapped to the terminal, and JSON."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from semel.cli.output import Colour, paint

if TYPE_CHECKING:
    from semel.check.rule import Finding

HEADINGS = ("rule", "requires", "found", "verdict", "fix")
WIDTH_MIN = 100
COLOURS = {"HELD": Colour.GREEN, "BROKEN": Colour.RED, "UNKNOWN": Colour.YELLOW}


def as_rows(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """One row for each finding; brokers that answer alike share one."""
    merged: dict[tuple[str, ...], list[str]] = {}
    for one in findings:
        kind, _, name = one.subject.partition(" ")
        row = (one.rule, one.requires, kind, one.found, one.verdict.value, one.fix)
        same = row if kind == "broker" else (*row, name)
        merged.setdefault(same, []).append(name)
    return [(key[0], key[1], f"{key[2]} {', '.join(names)}: {key[3]}", key[4], key[5]) for key, names in merged.items()]


def render_findings(findings: Sequence[Finding]) -> str:
    """The table: wrapped for a terminal, one line for each finding otherwise."""
    rows = [HEADINGS, *as_rows(findings)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    if sys.stdout.isatty():
        widths = _fitted(widths, max(WIDTH_MIN, shutil.get_terminal_size().columns))
    return "\n".join(line for row in rows for line in _lines(row, widths))


def _fitted(widths: list[int], total: int) -> list[int]:
    """Share what rule and verdict leave between the three columns of text."""
    room = total - widths[0] - widths[3] - 2 * (len(widths) - 1)
    texts = {column: widths[column] for column in (1, 2, 4)}
    share = room // len(texts)
    return [min(width, share) if column in texts else width for column, width in enumerate(widths)]


def _lines(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    cells = [textwrap.wrap(text, max(width, 1)) or [""] for text, width in zip(row, widths, strict=True)]
    height = max(map(len, cells))
    lines = []
    for index in range(height):
        padded = [
            (cell[index] if index < len(cell) else "").ljust(width) for cell, width in zip(cells, widths, strict=True)
        ]
        word = padded[3].strip()
        if word in COLOURS:
            padded[3] = padded[3].replace(word, paint(word, COLOURS[word], sys.stdout))
        lines.append("  ".join(padded).rstrip())
    return lines


def as_json(
    findings: Sequence[Finding], verdict: str, guarantee: str, repairs: Mapping[str, Mapping[str, str]]
) -> dict[str, object]:
    """The document that `--format json` prints."""
    rows = [{key: value for key, value in asdict(one).items() if key != "alter"} for one in findings]
    return {"schema": 1, "guarantee": guarantee, "verdict": verdict, "findings": rows, "repairs": dict(repairs)}

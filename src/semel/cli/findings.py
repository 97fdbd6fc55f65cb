"""How findings are printed: a table whose cells are wrapped to the terminal, and JSON."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from semel.cli.output import Colour, paint

if TYPE_CHECKING:
    from semel.check.report import Report
    from semel.check.rule import Finding

HEADINGS = ("rule", "severity", "requires", "found", "verdict", "fix")
TEXTS, VERDICT = (2, 3, 5), 4  # the columns that may be wrapped, and the one that has a colour
# Three columns of text in less than this would be a few letters wide.
WIDTH_MIN = 100
COLOURS = {"HELD": Colour.GREEN, "BROKEN": Colour.RED, "UNKNOWN": Colour.YELLOW}
WORDS = {"counted": "", "known": ", known", "ignored": ", ignored"}


def merged(findings: Sequence[Finding]) -> list[list[Finding]]:
    """The findings that share a row: brokers that answer alike do, everything else stands alone."""
    rows: dict[tuple[str, ...], list[Finding]] = {}
    for one in findings:
        kind, _, name = one.subject.partition(" ")
        # A cluster of thirty brokers says the same thirty times.
        alike = (one.rule, kind, one.found, one.verdict, one.severity, one.standing, one.fix)
        rows.setdefault(alike if kind == "broker" else (*alike, name), []).append(one)
    return list(rows.values())


def as_row(group: Sequence[Finding]) -> tuple[str, ...]:
    """One row of the table."""
    one = group[0]
    kind = one.subject.partition(" ")[0]
    names = ", ".join(each.subject.partition(" ")[2] for each in group)
    verdict = f"{one.verdict}{WORDS[one.standing]}"
    severity = "" if one.verdict == "HELD" else one.severity.value
    return (one.rule, severity, one.requires, f"{kind} {names}: {one.found}", verdict, one.fix)


def render_findings(findings: Sequence[Finding]) -> str:
    """The table: wrapped for a terminal, one line for each row otherwise."""
    rows = [HEADINGS, *map(as_row, merged(findings))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    # In a file or a pipe every row is one line, for grep.
    if sys.stdout.isatty():
        widths = _fitted(widths, max(WIDTH_MIN, shutil.get_terminal_size().columns))
    return "\n".join(line for row in rows for line in _lines(row, widths))


def _fitted(widths: list[int], total: int) -> list[int]:
    """Share what the short columns leave between the three columns of text."""
    short = sum(width for column, width in enumerate(widths) if column not in TEXTS)
    share = (total - short - 2 * (len(widths) - 1)) // len(TEXTS)
    return [min(width, share) if column in TEXTS else width for column, width in enumerate(widths)]


def _lines(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    cells = [textwrap.wrap(text, max(width, 1)) or [""] for text, width in zip(row, widths, strict=True)]
    height = max(map(len, cells))
    lines = []
    for index in range(height):
        padded = [
            (cell[index] if index < len(cell) else "").ljust(width) for cell, width in zip(cells, widths, strict=True)
        ]
        word = padded[VERDICT].strip()
        if word in COLOURS:
            # After the padding: the codes of a colour count as letters, and would move the columns behind.
            padded[VERDICT] = padded[VERDICT].replace(word, paint(word, COLOURS[word], sys.stdout))
        lines.append("  ".join(padded).rstrip())
    return lines


def summary(report: Report) -> str:
    """The last line: the verdict, how many rows of the table have each, and which of them do not count."""
    from semel.check.report import counts_of, is_warning
    from semel.check.rule import ONE_BROKER

    shown = [group[0] for group in merged(report.findings)]
    counts = counts_of(shown)
    told = ", ".join(f"{counts[name]} {name}" for name in COLOURS if counts[name]) or "nothing was judged"
    apart = []
    if counts["warnings"]:
        rules = ", ".join(dict.fromkeys(one.rule for one in shown if is_warning(one)))
        apart.append(f"warnings {rules}; --strict counts them")
    if counts["known"]:
        apart.append(f"{counts['known']} known from the baseline")
    if report.ignored:
        apart.append(f"ignored {', '.join(rule.id for rule in report.ignored)}")
    rest = f"; not counted: {', '.join(apart)}" if apart else ""
    warned = f" with {_plural(counts['warnings'], 'warning')}" if counts["warnings"] else ""
    # The command that is named is to be of use: a rule that is not held, if there is one.
    first = next((one.rule for one in shown if one.verdict.value != "HELD"), shown[0].rule if shown else "S001")
    lines = [
        f"{report.guarantee}: {report.verdict}{warned} ({told}{rest}); what a rule is about: semel explain {first}"
    ]
    if any(ONE_BROKER in one.found for one in shown):
        lines.append(
            f"{ONE_BROKER}: what its disk loses is lost; fine to try things out, three for records that matter"
        )
    return "\n".join(lines)


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def as_json(report: Report) -> dict[str, object]:
    """The document that `--format json` prints."""
    from semel.check.report import counts_of

    rows = [{key: value for key, value in asdict(one).items() if key != "alter"} for one in report.findings]
    baseline = report.baseline
    return {
        "schema": 1,
        "guarantee": report.guarantee.value,
        "verdict": report.verdict.value,
        "findings": rows,
        "repairs": dict(report.repairs),
        "commands": list(report.commands),
        "counts": counts_of(report.findings),
        "strict": report.strict,
        "ignored": [rule.id for rule in report.ignored],
        "baseline": {"file": baseline.path, "gone": baseline.gone(report.findings)} if baseline else None,
        "clients": [
            {
                "name": client.name,
                "library": str(client.settings.library),
                "because": client.because,
                "roles": sorted(client.settings.roles),
            }
            for client in report.clients
        ],
    }

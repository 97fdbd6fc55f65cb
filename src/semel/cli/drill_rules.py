"""The half of `semel drill` that tries rules: each is broken on purpose, then followed, under the same fault.

Each rule is tried on an embedded cluster of its own, with real clients and a fault that fires. As expected is: records
are lost or doubled with the rule ignored, and none with the rule followed. A fault that did not fire has shown nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from semel.cli.exit_code import ExitCode
from semel.cli.output import render_table
from semel.errors import ConfigError, EnvironmentFailure

if TYPE_CHECKING:
    from semel.cli.drill_progress import Progress
    from semel.drill.damage.records import Damage

HEADINGS = ("rule", "is", "records", "lost", "doubled", "faults", "verdict")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCell:
    """One rule, ignored or followed; without damage there is a reason."""

    rule: str
    followed: bool
    damage: Damage | None
    reason: str = ""

    @property
    def verdict(self) -> ExitCode:
        """HELD is as expected: harm where the rule is ignored, none where it is followed."""
        if self.damage is None or not self.damage.fired or not self.damage.sent:
            return ExitCode.UNKNOWN
        is_harmed = self.damage.lost + self.damage.duplicated > 0
        return ExitCode.BROKEN if is_harmed is self.followed else ExitCode.HELD


def known() -> list[str]:
    """The rules that have a drill."""
    from semel.drill.damage.running import rule_files

    return list(rule_files())


def is_rule(name: str) -> bool:
    """Whether it is written as one."""
    return re.fullmatch(r"[Ss]\d{3}", name) is not None


def check(rules: Sequence[str]) -> None:
    """Refuse what has no drill."""
    if unknown := [name for name in rules if name not in known()]:
        raise ConfigError(f"there is no drill for {', '.join(unknown)}", you_want="one of semel drill --list")


def run(rules: Sequence[str], progress: Progress) -> list[RuleCell]:
    """Run each rule ignored, then followed."""
    cells = []
    for rule in rules:
        for followed in (False, True):
            progress.begin(f"{rule} {_way(followed=followed)}")
            cells.append(_run_cell(rule, followed=followed))
            progress.end(cells[-1].verdict)
    return cells


def _run_cell(rule: str, *, followed: bool) -> RuleCell:
    from semel.drill.damage.running import run_rule

    try:
        return RuleCell(rule=rule, followed=followed, damage=run_rule(rule, followed=followed))
    except EnvironmentFailure as failure:
        # One rule that cannot be tried says nothing about the others.
        return RuleCell(rule=rule, followed=followed, damage=None, reason=failure.summary)


def _way(*, followed: bool) -> str:
    return "followed" if followed else "ignored"


def listed(rules: Sequence[str]) -> list[dict[str, object]]:
    """The rules with their titles."""
    titles = _titles()
    return [{"rule": rule, "title": titles[rule]} for rule in rules]


def render_list(rules: Sequence[str]) -> str:
    """The same as a table."""
    titles = _titles()
    return render_table(["rule", "title"], [[rule, titles[rule]] for rule in rules])


def _titles() -> dict[str, str]:
    from semel.check.rules import RULES

    return {rule.id: rule.title for rule in RULES}


def render(cells: Sequence[RuleCell]) -> str:
    """A line for each."""
    return render_table(HEADINGS, [line_of(cell) for cell in cells])


def line_of(cell: RuleCell) -> list[str]:
    """What stands under the headings."""
    found = cell.damage
    counts = ["-"] * 4 if found is None else [str(n) for n in (found.sent, found.lost, found.duplicated, found.fired)]
    words = {
        ExitCode.HELD: "as expected",
        ExitCode.BROKEN: "BROKEN: " + ("harmed all the same" if cell.followed else "no harm was done"),
        ExitCode.UNKNOWN: f"UNKNOWN: {cell.reason or 'the fault did not fire'}",
    }
    return [cell.rule, _way(followed=cell.followed), *counts, words[cell.verdict]]


def as_json(cell: RuleCell) -> dict[str, object]:
    """The same as data."""
    found = cell.damage
    counts = None
    if found is not None:
        counts = {"sent": found.sent, "lost": found.lost, "duplicated": found.duplicated, "faults": found.fired}
    return {
        "rule": cell.rule,
        "followed": cell.followed,
        "verdict": cell.verdict.name,
        "counts": counts,
        "reason": cell.reason,
    }

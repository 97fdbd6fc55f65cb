"""What a rule says about itself: as text, as data, and as the page docs/rules.md."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from semel.check.rule import Rule
from semel.guarantee import Guarantee

WIDTH = 96


def guarantees_of(rule: Rule) -> list[str]:
    """The guarantees that ask for it."""
    return [guarantee.value for guarantee in Guarantee if rule.matters_to(guarantee)]


def as_data(rule: Rule) -> dict[str, object]:
    """Every field that is text."""
    return {
        "rule": rule.id,
        "title": rule.title,
        "about": rule.about.value,
        "guarantees": guarantees_of(rule),
        "anomalies": sorted(rule.anomalies),
        "requires": rule.requires,
        "wrong": rule.wrong,
        "fault": rule.fault,
        "shown_by": rule.shown_by,
        "sources": rule.sources,
    }


def as_text(rule: Rule) -> str:
    """For a terminal."""
    lines = [f"{rule.id}  {rule.title}", ""]
    lines += textwrap.wrap(rule.wrong, WIDTH)
    rows = [
        ("requires", rule.requires),
        ("matters to", ", ".join(guarantees_of(rule))),
        ("if ignored", ", ".join(sorted(rule.anomalies)) or "work stops; no record is lost or doubled"),
        ("the fault", rule.fault),
        ("shown by", rule.shown_by),
        ("sources", rule.sources),
    ]
    return "\n".join([*lines, "", *(f"  {label:<10}  {text}" for label, text in rows if text)])


def as_page(rules: Iterable[Rule]) -> str:
    """The page docs/rules.md, which a test keeps equal to the rules."""
    parts = [
        "# Rules\n",
        "What `semel check` looks for, and `semel explain` explains. This page is written by `semel explain --page`.\n",
    ]
    for rule in rules:
        ignored = ", ".join(sorted(rule.anomalies)) or "work stops"
        parts.append(f'<a id="{rule.id.lower()}"></a>\n## {rule.id} {rule.title}\n')
        parts.append("\n".join(textwrap.wrap(rule.wrong, 118)) + "\n")
        rows = [
            f"- about: {rule.about}; matters to {', '.join(guarantees_of(rule))}; if ignored: {ignored}",
            f"- requires: {rule.requires}",
            f"- the fault: {rule.fault}" + (f" (`{rule.shown_by}`)" if rule.shown_by else ""),
            f"- sources: {rule.sources}",
        ]
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)

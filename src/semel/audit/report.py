"""The result of an audit: what was compared, what was found, and the verdict.

Keeps: BROKEN only for what is proven. Where a side is not whole and nothing is proven, or where there was nothing to
       compare, the verdict is UNKNOWN, never HELD.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

from semel.audit.charts import Charts
from semel.audit.expectation import Expectation
from semel.audit.finding import MEANING, Finding, Incomplete, Kind
from semel.audit.visible import visible
from semel.history.verdict import Verdict

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """How many records each side has, and how much of them had to be looked at one by one."""

    left: int
    right: int
    buckets: int
    buckets_opened: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One right side held against the left one; a kind that is not among the findings was not looked for."""

    left: str
    right: str
    expectation: Expectation
    identity: str
    content: tuple[str, ...]
    not_compared: tuple[str, ...]
    totals: Totals
    findings: tuple[Finding, ...]
    incomplete: tuple[Incomplete, ...] = ()
    charts: Charts | None = None
    """For the page; None unless they were asked for."""

    @property
    def verdict(self) -> Verdict:
        """Broken if an anomaly is proven; held if both sides are whole and there was something to compare."""
        if any(one.count and one.is_proven for one in self.findings):
            return Verdict.BROKEN
        is_weighed = self.totals.left + self.totals.right > 0
        # An unproven count without an incomplete side cannot be; if it ever is, it is no proof that all is well.
        is_doubtful = bool(self.incomplete) or any(one.count for one in self.findings)
        return Verdict.HELD if is_weighed and not is_doubtful else Verdict.UNKNOWN

    def count(self, kind: Kind) -> int:
        """How many of one kind were found, proven or not."""
        return sum(one.count for one in self.findings if one.kind is kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One comparison for each right side; the worst verdict counts."""

    comparisons: tuple[Comparison, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict on the whole."""
        return Verdict.worst(one.verdict for one in self.comparisons)

    def count(self, kind: Kind) -> int:
        """How many of one kind were found, on all right sides together."""
        return sum(one.count(kind) for one in self.comparisons)

    def as_json(self) -> dict[str, object]:
        """The document that `json_schema` describes."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict.value,
            "comparisons": [_comparison_as_json(one) for one in self.comparisons],
        }

    def __str__(self) -> str:
        """As a terminal shows it."""
        return "\n\n".join("\n".join(map(visible, _lines(one))) for one in self.comparisons)

    def as_html(self, *, command: str = "", made: str = "") -> str:
        """One page for a browser; its charts are there if the audit was asked for them."""
        from semel.audit.page import page_of  # noqa: PLC0415 - which draws what is defined here

        return page_of(self, command=command, made=made)


def json_schema() -> dict[str, object]:
    """The JSON Schema of `Report.as_json`, for programs that read reports."""
    text = files("semel.audit").joinpath("report.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, object] = json.loads(text)
    return loaded


def _comparison_as_json(one: Comparison) -> Mapping[str, object]:
    return {
        "left": one.left,
        "right": one.right,
        "verdict": one.verdict.value,
        "expected": str(one.expectation),
        "identity": one.identity,
        "content": list(one.content),
        "not_compared": list(one.not_compared),
        "totals": {
            "left": one.totals.left,
            "right": one.totals.right,
            "buckets": one.totals.buckets,
            "buckets_opened": one.totals.buckets_opened,
        },
        "findings": [finding_as_json(finding) for finding in one.findings],
        "incomplete": [
            {"side": reason.side.value, "gap": reason.gap.value, "text": reason.text} for reason in one.incomplete
        ],
    }


def finding_as_json(finding: Finding) -> dict[str, object]:
    """One kind for programs."""
    return {
        "kind": finding.kind.value,
        "count": finding.count,
        "proven": finding.is_proven,
        "examples": [
            {"identity": example.identity, "left": example.left, "right": example.right} for example in finding.examples
        ],
    }


def finding_lines(finding: Finding, *, width: int) -> Iterator[str]:
    """One kind for people: how often, and its examples."""
    told = f"  {MEANING[finding.kind]}" if finding.count else ""
    doubt = "; not proven: a side is incomplete" if finding.count and not finding.is_proven else ""
    yield f"  {finding.kind.name:<{width}}  {finding.count:>12,}{told}{doubt}"
    for example in finding.examples:
        yield f"      {example.identity}  left {example.left or '-'}  right {example.right or '-'}"


def _lines(one: Comparison) -> Iterator[str]:
    """A headline, a line for each kind that was looked for, its examples, and what limits the verdict."""
    yield f"{one.verdict}  {one.left} -> {one.right}"
    yield f"  {one.totals.left:,} records left, {one.totals.right:,} right; expected: {one.expectation}"
    yield f"  identity: {one.identity}; content: {', '.join(one.content) or 'not compared'}"
    if one.not_compared:
        yield f"  not compared: {', '.join(one.not_compared)}"
    width = max((len(finding.kind.name) for finding in one.findings), default=0)
    for finding in one.findings:
        yield from finding_lines(finding, width=width)
    for reason in one.incomplete:
        yield f"  {reason.side} side incomplete ({reason.gap}): {reason.text}"
    if one.totals.left + one.totals.right == 0:
        yield "  both sides are empty: nothing was compared"

"""Everything that one run of `semel check` has to say, whatever format it is printed in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from semel.check.examination import verdict_of
from semel.check.facts import ClientFacts
from semel.check.rule import Finding, Rule, Severity, Standing
from semel.check.standing import Baseline
from semel.guarantee import Guarantee
from semel.history.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The findings, and what they were judged with; `repairs` are topic settings, `commands` the same to paste."""

    guarantee: Guarantee
    findings: list[Finding]
    clients: tuple[ClientFacts, ...] = ()
    ignored: tuple[Rule, ...] = ()
    baseline: Baseline | None = None
    strict: bool = False
    repairs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    commands: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict on the whole."""
        return verdict_of(self.findings)


def is_warning(finding: Finding) -> bool:
    """Whether a finding is broken and does not count because of its severity."""
    return (
        finding.standing is Standing.COUNTED
        and finding.verdict is Verdict.BROKEN
        and finding.severity is Severity.WARNING
    )


def why_not_counted(finding: Finding) -> str:
    """The reason why a finding that is not held leaves the verdict alone; empty when it does not."""
    if finding.verdict is Verdict.HELD or finding.counts:
        return ""
    match finding.standing:
        case Standing.KNOWN:
            return "known: it is in the baseline"
        case Standing.IGNORED:
            return f"ignored: --ignore {finding.rule}"
        case Standing.COUNTED:
            return "a warning: --strict makes it count"


def counts_of(findings: list[Finding]) -> dict[str, int]:
    """How many findings have each verdict, and how many of them do not count, by the reason."""
    verdicts = Counter(finding.verdict.value for finding in findings)
    return {
        **{verdict.value: verdicts[verdict.value] for verdict in Verdict},
        "warnings": sum(map(is_warning, findings)),
        "known": sum(finding.standing is Standing.KNOWN for finding in findings),
        "ignored": sum(finding.standing is Standing.IGNORED for finding in findings),
    }

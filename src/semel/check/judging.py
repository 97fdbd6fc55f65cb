"""Rules and facts make findings.

Keeps: a missing fact is the verdict UNKNOWN, never HELD; so is a rule that itself fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from semel.check.facts import FactMissing, Facts
from semel.check.rule import Finding, Judged, Rule
from semel.history.verdict import Verdict


def judge_all(rules: Iterable[Rule], facts: Facts) -> list[Finding]:
    """Apply every rule that the guarantee asks for to everything it is about."""
    return [finding for rule in rules if rule.matters_to(facts.guarantee) for finding in _findings(rule, facts)]


def _findings(rule: Rule, facts: Facts) -> Iterator[Finding]:
    for subject in rule.subjects(facts):
        try:
            judged = rule.judge(facts, subject)
        except FactMissing as missing:
            fix = "make it visible: a permission to describe it, a broker that answers, an option that says it"
            yield _finding(rule, facts, subject, Verdict.UNKNOWN, Judged(held=False, found=str(missing), fix=fix))
        else:
            verdict = Verdict.HELD if judged.held else Verdict.BROKEN
            yield _finding(rule, facts, subject, verdict, judged)


def _finding(rule: Rule, facts: Facts, subject: str, verdict: Verdict, judged: Judged) -> Finding:
    return Finding(
        rule=rule.id,
        title=rule.title,
        subject=f"{rule.about} {subject}",
        requires=rule.requires_of(facts) if rule.requires_of is not None else rule.requires,
        found=judged.found,
        verdict=verdict,
        fix="" if verdict is Verdict.HELD else judged.fix,
        alter=() if judged.held else judged.alter,
    )

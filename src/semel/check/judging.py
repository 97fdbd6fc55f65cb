"""Rules and facts make findings.

Keeps: a missing fact is the verdict UNKNOWN, never HELD.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from semel.check.facts import FactMissing, Facts
from semel.check.rule import Finding, Judged, Rule
from semel.clients.setting_names import SettingUnread
from semel.history.verdict import Verdict

MAKE_VISIBLE = "make it visible: a permission to describe it, a broker that answers, an option that says it"
WRITE_IT_DOWN = "check what the program really uses: its settings as a file of names and values"


def judge_all(rules: Iterable[Rule], facts: Facts) -> list[Finding]:
    """Apply every rule that the guarantee asks for to everything it is about."""
    return [finding for rule in rules if rule.matters_to(facts.guarantee) for finding in _findings(rule, facts)]


def _findings(rule: Rule, facts: Facts) -> Iterator[Finding]:
    try:
        subjects = list(rule.subjects(facts))
    except FactMissing as missing:
        # A file does not even tell whether the rule is about what it describes.
        yield _unknown(rule, facts, "not told by a file", str(missing), WRITE_IT_DOWN)
        return
    for subject in subjects:
        try:
            judged = rule.judge(facts, subject)
        except FactMissing as missing:
            yield _unknown(rule, facts, subject, str(missing), MAKE_VISIBLE)
        except SettingUnread as unread:
            yield _unknown(rule, facts, subject, str(unread), WRITE_IT_DOWN)
        else:
            verdict = Verdict.HELD if judged.held else Verdict.BROKEN
            yield _finding(rule, facts, subject, verdict, judged)


def _unknown(rule: Rule, facts: Facts, subject: str, why: str, fix: str) -> Finding:
    return _finding(rule, facts, subject, Verdict.UNKNOWN, Judged(held=False, found=why, fix=fix))


def _finding(rule: Rule, facts: Facts, subject: str, verdict: Verdict, judged: Judged) -> Finding:
    place = facts.place_of(subject, rule.settings)
    return Finding(
        rule=rule.id,
        title=rule.title,
        subject=f"{rule.about} {subject}",
        requires=rule.requires_of(facts) if rule.requires_of is not None else rule.requires,
        found=judged.found,
        verdict=verdict,
        severity=judged.severity or rule.severity,
        fix="" if verdict is Verdict.HELD else judged.fix,
        file=place.file if place else "",
        line=place.line if place else 0,
        alter=() if judged.held else judged.alter,
    )

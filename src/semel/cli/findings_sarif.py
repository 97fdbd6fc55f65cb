"""Findings as SARIF 2.1.0, which code hosts and editors show beside the lines of a file.

Every finding is a result: HELD passes, BROKEN fails, UNKNOWN is open. One that does not count because it is known or
ignored is suppressed, with the reason. Live topics and brokers have no line; they are logical locations.
"""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import semel

if TYPE_CHECKING:
    from semel.check.report import Report
    from semel.check.rule import Finding, Rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
KINDS = {"HELD": "pass", "BROKEN": "fail", "UNKNOWN": "open"}


def as_sarif(report: Report) -> dict[str, object]:
    """The whole log, with one run."""
    from semel.check.rules import RULES

    rules = [rule for rule in RULES if rule.matters_to(report.guarantee)]
    index = {rule.id: number for number, rule in enumerate(rules)}
    driver = {
        "name": "semel check",
        "version": semel.__version__,
        "rules": [_rule(rule) for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, index[one.rule]) for one in report.findings],
        "properties": {"guarantee": report.guarantee.value, "verdict": report.verdict.value},
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in re.findall("[A-Za-z0-9]+", rule.title)),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.wrong},
        "help": {"text": f"requires {rule.requires}; semel explain {rule.id}"},
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": {"about": rule.about.value, "anomalies": sorted(rule.anomalies)},
    }


def _result(finding: Finding, rule_index: int) -> dict[str, object]:
    from semel.check.report import why_not_counted
    from semel.check.rule import Standing

    kind = KINDS[finding.verdict]
    wanted = f"; requires {finding.requires}" if finding.verdict != "HELD" else ""
    fix = f"; fix: {finding.fix}" if finding.fix else ""
    result: dict[str, object] = {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "kind": kind,
        # SARIF allows a level for failures alone.
        "level": finding.severity.value if kind == "fail" else "none",
        "message": {"text": f"{finding.subject}: {finding.found}{wanted}{fix}"},
        "locations": [_location(finding)],
        "partialFingerprints": {"ruleAndSubject/v1": _fingerprint(finding)},
    }
    if finding.standing is not Standing.COUNTED:
        reason = why_not_counted(finding) or finding.standing.value
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": reason}]
    return result


def _location(finding: Finding) -> dict[str, object]:
    kind, _, name = finding.subject.partition(" ")
    found: dict[str, object] = {
        "logicalLocations": [{"name": name, "fullyQualifiedName": finding.subject, "kind": kind}]
    }
    if finding.file:
        path = Path(finding.file)
        # Relative ones stay so: a viewer finds them from the root of its repository.
        uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
        found["physicalLocation"] = {"artifactLocation": {"uri": uri}, "region": {"startLine": max(1, finding.line)}}
    return found


def _fingerprint(finding: Finding) -> str:
    # Without what was found, which changes from run to run: viewers compare findings by this.
    return sha256(f"{finding.rule}\n{finding.subject}".encode()).hexdigest()[:32]

"""Which findings count: rules that are ignored, and findings that are known because they are in a baseline.

A baseline is a JSON file of findings that were there when it was written. Such a finding is shown and does not count; a
new one does. What is compared: rule, subject and verdict, and for settings in files also what was found, since that
changes only when somebody changes it. Numbers of a live cluster, such as a lag, are never the same twice.
Keeps: nothing is dropped; a finding that does not count is in every output, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from semel.check.rule import About, Finding, Rule, Severity, Standing
from semel.check.rules import find_rule
from semel.errors import ConfigError
from semel.guarantee import Guarantee
from semel.history.verdict import Verdict

SCHEMA = 1
KIND = "semel-check-baseline"
IN_FILES = (About.CLIENT, About.QUERY)
Key = tuple[str, str, str, str]


def parse_ignored(texts: Iterable[str]) -> list[Rule]:
    """The rules that `--ignore S033,S034` names; ConfigError with a suggestion for one that does not exist."""
    ids = [part for text in texts for part in text.split(",")]
    if not all(part.strip() for part in ids):
        raise ConfigError("--ignore has an empty name", you_want="--ignore S033,S034")
    return list({rule.id: rule for rule in map(find_rule, ids)}.values())


def ignore(findings: Iterable[Finding], rules: Iterable[Rule]) -> list[Finding]:
    """Mark the findings of these rules."""
    ids = {rule.id for rule in rules}
    return [replace(one, standing=Standing.IGNORED) if one.rule in ids else one for one in findings]


def make_strict(findings: Iterable[Finding]) -> list[Finding]:
    """Warnings count as errors do."""
    return [replace(one, severity=Severity.ERROR) for one in findings]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The findings of an earlier run."""

    path: str
    keys: frozenset[Key]

    def mark(self, findings: Iterable[Finding]) -> list[Finding]:
        """Mark what is known; what is ignored stays ignored."""
        return [
            replace(one, standing=Standing.KNOWN)
            if one.standing is Standing.COUNTED and _is_noted(one) and _key(one) in self.keys
            else one
            for one in findings
        ]

    def gone(self, findings: Iterable[Finding]) -> list[str]:
        """What the baseline has and this run has not: it was repaired, or was not looked at."""
        # Also of rules that are ignored now: ignoring repairs nothing, so those are not gone.
        now = {_key(one) for one in findings}
        return sorted(f"{rule} {subject}" for rule, subject, verdict, found in self.keys - now)


def read_baseline(path: str, guarantee: Guarantee) -> Baseline:
    """Read a file that `write_baseline` wrote, for the same guarantee."""
    try:
        told = json.loads(Path(path).read_text(encoding="utf-8"))
        keys = frozenset((row["rule"], row["subject"], row["verdict"], row["found"]) for row in told["findings"])
        written_for, kind = told["guarantee"], (told["kind"], told["schema"])
    except OSError as error:
        raise ConfigError(
            f"the baseline {path} cannot be read: {error.strerror}",
            next_command=f"the same command with --write-baseline {path} instead of --baseline",
        ) from None
    except (ValueError, KeyError, TypeError):
        # Whatever is wrong with it, it is no baseline.
        keys, written_for, kind = frozenset(), "", ("", 0)
    if kind != (KIND, SCHEMA):
        raise ConfigError(
            f"{path} is not a baseline of semel check",
            next_command="the same command with --write-baseline and a new file instead of --baseline",
        )
    if written_for != guarantee.value:
        raise ConfigError(
            f"the baseline {path} was written for {written_for}, and {guarantee} is declared",
            you_want=f"--guarantee {written_for}, or a baseline for each guarantee",
        )
    return Baseline(path=path, keys=keys)


def write_baseline(path: str, guarantee: Guarantee, findings: Sequence[Finding]) -> Baseline:
    """Write down what is broken or unknown now and not ignored; only a baseline is ever replaced."""
    file = Path(path)
    # An empty file is what `mktemp` makes, and holds nothing that could be lost.
    if file.exists() and file.read_bytes().strip():
        _refuse_to_replace(file)
    noted = [one for one in findings if one.standing is not Standing.IGNORED and _is_noted(one)]
    keys = sorted({_key(one) for one in noted})
    rows = [dict(zip(("rule", "subject", "verdict", "found"), key, strict=True)) for key in keys]
    document = {"kind": KIND, "schema": SCHEMA, "guarantee": guarantee.value, "findings": rows}
    # Written beside it and renamed: a full disk must not leave half a baseline in place of a whole one.
    beside = file.with_name(f"{file.name}.new")
    beside.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    beside.replace(file)
    return Baseline(path=path, keys=frozenset(keys))


def _refuse_to_replace(file: Path) -> None:
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        told = {}
    if not isinstance(told, dict) or told.get("kind") != KIND:
        raise ConfigError(
            f"{file} exists and is not a baseline", you_want="--write-baseline with the name of a new file"
        )


def _is_noted(finding: Finding) -> bool:
    return finding.verdict is not Verdict.HELD


def _key(finding: Finding) -> Key:
    # "client conf.properties", "topic orders": the first word says what the subject is.
    in_file = finding.subject.partition(" ")[0] in IN_FILES
    return (finding.rule, finding.subject, finding.verdict.value, finding.found if in_file else "")

"""What a rule and a finding are.

A rule names what it looks at (`subjects`: topics, brokers, groups, clients, queries) and judges each by itself, so that
one topic that cannot be seen hides nothing about another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from semel.check.facts import Facts
from semel.guarantee import Anomaly, Guarantee
from semel.history.verdict import Verdict

ONE_BROKER = "the cluster has one broker"


class About(StrEnum):
    """What kind of thing a rule looks at."""

    CLIENT = "client"
    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    TRANSACTION = "transaction"
    QUERY = "query"


class Severity(StrEnum):
    """How much a broken rule matters.

    ERROR: one fault, or none, is enough to lose, double or reorder records or to stop work. WARNING: it takes a mistake
    or a second failure besides, or cannot be otherwise on this cluster. Warnings are shown and break no verdict.
    """

    ERROR = "error"
    WARNING = "warning"


class Standing(StrEnum):
    """Whether a finding counts for the verdict, and if not, who said so."""

    COUNTED = "counted"
    KNOWN = "known"  # it is in the baseline
    IGNORED = "ignored"  # --ignore names its rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What one rule says of one subject. `alter` has the topic settings that would make it hold.

    `severity` is that of the rule, unless this subject is a lesser case.
    """

    held: bool
    found: str
    fix: str = ""
    alter: tuple[tuple[str, str], ...] = ()
    severity: Severity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that must be so. A rule without anomalies is about work that stops, not about records.

    `settings` names what it looks at in a file, so that a finding can say the line.
    """

    id: str
    title: str
    about: About
    requires: str
    anomalies: frozenset[Anomaly]
    wrong: str
    fault: str
    shown_by: str
    sources: str
    subjects: Callable[[Facts], Iterable[str]]
    judge: Callable[[Facts, str], Judged]
    severity: Severity = Severity.ERROR
    settings: tuple[str, ...] = ()
    guarantees: frozenset[Guarantee] = frozenset()
    requires_of: Callable[[Facts], str] | None = None

    def matters_to(self, guarantee: Guarantee) -> bool:
        """Whether a guarantee asks for this: named, or because it does not allow what would happen."""
        if self.guarantees:
            return guarantee in self.guarantees
        return not self.anomalies or any(not guarantee.allows(anomaly) for anomaly in self.anomalies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule's verdict on one subject."""

    rule: str
    title: str
    subject: str
    requires: str
    found: str
    verdict: Verdict
    severity: Severity = Severity.ERROR
    standing: Standing = Standing.COUNTED
    fix: str = ""
    file: str = ""
    line: int = 0
    alter: tuple[tuple[str, str], ...] = ()

    @property
    def counts(self) -> bool:
        """Whether the verdict on the whole depends on it: what could not be seen does, whatever its rule's severity."""
        return self.standing is Standing.COUNTED and (
            self.severity is Severity.ERROR or self.verdict is Verdict.UNKNOWN
        )


def without_copies(facts: Facts, judged: Judged) -> Judged:
    """What is broken because the cluster has a single broker is a warning: no setting can change it there."""
    if judged.held or not facts.has_one_broker:
        return judged
    return replace(
        judged,
        severity=Severity.WARNING,
        found=f"{judged.found} ({ONE_BROKER})",
        fix="for records that matter: a cluster of three brokers or more",
        alter=(),
    )


def topics(facts: Facts) -> list[str]:
    """The topics that exist or could not be looked at; one that is missing has a rule of its own."""
    return [name for name, topic in facts.topics.items() if topic.partitions != ()]


def groups(facts: Facts) -> list[str]:
    """The groups asked about."""
    return list(facts.groups)


def brokers(facts: Facts) -> list[str]:
    """The brokers that are up."""
    return [str(broker_id) for broker_id in facts.brokers]


def queries(facts: Facts) -> list[str]:
    """The Spark queries."""
    return [query.name for query in facts.queries]

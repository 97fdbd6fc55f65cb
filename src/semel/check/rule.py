"""What a rule and a finding are.

A rule names what it looks at (`subjects`: topics, brokers, groups, clients, queries) and judges each by itself, so that
one topic that cannot be seen hides nothing about another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from semel.check.facts import Facts
from semel.guarantee import Anomaly, Guarantee
from semel.history.verdict import Verdict


class About(StrEnum):
    """What kind of thing a rule looks at."""

    CLIENT = "client"
    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    TRANSACTION = "transaction"
    QUERY = "query"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What one rule says of one subject. `alter` has the topic settings that would make it hold."""

    held: bool
    found: str
    fix: str = ""
    alter: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that must be so. A rule without anomalies is about work that stops, not about records."""

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
    fix: str = ""
    alter: tuple[tuple[str, str], ...] = ()


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

"""S028: a query that assigns partitions reads all of them."""

import json

from semel.check.facts import FactMissing, Facts, known
from semel.check.rule import About, Judged, Rule
from semel.errors import ConfigError
from semel.guarantee import Anomaly, Guarantee


def assigned_by(text: str, query: str) -> dict[str, set[int]]:
    """Read the JSON of `assign`: topics with lists of partitions."""
    try:
        return {topic: set(map(int, numbers)) for topic, numbers in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(
            f"{query}: assign is not JSON of topics and partitions", you_wrote=text, you_want='{"orders":[0,1]}'
        ) from None


def _subjects(facts: Facts) -> list[str]:
    return [query.name for query in facts.queries if query.text("assign")]


def _judge(facts: Facts, name: str) -> Judged:
    missing = []
    for topic, numbers in assigned_by(facts.query(name).text("assign"), name).items():
        if topic not in facts.topics:
            raise FactMissing(f"topic {topic} was not looked at: --topic {topic}")
        there = {one.partition for one in known(facts.topics[topic].partitions)}
        missing += [f"{topic}-{partition}" for partition in sorted(there - numbers)]
    return Judged(
        held=not missing,
        found=f"not read: {', '.join(missing)}" if missing else "every partition is read",
        fix=f"in {name}: subscribe instead of assign, or assign every partition",
    )


RULE = Rule(
    id="S028",
    title="a reader of transactions reads all of their partitions",
    about=About.QUERY,
    requires="every partition of the topics in assign",
    anomalies=frozenset({Anomaly.LOST}),
    guarantees=frozenset({Guarantee.EXACTLY_ONCE}),
    wrong="A transaction writes to many partitions at once. A reader that is assigned some of them sees some of it.",
    fault="none is needed: a committed transaction spans partitions that are not read",
    shown_by="src/semel/drill/damage/s028_some_partitions.py",
    sources="KIP-98, what transactions do not promise consumers",
    subjects=_subjects,
    judge=_judge,
)

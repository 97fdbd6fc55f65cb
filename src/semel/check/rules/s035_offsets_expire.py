"""S035: a group's position is kept as long as the records it points at."""

from semel.check.facts import Facts, number
from semel.check.rule import About, Rule, brokers
from semel.check.rules.broker_minimum import at_least
from semel.guarantee import Anomaly

SETTING = "offsets.retention.minutes"
MINUTE_MS = 60_000
WEEK_MINUTES = 7 * 24 * 60


def _least(facts: Facts) -> int:
    """A week, or as long as the topic that is kept longest."""
    kept = [number(topic.settings, "retention.ms") for topic in facts.topics.values() if topic.settings]
    return max([WEEK_MINUTES, *(kept_ms // MINUTE_MS for kept_ms in kept)])


RULE = Rule(
    id="S035",
    title="a group's position is kept as long as the records it points at",
    about=About.BROKER,
    requires=f"{SETTING} of a week, or of the longest retention.ms",
    anomalies=frozenset({Anomaly.LOST, Anomaly.DUPLICATED}),
    wrong="A group that rests longer than this is forgotten. Its consumers then start at the beginning or the end "
    "(S009); a pipeline whose ledger is gone stops and asks, because nobody can know what it had committed.",
    fault="the group's offsets expire while it rests",
    shown_by="src/semel/drill/damage/s035_offsets_expire.py",
    sources="KIP-211; Apache Kafka broker configuration: offsets.retention.minutes",
    subjects=brokers,
    judge=at_least(SETTING, _least),
)

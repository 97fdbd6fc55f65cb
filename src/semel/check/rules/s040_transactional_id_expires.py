"""S040: a transactional id outlives a rest of its producer."""

from semel.check.rule import About, Rule, brokers
from semel.check.rules.broker_minimum import at_least
from semel.guarantee import Guarantee

SETTING = "transactional.id.expiration.ms"
WEEK_MS = 7 * 24 * 3_600_000

RULE = Rule(
    id="S040",
    title="a transactional id outlives a rest of its producer",
    about=About.BROKER,
    requires=f"{SETTING} of a week or more",
    anomalies=frozenset(),
    guarantees=frozenset({Guarantee.EXACTLY_ONCE}),
    wrong="A producer that was silent for longer is refused with INVALID_PRODUCER_ID_MAPPING and has to be made again: "
    "its next transaction fails at a moment when nothing is wrong.",
    fault="a producer is silent for longer than the coordinator remembers it",
    shown_by="",
    sources="Apache Kafka broker configuration: transactional.id.expiration.ms; KIP-98",
    subjects=brokers,
    judge=at_least(SETTING, lambda _: WEEK_MS),
)

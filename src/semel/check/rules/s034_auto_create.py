"""S034: a misspelled topic is an error, not a new topic."""

from semel.check.facts import Facts, setting
from semel.check.rule import About, Judged, Rule, Severity, brokers
from semel.guarantee import Anomaly

SETTING = "auto.create.topics.enable"


def _judge(facts: Facts, broker: str) -> Judged:
    text = setting(facts.brokers[int(broker)], SETTING)
    return Judged(held=text.lower() == "false", found=f"{SETTING}={text}", fix=f"on the brokers: {SETTING}=false")


RULE = Rule(
    id="S034",
    title="a misspelled topic is an error, not a new topic",
    about=About.BROKER,
    severity=Severity.WARNING,
    requires=f"{SETTING}=false",
    anomalies=frozenset({Anomaly.LOST}),
    wrong="A producer with a wrong name in its settings creates that topic, with default replication, and its records "
    "are acknowledged there and read by nobody. A topic that was deleted under a running producer comes back the same "
    "way.",
    fault="a producer writes to a name with a typing error",
    shown_by="src/semel/drill/damage/s034_auto_create.py",
    sources="Apache Kafka broker configuration: auto.create.topics.enable",
    subjects=brokers,
    judge=_judge,
)

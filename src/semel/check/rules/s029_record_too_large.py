"""S029: the topic takes every record that a producer may send."""

from semel.check.facts import ClientFacts, Facts, number
from semel.check.rule import About, Judged, Rule, topics
from semel.clients.setting_names import Role
from semel.guarantee import Anomaly

SETTING = "max.message.bytes"


def _writing(facts: Facts) -> list[ClientFacts]:
    return [client for client in facts.clients if Role.PRODUCER in client.settings.roles]


def _judge(facts: Facts, name: str) -> Judged:
    taken = number(facts.topics[name].settings, SETTING)
    sizes = {client.name: client.settings.number("max.request.size") or 0 for client in _writing(facts)}
    # The largest of them: one producer is enough to lose a record.
    client, sent = max(sizes.items(), key=lambda row: row[1])
    return Judged(
        held=sent <= taken,
        found=f"{SETTING}={taken}, {client} sends up to {sent}",
        fix=f"set {SETTING}={sent}, or lower max.request.size in {client}",
        alter=((SETTING, str(sent)),),
    )


RULE = Rule(
    id="S029",
    title="the topic takes every record that a producer may send",
    about=About.TOPIC,
    requires=f"{SETTING} of at least the producers' max.request.size",
    anomalies=frozenset({Anomaly.LOST}),
    wrong="A record between the two limits leaves the producer and is refused by the broker: MESSAGE_TOO_LARGE cannot "
    "be healed by a retry, so the record is lost unless the code looks at the result of every send.",
    fault="a record larger than the topic takes",
    shown_by="src/semel/drill/damage/s029_record_too_large.py",
    sources="Apache Kafka topic configuration: max.message.bytes; producer configuration: max.request.size",
    subjects=lambda facts: topics(facts) if _writing(facts) else [],
    judge=_judge,
)

"""S030: records are not older than retention when they arrive."""

from semel.check.facts import Facts, known, number, setting
from semel.check.rule import About, Judged, Rule, topics
from semel.guarantee import Anomaly

DAY_MS = 86_400_000


def _judge(facts: Facts, name: str) -> Judged:
    topic = facts.topics[name]
    kept_ms = number(topic.settings, "retention.ms")
    kind = setting(topic.settings, "message.timestamp.type")
    newest_ms = known(topic.newest_ms)
    if newest_ms is None or kept_ms < 0 or "delete" not in setting(topic.settings, "cleanup.policy"):
        return Judged(held=True, found=f"message.timestamp.type={kind}, retention.ms={kept_ms}")
    age_ms = facts.now_ms - newest_ms
    return Judged(
        held=age_ms <= kept_ms,
        found=f"message.timestamp.type={kind}, the newest record says it is {age_ms / DAY_MS:.1f} days old, "
        f"kept {kept_ms / DAY_MS:.1f}",
        fix="set message.timestamp.type=LogAppendTime, or retention.ms above the age of what is sent",
        alter=(("message.timestamp.type", "LogAppendTime"),),
    )


RULE = Rule(
    id="S030",
    title="records are not older than retention when they arrive",
    about=About.TOPIC,
    requires="newest record younger than retention.ms",
    anomalies=frozenset({Anomaly.LOST}),
    wrong="With CreateTime a record carries the producer's clock. Replayed or imported records say that they are old, "
    "and retention deletes them minutes after they were acknowledged.",
    fault="records with the times of last year are written",
    shown_by="src/semel/drill/damage/s030_old_timestamps.py",
    sources="Apache Kafka topic configuration: message.timestamp.type, message.timestamp.before.max.ms; KIP-937",
    subjects=topics,
    judge=_judge,
)

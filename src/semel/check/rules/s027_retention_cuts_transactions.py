"""S027: retention does not delete the beginning of a transaction before its end is written."""

from semel.check.facts import Facts, known, number
from semel.check.rule import About, Judged, Rule, topics
from semel.guarantee import Anomaly, Guarantee

TIMES = 2


def _judge(facts: Facts, name: str) -> Judged:
    settings = known(facts.topics[name].settings)
    # Any broker may become the coordinator of a transaction, so the longest of their limits counts.
    longest_ms = max(number(broker, "transaction.max.timeout.ms") for broker in facts.brokers.values())
    kept_ms, kept_bytes = number(settings, "retention.ms"), number(settings, "retention.bytes")
    segment_bytes = number(settings, "segment.bytes")
    by_time = kept_ms < 0 or kept_ms >= TIMES * longest_ms
    by_size = kept_bytes < 0 or kept_bytes >= TIMES * segment_bytes
    wanted = [] if by_time else [("retention.ms", str(TIMES * longest_ms))]
    wanted += [] if by_size else [("retention.bytes", str(TIMES * segment_bytes))]
    return Judged(
        held=by_time and by_size,
        found=f"retention.ms={kept_ms}, retention.bytes={kept_bytes}, segment.bytes={segment_bytes}",
        fix="set " + " ".join(f"{key}={value}" for key, value in wanted),
        alter=tuple(wanted),
    )


RULE = Rule(
    id="S027",
    title="retention does not cut transactions",
    about=About.TOPIC,
    requires=f"retention.ms of {TIMES} x transaction.max.timeout.ms, retention.bytes of {TIMES} x segment.bytes, or no "
    "limit",
    anomalies=frozenset({Anomaly.LOST}),
    guarantees=frozenset({Guarantee.EXACTLY_ONCE}),
    wrong="Whole segments are deleted. When a transaction spans two of them, its first records go before its last, and "
    "a reader in between sees a part of it.",
    fault="the first segment of a committed transaction is deleted before a reader comes",
    shown_by="src/semel/drill/damage/s027_retention_cuts_transactions.py",
    sources="KIP-98, what transactions do not promise consumers; Apache Kafka topic configuration: retention.bytes",
    subjects=topics,
    judge=_judge,
)

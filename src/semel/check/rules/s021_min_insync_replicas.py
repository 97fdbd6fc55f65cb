"""S021: an acknowledged record is on two brokers."""

from semel.check.facts import Facts, known, number
from semel.check.rule import About, Judged, Rule, topics, without_copies
from semel.guarantee import Anomaly

IN_SYNC_MIN = 2
SETTING = "min.insync.replicas"


def _judge(facts: Facts, name: str) -> Judged:
    topic = facts.topics[name]
    found = number(topic.settings, SETTING)
    if found >= IN_SYNC_MIN:
        return Judged(held=True, found=f"{SETTING}={found}")
    copies = min(len(one.replicas) for one in known(topic.partitions))
    if copies < IN_SYNC_MIN:
        # Raising it now would refuse every write.
        judged = Judged(held=False, found=f"{SETTING}={found}", fix="more replicas first (S020), then raise it")
        return without_copies(facts, judged)
    wanted = ((SETTING, str(IN_SYNC_MIN)),)
    return Judged(held=False, found=f"{SETTING}={found}", fix=f"set {SETTING}={IN_SYNC_MIN}", alter=wanted)


RULE = Rule(
    id="S021",
    title="an acknowledged record is on two brokers",
    about=About.TOPIC,
    requires=f"{SETTING}={IN_SYNC_MIN} or more",
    anomalies=frozenset({Anomaly.LOST}),
    wrong="acks=all waits for the replicas that are in sync, and that may be the leader alone. With a minimum of 1 "
    "such a record is acknowledged, and gone when the leader is.",
    fault="the followers fall behind, records are written, the leader loses its disk",
    shown_by="src/semel/drill/damage/s021_min_insync_replicas.py",
    sources="Apache Kafka topic configuration: min.insync.replicas",
    subjects=topics,
    judge=_judge,
)

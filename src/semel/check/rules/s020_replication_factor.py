"""S020: a record has three copies."""

from semel.check.facts import Facts, known
from semel.check.rule import About, Judged, Rule, topics, without_copies
from semel.guarantee import Anomaly

COPIES_MIN = 3


def _judge(facts: Facts, name: str) -> Judged:
    # The weakest partition counts: a topic may have been extended with fewer replicas.
    copies = min(len(one.replicas) for one in known(facts.topics[name].partitions))
    judged = Judged(
        held=copies >= COPIES_MIN,
        found=f"replication factor {copies}",
        fix=f"kafka-reassign-partitions.sh, or create {name} again with {COPIES_MIN} replicas",
    )
    return without_copies(facts, judged)


RULE = Rule(
    id="S020",
    title="a record has three copies",
    about=About.TOPIC,
    requires=f"replication factor {COPIES_MIN} or more",
    anomalies=frozenset({Anomaly.LOST}),
    wrong="With one copy a lost disk loses everything that was acknowledged. With two, either one confirmation is "
    "enough, which loses on the next failure, or both are needed, and every restart of a broker stops the producers.",
    fault="the broker that holds the partition is killed and its disk is empty when it comes back",
    shown_by="src/semel/drill/damage/s020_replication_factor.py",
    sources="Apache Kafka documentation: replication, availability and durability guarantees",
    subjects=topics,
    judge=_judge,
)

"""S022: one broker may be down without stopping the producers."""

from semel.check.facts import Facts, known, number
from semel.check.rule import About, Judged, Rule, topics, without_copies
from semel.check.rules.s021_min_insync_replicas import IN_SYNC_MIN, SETTING
from semel.guarantee import Guarantee


def _judge(facts: Facts, name: str) -> Judged:
    topic = facts.topics[name]
    needed = number(topic.settings, SETTING)
    copies = min(len(one.replicas) for one in known(topic.partitions))
    # Lowering it to 1 would break S021 instead.
    lowered = ((SETTING, str(copies - 1)),) if copies - 1 >= IN_SYNC_MIN else ()
    judged = Judged(
        held=needed < copies,
        found=f"{SETTING}={needed}, replication factor {copies}",
        fix=f"set {SETTING}={copies - 1}" if lowered else "more replicas (S020)",
        alter=lowered,
    )
    # More confirmations than copies: no write succeeds, on one broker as on many.
    return judged if needed > copies else without_copies(facts, judged)


RULE = Rule(
    id="S022",
    title="one broker may be down without stopping the producers",
    about=About.TOPIC,
    requires=f"{SETTING} below the replication factor",
    anomalies=frozenset(),
    guarantees=frozenset({Guarantee.AT_LEAST_ONCE, Guarantee.EXACTLY_ONCE}),
    wrong="When every replica has to confirm, a single broker that is restarted stops all writes with "
    "NOT_ENOUGH_REPLICAS until it is back.",
    fault="one broker is restarted",
    shown_by="",
    sources="Apache Kafka topic configuration: min.insync.replicas",
    subjects=topics,
    judge=_judge,
)

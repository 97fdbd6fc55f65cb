"""S043: the topic exists."""

from semel.check.facts import Facts, known
from semel.check.rule import About, Judged, Rule


def _judge(facts: Facts, name: str) -> Judged:
    # A topic that cannot be seen is UNKNOWN here, and not one that is missing.
    count = len(known(facts.topics[name].partitions))
    return Judged(
        held=count > 0,
        found=f"{count} partitions" if count else "there is no such topic",
        fix=f"create {name} with 3 replicas and min.insync.replicas=2, or correct the name",
    )


RULE = Rule(
    id="S043",
    title="the topic exists",
    about=About.TOPIC,
    requires="the topic",
    anomalies=frozenset(),
    wrong="A topic that is created by the first client to name it gets the brokers' defaults, which often means one "
    "partition and one replica.",
    fault="none is needed",
    shown_by="",
    sources="Apache Kafka broker configuration: auto.create.topics.enable, default.replication.factor",
    subjects=lambda facts: list(facts.topics),
    judge=_judge,
)

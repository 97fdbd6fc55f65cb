"""S037: a group has a position in every partition."""

from semel.check.facts import FactMissing, Facts, known
from semel.check.rule import About, Judged, Rule, groups
from semel.guarantee import Anomaly
from semel.wire.topology import TopicPartition


def _judge(facts: Facts, name: str) -> Judged:
    group = facts.groups[name]
    positions = known(group.positions)
    if known(group.info).state == "Dead" and not positions:
        return Judged(held=False, found="there is no such group", fix="start its consumers, or correct the name")
    if not facts.topics:
        raise FactMissing("no topic was named whose partitions it should have: --topic NAME")
    every = [
        TopicPartition(topic.name, one.partition) for topic in facts.topics.values() for one in known(topic.partitions)
    ]
    missing = [str(place) for place in every if place not in positions]
    return Judged(
        held=not missing,
        found=f"nothing committed for {', '.join(missing)}" if missing else f"positions in {len(positions)} partitions",
        fix="let the group commit once in every partition, also where it found no record",
    )


RULE = Rule(
    id="S037",
    title="a group has a position in every partition",
    about=About.GROUP,
    requires="a committed offset for every partition of the topics",
    anomalies=frozenset({Anomaly.LOST, Anomaly.DUPLICATED}),
    wrong="Where nothing was ever committed, or the offset has expired, auto.offset.reset decides: a restart skips "
    "what was written meanwhile, or reads it all again.",
    fault="a partition gets its first records while the group rests",
    shown_by="src/semel/drill/damage/s037_no_position.py",
    sources="Apache Kafka consumer configuration: auto.offset.reset; KIP-211",
    subjects=groups,
    judge=_judge,
)

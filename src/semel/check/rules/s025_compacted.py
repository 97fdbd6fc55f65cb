"""S025: compaction does not take parts of a transaction."""

from semel.check.facts import Facts, setting
from semel.check.rule import About, Judged, Rule, topics
from semel.guarantee import Anomaly, Guarantee

SETTING = "cleanup.policy"


def _judge(facts: Facts, name: str) -> Judged:
    text = setting(facts.topics[name].settings, SETTING)
    return Judged(
        # "compact,delete" compacts, too.
        held="compact" not in {word.strip() for word in text.split(",")},
        found=f"{SETTING}={text}",
        fix=f"set {SETTING}=delete, unless readers only want the last value of each key",
    )


RULE = Rule(
    id="S025",
    title="compaction does not take parts of a transaction",
    about=About.TOPIC,
    requires=f"{SETTING}=delete",
    anomalies=frozenset({Anomaly.LOST}),
    guarantees=frozenset({Guarantee.EXACTLY_ONCE}),
    wrong="A compacted topic keeps the last value of each key. A reader that comes late sees a part of a transaction "
    "whose other records were overwritten by later ones.",
    fault="a key of a committed transaction is written again and the topic is compacted before a reader comes",
    shown_by="src/semel/drill/damage/s025_compacted.py",
    sources="Apache Kafka documentation: log compaction; KIP-98, what transactions do not promise consumers",
    subjects=topics,
    judge=_judge,
)

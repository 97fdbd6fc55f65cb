"""S023: only a replica with every acknowledged record becomes leader."""

from semel.check.facts import Facts, setting
from semel.check.rule import About, Judged, Rule, topics
from semel.guarantee import Anomaly

SETTING = "unclean.leader.election.enable"


def _judge(facts: Facts, name: str) -> Judged:
    text = setting(facts.topics[name].settings, SETTING)
    return Judged(
        held=text.lower() == "false",
        found=f"{SETTING}={text}",
        fix=f"set {SETTING}=false",
        alter=((SETTING, "false"),),
    )


RULE = Rule(
    id="S023",
    title="only a replica with every acknowledged record becomes leader",
    about=About.TOPIC,
    requires=f"{SETTING}=false",
    anomalies=frozenset({Anomaly.LOST}),
    wrong="When all replicas that are in sync are down, an unclean election makes one that is behind the leader. The "
    "others cut their logs down to its, and acknowledged records are gone.",
    fault="the last replica in sync dies, and one that is behind is still up",
    shown_by="src/semel/drill/damage/s023_unclean_election.py",
    sources="Apache Kafka documentation: unclean leader election; KIP-106",
    subjects=topics,
    judge=_judge,
)

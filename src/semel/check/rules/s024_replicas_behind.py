"""S024: every replica is in sync now."""

from semel.check.facts import Facts, known
from semel.check.rule import About, Judged, Rule, topics
from semel.guarantee import Guarantee

SHOWN_MAX = 3


def _judge(facts: Facts, name: str) -> Judged:
    every = known(facts.topics[name].partitions)
    bad = [one for one in every if one.leader < 0 or len(one.in_sync) < len(one.replicas)]
    shown = "; ".join(
        f"partition {one.partition}: leader {one.leader if one.leader >= 0 else 'none'}, "
        f"in sync {list(one.in_sync)} of {list(one.replicas)}"
        for one in bad[:SHOWN_MAX]
    )
    more = f" and {len(bad) - SHOWN_MAX} more" if len(bad) > SHOWN_MAX else ""
    return Judged(
        held=not bad,
        found=f"{shown}{more}" if bad else f"all replicas of {len(every)} partitions in sync",
        fix="start the missing brokers; look at their logs if they are up",
    )


RULE = Rule(
    id="S024",
    title="every replica is in sync now",
    about=About.TOPIC,
    requires="a leader, and every replica in sync",
    anomalies=frozenset(),
    guarantees=frozenset({Guarantee.AT_LEAST_ONCE, Guarantee.EXACTLY_ONCE}),
    wrong="A partition with replicas missing is one failure closer to refusing writes, or to losing what was "
    "acknowledged where the minimum is too low.",
    fault="a broker is down",
    shown_by="",
    sources="Apache Kafka documentation: under-replicated partitions",
    subjects=topics,
    judge=_judge,
)

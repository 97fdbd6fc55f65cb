"""S038: every open transaction has a coordinator that will end it."""

import shlex

from semel.check.facts import Facts, known
from semel.check.rule import About, Judged, Rule, topics
from semel.guarantee import Guarantee


def _judge(facts: Facts, name: str) -> Judged:
    open_ones = [
        (place, one) for place, producers in known(facts.topics[name].open_producers).items() for one in producers
    ]
    if not open_ones:
        return Judged(held=True, found="no transaction is open")
    coordinated = set(known(facts.all_transactions).values())
    # Coordinators list every id that they know. What none of them lists, nobody will end.
    hanging = [(place, one) for place, one in open_ones if one.producer_id not in coordinated]
    if not hanging:
        return Judged(held=True, found=f"{len(open_ones)} open, each known to its coordinator")
    place, one = hanging[0]
    return Judged(
        held=False,
        found="; ".join(
            f"{where}: producer {each.producer_id} since offset {each.offset_first}" for where, each in hanging
        ),
        fix=f"kafka-transactions.sh {facts.connect} abort --topic {shlex.quote(place.topic)} "
        f"--partition {place.partition} --start-offset {one.offset_first}",
    )


RULE = Rule(
    id="S038",
    title="every open transaction has a coordinator that will end it",
    about=About.TOPIC,
    requires="no hanging transaction",
    anomalies=frozenset(),
    guarantees=frozenset({Guarantee.EXACTLY_ONCE}),
    wrong="Readers with read_committed stop at the first open transaction. One that its coordinator does not know is "
    "never ended by a timeout: they wait for ever, and retention takes what they have not read.",
    fault="a late write of an aborted transaction opens it again",
    shown_by="",
    sources="KIP-664; KIP-890",
    subjects=topics,
    judge=_judge,
)

"""S045: a query does not start in the middle of a transaction."""

from semel.check.facts import FactMissing, Facts, known
from semel.check.gathering.starts import named_starts
from semel.check.rule import About, Judged, Rule
from semel.guarantee import Anomaly, Guarantee

BY_TIME = ("startingTimestamp", "startingOffsetsByTimestamp")


def _subjects(facts: Facts) -> list[str]:
    named = [query for query in facts.queries if named_starts(query) or any(query.text(name) for name in BY_TIME)]
    return [query.name for query in named]


def _judge(facts: Facts, name: str) -> Judged:
    if name not in facts.starts:
        # A time says nothing of transactions: which offset it stands for is only known to the brokers.
        raise FactMissing("a start by time may fall into a transaction, and without a cluster nobody can look")
    inside = {place: first for place, first in known(facts.starts[name]).items() if first is not None}
    shown = "; ".join(f"{place}: a transaction is under way since offset {first}" for place, first in inside.items())
    return Judged(
        held=not inside,
        found=shown or "no transaction is under way at the starting offsets",
        fix=f"in {name}: start each partition where a transaction begins, or at earliest",
    )


RULE = Rule(
    id="S045",
    title="a query does not start in the middle of a transaction",
    about=About.QUERY,
    requires="startingOffsets at which no transaction is under way",
    anomalies=frozenset({Anomaly.LOST}),
    guarantees=frozenset({Guarantee.EXACTLY_ONCE}),
    wrong="A reader that is put to an offset by hand sees what comes after it. If that is the middle of a transaction, "
    "it gets the end and never the beginning, although the whole was committed.",
    fault="none is needed: a reader starts behind the first record of a committed transaction",
    shown_by="src/semel/drill/damage/s045_starts_in_a_transaction.py",
    sources="KIP-98, what transactions do not promise consumers",
    subjects=_subjects,
    judge=_judge,
)

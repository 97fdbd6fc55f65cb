"""S017: a new query begins with the records that are there."""

from semel.check.facts import Facts
from semel.check.rule import About, Judged, Rule, queries
from semel.guarantee import Anomaly

OTHERS = ("startingTimestamp", "startingOffsetsByTimestamp")


def _judge(facts: Facts, name: str) -> Judged:
    query = facts.query(name)
    for other in OTHERS:
        if query.text(other):
            return Judged(held=True, found=f"{other}={query.text(other)}")
    text = query.text("startingOffsets")
    return Judged(
        held=bool(text) and text.lower() != "latest",
        found=f"startingOffsets={text or 'latest (default)'}",
        fix=f"in {name}: startingOffsets=earliest, offsets as JSON, or ledger with the semel sink",
    )


RULE = Rule(
    id="S017",
    title="a new query begins with the records that are there",
    about=About.QUERY,
    requires="startingOffsets=earliest, offsets as JSON, or ledger",
    anomalies=frozenset({Anomaly.LOST}),
    wrong="With latest, a query that starts without a checkpoint, new or because it was lost, skips every record "
    "written before it was ready to read.",
    fault="records are written before the query starts",
    shown_by="src/semel/drill/damage/s017_starts_at_latest.py",
    sources="Spark Structured Streaming and Kafka integration guide: startingOffsets",
    subjects=queries,
    judge=_judge,
)

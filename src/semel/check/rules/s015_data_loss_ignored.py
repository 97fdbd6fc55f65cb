"""S015: a query that cannot read what it should says so."""

from semel.check.facts import Facts
from semel.check.rule import About, Judged, Rule, queries
from semel.guarantee import Anomaly


def _judge(facts: Facts, name: str) -> Judged:
    text = facts.query(name).text("failOnDataLoss", "true")
    return Judged(held=text.lower() == "true", found=f"failOnDataLoss={text}", fix=f"in {name}: failOnDataLoss=true")


RULE = Rule(
    id="S015",
    title="a query that cannot read what it should says so",
    about=About.QUERY,
    requires="failOnDataLoss=true",
    anomalies=frozenset({Anomaly.LOST}),
    wrong="Retention, a recreated topic or a truncated log took records that the query has not read. With "
    "failOnDataLoss=false it goes on behind the gap with a line in the log that nobody reads.",
    fault="records are deleted before the query has read them",
    shown_by="src/semel/drill/damage/s015_data_loss_ignored.py",
    sources="Spark Structured Streaming and Kafka integration guide: failOnDataLoss",
    subjects=queries,
    judge=_judge,
)

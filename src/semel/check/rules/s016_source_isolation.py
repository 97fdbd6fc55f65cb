"""S016: a query does not read aborted records."""

from semel.check.facts import Facts
from semel.check.rule import About, Judged, Rule, queries
from semel.guarantee import Anomaly, Guarantee


def _judge(facts: Facts, name: str) -> Judged:
    query = facts.query(name)
    default = "read_committed" if query.source == "semel" else "read_uncommitted"
    text = query.text("kafka.isolation.level", default)
    origin = "" if query.text("kafka.isolation.level") else f" (default of format {query.source})"
    return Judged(
        held=text == "read_committed",
        found=f"kafka.isolation.level={text}{origin}",
        fix=f"in {name}: kafka.isolation.level=read_committed",
    )


RULE = Rule(
    id="S016",
    title="a query does not read aborted records",
    about=About.QUERY,
    requires="kafka.isolation.level=read_committed",
    anomalies=frozenset({Anomaly.ABORTED_READ, Anomaly.DUPLICATED}),
    guarantees=frozenset({Guarantee.EXACTLY_ONCE}),
    wrong="Spark's Kafka source reads uncommitted records unless an option says otherwise. Records of a transaction "
    "that was aborted and repeated arrive twice.",
    fault="a transaction on the input topic is aborted and repeated",
    shown_by="src/semel/drill/damage/s016_source_isolation.py",
    sources="Apache Kafka consumer configuration: isolation.level; Spark passes kafka.* options on",
    subjects=queries,
    judge=_judge,
)

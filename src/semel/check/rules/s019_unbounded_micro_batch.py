"""S019: a micro-batch cannot outgrow its transaction."""

from semel.check.facts import Facts
from semel.check.rule import About, Judged, Rule
from semel.guarantee import Guarantee


def _subjects(facts: Facts) -> list[str]:
    return [query.name for query in facts.queries if query.sink == "semel"]


def _judge(facts: Facts, name: str) -> Judged:
    limit = facts.query(name).number("maxOffsetsPerTrigger")
    return Judged(
        held=limit is not None,
        found=f"maxOffsetsPerTrigger={limit if limit is not None else '(none)'}",
        fix=f"in {name}: maxOffsetsPerTrigger=as many records as fit well into the transaction timeout",
    )


RULE = Rule(
    id="S019",
    title="a micro-batch cannot outgrow its transaction",
    about=About.QUERY,
    requires="maxOffsetsPerTrigger",
    anomalies=frozenset(),
    guarantees=frozenset({Guarantee.EXACTLY_ONCE}),
    wrong="After a rest the first micro-batch holds everything that was written meanwhile. If it takes longer than the "
    "transaction may, the coordinator aborts it; the next attempt is as large, and the pipeline never gets on.",
    fault="a backlog of hours meets a transaction timeout of minutes",
    shown_by="",
    sources="Spark Structured Streaming and Kafka integration guide: maxOffsetsPerTrigger; KIP-98",
    subjects=_subjects,
    judge=_judge,
)

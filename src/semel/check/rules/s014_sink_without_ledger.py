"""S014: a sink that is declared exactly once stores which micro-batches it has."""

from semel.check.facts import FactMissing, Facts
from semel.check.rule import About, Judged, Rule, queries
from semel.guarantee import Anomaly, Guarantee

# Spark's file sink and Delta keep a log of micro-batches beside the data.
WITH_LEDGER = frozenset({"csv", "delta", "json", "orc", "parquet", "semel", "text"})


def _judge(facts: Facts, name: str) -> Judged:
    query = facts.query(name)
    if not query.sink:
        raise FactMissing("the options do not say which sink: sink.format=…")
    # The ledger is kept under the pipeline's name.
    if query.sink == "semel" and not query.text("pipeline"):
        return Judged(held=False, found="sink.format=semel, no pipeline", fix=f"in {name}: pipeline=a name of its own")
    return Judged(
        held=query.sink in WITH_LEDGER,
        found=f"sink.format={query.sink}",
        fix=f"in {name}: write through semel.KafkaSink with a pipeline name, or declare at_least_once",
    )


RULE = Rule(
    id="S014",
    title="a sink that is declared exactly once keeps a ledger",
    about=About.QUERY,
    requires="a sink that stores the micro-batch id with its rows",
    anomalies=frozenset({Anomaly.DUPLICATED}),
    guarantees=frozenset({Guarantee.EXACTLY_ONCE}),
    wrong="Spark runs a micro-batch again when the driver died before its commit was written down, or when a task "
    "failed. Its own Kafka sink, foreachBatch and JDBC then write the same rows a second time.",
    fault="the driver is killed after the rows were written and before Spark's commit log was",
    shown_by="src/semel/drill/damage/s014_sink_without_ledger.py",
    sources="Spark Structured Streaming and Kafka integration guide: writing data to Kafka (at least once)",
    subjects=queries,
    judge=_judge,
)

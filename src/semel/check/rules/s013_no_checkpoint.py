"""S013: a query keeps its progress where a restart finds it."""

from semel.check.facts import Facts
from semel.check.rule import About, Judged, Rule, queries
from semel.guarantee import Anomaly

PASSING = ("/tmp/", "file:/tmp/", "file:///tmp/")  # noqa: S108  (looked for, not written to)


def _judge(facts: Facts, name: str) -> Judged:
    query = facts.query(name)
    # Spark's own name, or that of `semel.write_stream`.
    place = query.text("checkpointLocation") or query.text("checkpoint")
    if query.sink == "semel" and query.text("startingOffsets") == "ledger":
        return Judged(held=True, found="startingOffsets=ledger: the sink knows the position")
    return Judged(
        held=bool(place) and not place.startswith(PASSING),
        found=f"checkpointLocation={place or '(none)'}",
        fix=f"in {name}: checkpointLocation on storage that outlives the machine, or startingOffsets=ledger",
    )


RULE = Rule(
    id="S013",
    title="a query keeps its progress where a restart finds it",
    about=About.QUERY,
    requires="a checkpointLocation that outlives the driver",
    anomalies=frozenset({Anomaly.LOST, Anomaly.DUPLICATED}),
    wrong="The checkpoint holds the offsets of every micro-batch. Without it, or with one in a folder that is cleaned, "
    "a restarted query begins at startingOffsets: it skips what came meanwhile, or writes everything again.",
    fault="the checkpoint folder is deleted between two runs",
    shown_by="src/semel/drill/damage/s013_no_checkpoint.py",
    sources="Spark Structured Streaming guide: recovering from failures with checkpointing",
    subjects=queries,
    judge=_judge,
)

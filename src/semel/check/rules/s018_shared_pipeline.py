"""S018: two queries share neither a pipeline nor a checkpoint."""

from semel.check.facts import Facts, QueryFacts
from semel.check.rule import About, Judged, Rule, queries
from semel.guarantee import Guarantee


def _identity(query: QueryFacts) -> dict[str, str]:
    named = {name: query.text(name) for name in ("pipeline", "checkpointLocation")}
    return {name: text.rstrip("/") for name, text in named.items() if text}


def _judge(facts: Facts, name: str) -> Judged:
    own = _identity(facts.query(name))
    for other in facts.queries:
        shared = dict(own.items() & _identity(other).items())
        if other.name != name and shared:
            what = ", ".join(f"{key}={value}" for key, value in shared.items())
            return Judged(held=False, found=f"{what}, as in {other.name}", fix="give each query its own")
    return Judged(held=True, found=", ".join(f"{key}={value}" for key, value in own.items()) or "nothing shared")


RULE = Rule(
    id="S018",
    title="two queries share neither a pipeline nor a checkpoint",
    about=About.QUERY,
    requires="a pipeline name and a checkpoint of its own",
    anomalies=frozenset(),
    guarantees=frozenset({Guarantee.AT_LEAST_ONCE, Guarantee.EXACTLY_ONCE}),
    wrong="The pipeline name is the transactional id: the query that starts later fences the other, which stops. Two "
    "queries on one checkpoint overwrite each other's offsets.",
    fault="a second driver of the same pipeline is started",
    shown_by="tests/features/test_m31_two_drivers.py",
    sources="KIP-98, fencing; Spark: one checkpoint location per query",
    subjects=queries,
    judge=_judge,
)

"""S036: nobody else commits to a pipeline's ledger."""

from semel.check.facts import Facts, known
from semel.check.rule import About, Judged, Rule
from semel.guarantee import Anomaly


def _subjects(facts: Facts) -> list[str]:
    named = [query.text("pipeline") for query in facts.queries if query.sink == "semel"]
    return [name for name in dict.fromkeys(named) if name in facts.ledgers]


def _judge(facts: Facts, name: str) -> Judged:
    # A pipeline never joins its group: it only commits to it.
    info = known(facts.ledgers[name].info)
    return Judged(
        held=info.members == 0,
        found=f"{info.members} members, state {info.state}",
        fix="stop the consumers of that group: the pipeline needs a name that no group has",
    )


RULE = Rule(
    id="S036",
    title="nobody else commits to a pipeline's ledger",
    about=About.GROUP,
    requires="a group of the pipeline's name without members",
    anomalies=frozenset({Anomaly.LOST, Anomaly.DUPLICATED}),
    wrong="The ledger of a pipeline is a consumer group of the same name. Consumers in that group overwrite the "
    "position that the pipeline committed with its output.",
    fault="a consumer of the same group commits an offset of its own",
    shown_by="src/semel/drill/damage/s036_ledger_has_members.py",
    sources="docs/DESIGN.md, exactly-once sink, E9",
    subjects=_subjects,
    judge=_judge,
)

"""S026: retention does not overtake a group."""

from semel.check.facts import Facts, Position, known
from semel.check.rule import About, Judged, Rule, groups
from semel.guarantee import Anomaly


def _trouble(place: object, one: Position) -> str:
    if one.offset_next < one.log_start:
        return f"{place}: {one.log_start - one.offset_next} offsets deleted unread"
    if one.offset_young is not None and one.offset_next < min(one.offset_young, one.log_end):
        return f"{place}: the next record is older than half of retention.ms, {one.log_end - one.offset_next} behind"
    if one.bytes_behind is not None and one.bytes_behind > one.bytes_max // 2:
        return f"{place}: about {one.bytes_behind} bytes unread, retention.bytes={one.bytes_max}"
    return ""


def _judge(facts: Facts, name: str) -> Judged:
    positions = known(facts.groups[name].positions)
    troubles = [text for place, one in positions.items() if (text := _trouble(place, one))]
    lag = sum(one.log_end - one.offset_next for one in positions.values())
    return Judged(
        held=not troubles,
        found="; ".join(troubles) or f"{lag} records behind, within half of what is kept",
        fix="more consumers, or longer retention until the group has caught up",
    )


RULE = Rule(
    id="S026",
    title="retention does not overtake a group",
    about=About.GROUP,
    requires="lag within half of retention.ms and retention.bytes",
    anomalies=frozenset({Anomaly.LOST}),
    wrong="Records are deleted by age or size, whether they were read or not. A group that is slower than retention "
    "loses them, and its client starts elsewhere without a word (S009).",
    fault="retention deletes segments that the group has not read",
    shown_by="src/semel/drill/damage/s026_retention_overtakes.py",
    sources="Apache Kafka topic configuration: retention.ms, retention.bytes",
    subjects=groups,
    judge=_judge,
)

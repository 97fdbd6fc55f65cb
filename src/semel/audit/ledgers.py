"""What a pipeline's ledger says about its source: from where to where the output goes, and which commits did it.

Whichever sink keeps the ledger, the source is read as far as it goes. Of a table, ledger and rows are read at one
moment (a snapshot of PostgreSQL, a version of a Delta table), so what the pipeline commits meanwhile changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from semel.audit.ledger_gaps import Commit
from semel.errors import ConfigError
from semel.sinks.ledger import Held, is_same_topic
from semel.wire.topology import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One commit as the history beside a ledger has it: its number, and what the output then held."""

    number: int
    held: Mapping[TopicPartition, Held]
    committed_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLedger:
    """The ledger of a table, and the moment of the table that it belongs to, as Spark is asked for it."""

    held: Mapping[TopicPartition, Held]
    lines: tuple[Line, ...]
    moment: str

    def commits(self, topic: str) -> tuple[Commit, ...]:
        """What each commit covers of one source topic."""
        return commits_of(self.lines, topic)


def commits_of(lines: Sequence[Line], topic: str) -> tuple[Commit, ...]:
    """Each commit covers what the output holds with it and did not hold before.

    Old lines may have been removed. So the history counts as far back as its numbers have no hole, and the first of
    these lines covers all that the output held with it.
    """
    ordered = sorted(lines, key=lambda line: line.number)
    begin = max((at for at, line in enumerate(ordered) if at and line.number != ordered[at - 1].number + 1), default=0)
    reached: dict[TopicPartition, int] = {}
    found = []
    for line in ordered[begin:]:
        for place, held in sorted(line.held.items()):
            if place.topic != topic:
                continue
            first = max(0, held.offset_first)
            # One that begins behind the end of what was held before has left something out.
            first = max(first, reached.get(place, first))
            if first < held.offset_next:
                found.append(
                    Commit(
                        partition=f"{topic}-{place.partition}",
                        offset_first=first,
                        offset_next=held.offset_next,
                        committed_s=line.committed_s,
                    )
                )
            reached[place] = max(reached.get(place, 0), held.offset_next)
    return tuple(found)


def counted_of(
    held: Mapping[TopicPartition, Held], *, pipeline: str, topic: str, topic_id: str, next_command: str = ""
) -> dict[int, tuple[int, int]]:
    """From where to where the output holds each partition of a topic; ConfigError where it is another one's."""
    counted = {place: one for place, one in held.items() if place.topic == topic}
    if not counted:
        others = sorted({place.topic for place in held})
        raise ConfigError(
            f"the ledger of {pipeline!r} counts nothing of {topic}",
            you_want=f"a source of this pipeline: {', '.join(others)}" if others else "a pipeline that has committed",
            next_command=next_command,
        )
    if not all(is_same_topic(one.topic_id, topic_id) for one in counted.values()):
        # The output holds records of the older topic, and nobody has those any more.
        raise ConfigError(
            f"{topic} was deleted and created again since {pipeline!r} committed",
            because="the ledger counts offsets of the older topic",
            you_want="an audit without --pipeline: it says what is missing on either side",
        )
    return {place.partition: (max(0, one.offset_first), one.offset_next) for place, one in counted.items()}

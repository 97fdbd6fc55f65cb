"""Which offsets of a topic an audit reads, and what that part of the topic cannot prove.

Kafka takes records away (retention, compaction), holds some back (an open transaction), and a window leaves some out.
Each of these makes a side incomplete, and the report UNKNOWN rather than wrong. Offsets without a record are none of
them: transaction markers and aborted records use offsets, too.

A pipeline's ledger says how far its output goes. The source is read up to there and no further, so records that are
still under way raise no alarm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from semel.audit.finding import Gap, Incomplete, Place

NO_PRODUCER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEnds:
    """Where a partition begins and ends; `offset_stable` is where a read_committed reader has to stop."""

    offset_first: int
    offset_stable: int
    offset_next: int
    held_by: int = NO_PRODUCER
    """The producer whose open transaction begins at `offset_stable`, if that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """What the cluster says about a topic at one moment."""

    name: str
    partitions: Mapping[int, PartitionEnds]
    is_compacted: bool | None = False
    """None where the user may not see the settings of the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user and the ledger ask for, by partition, None for no limit; ends are exclusive.

    The ledger says where the output begins and ends. A partition without an entry has given nothing to it yet.
    """

    begin: Mapping[int, int] | None = None
    end: Mapping[int, int] | None = None
    ledger: Mapping[int, tuple[int, int]] | None = None
    is_committed_only: bool = True
    producer_id: int | None = None
    """The pipeline's own producer: what it has open comes after all that it has committed, and hides none of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The offsets to read, first and behind the last, of each partition, and what they lack."""

    ranges: Mapping[int, tuple[int, int]]
    incomplete: tuple[Incomplete, ...]
    left_out: int = 0
    """Offsets behind the end of the ledger: still under way, and not judged."""


def plan_bounds(side: Place, topic: TopicFacts, asked: Asked) -> Bounds:
    """Decide what to read, and say everything that is missing from it."""
    ranges, left_out = {}, 0
    reasons: list[tuple[Gap, str]] = []
    if topic.is_compacted is None:
        unseen = f"whether {topic.name} is compacted cannot be seen without the right DESCRIBE_CONFIGS"
        reasons.append((Gap.COMPACTION, unseen))
    elif topic.is_compacted:
        reasons.append((Gap.COMPACTION, f"{topic.name} is compacted: of each key only the last record has to be there"))
    for number, ends in sorted(topic.partitions.items()):
        # What the pipeline itself has open belongs to a micro-batch that its ledger does not count yet.
        is_own = asked.is_committed_only and ends.held_by == asked.producer_id != NO_PRODUCER
        whole = (0, ends.offset_stable if is_own else ends.offset_next)
        needed = whole if asked.ledger is None else asked.ledger.get(number, (0, 0))
        begin = max(ends.offset_first, needed[0], _limit(asked.begin, number, 0))
        # A read_committed reader stops at the first transaction that is open.
        end_seen = ends.offset_stable if asked.is_committed_only else ends.offset_next
        end_wanted = min(end_seen, _limit(asked.end, number, end_seen))
        end = min(end_wanted, needed[1])
        # Retention may have taken everything that was asked for.
        ranges[number] = (begin, max(begin, end))
        left_out += max(0, end_wanted - max(begin, end))
        name = f"{topic.name}-{number}"
        reasons += _missing_at_the_beginning(name, ends, _limit(asked.begin, number, 0), needed)
        reasons += _missing_at_the_end(name, ends, _limit(asked.end, number, needed[1]), needed, end_seen)
    return Bounds(
        ranges=ranges,
        incomplete=tuple(Incomplete(side=side, gap=gap, text=text) for gap, text in reasons),
        left_out=left_out,
    )


def _limit(limits: Mapping[int, int] | None, number: int, otherwise: int) -> int:
    return otherwise if limits is None else limits.get(number, otherwise)


def _missing_at_the_beginning(
    name: str, ends: PartitionEnds, wanted: int, needed: tuple[int, int]
) -> Iterator[tuple[Gap, str]]:
    """What the output never held cannot be missing: a pipeline may have begun in the middle of its source."""
    if needed[0] >= needed[1]:
        return
    if wanted > max(ends.offset_first, needed[0]):
        yield Gap.WINDOW, f"{name} is read from {wanted} on, and would be judged from {needed[0]} on"
    elif ends.offset_first > needed[0]:
        yield Gap.RETENTION, f"{name} begins at {ends.offset_first}: older records are gone"


def _missing_at_the_end(
    name: str, ends: PartitionEnds, wanted: int, needed: tuple[int, int], seen: int
) -> Iterator[tuple[Gap, str]]:
    """What is behind the end of the ledger is not judged, so it cannot be missing."""
    if wanted < needed[1]:
        yield Gap.WINDOW, f"{name} is read up to {wanted}, and would be judged up to {needed[1]}"
    elif needed[1] > ends.offset_next:
        yield Gap.LEDGER, f"the ledger counts {name} up to {needed[1]}, and it ends at {ends.offset_next}"
    elif seen < needed[1]:
        yield Gap.OPEN_TRANSACTION, f"{name} is undecided from {seen} on, and ends at {ends.offset_next}"

"""Where a query starts or ends: words, offsets, times or the ledger, and how each becomes offsets.

Why: a position is read from the options on its own, without a cluster, so that a wrong option is found at once; it
     becomes offsets only when the cluster is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, assert_never

from semel.errors import ConfigError, SemelError
from semel.wire.offsets import EARLIEST, LATEST
from semel.wire.topology import TopicPartition

_log = logging.getLogger(__name__)
Offsets = dict[TopicPartition, int]


class Edge(StrEnum):
    """An end of the log."""

    EARLIEST = "earliest"
    LATEST = "latest"


class WhenLate(StrEnum):
    """What to do when no record is as late as the time asked for."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class AtOffsets:
    """An offset per partition, where -2 is the earliest and -1 the latest."""

    option: str
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtTime:
    """The first record at or after a time: one time for all partitions, or one each."""

    option: str
    time_ms: int | Mapping[TopicPartition, int]
    when_late: WhenLate


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLedger:
    """Where the exactly-once sink of a pipeline stands: what it committed as a consumer group of that name."""

    pipeline: str


Position = Edge | AtOffsets | AtTime | AtLedger


class OffsetLookup(Protocol):
    """What resolving a position asks of the cluster."""

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """First offset of each partition."""
        ...

    def latest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Offset after the last record of each partition, or after the last stable one."""
        ...

    def at_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """First offset at or after a time; None when there is none."""
        ...

    def ledger(self, pipeline: str) -> Offsets:
        """Where the output of a pipeline ends."""
        ...


def resolve(position: Position, partitions: Collection[TopicPartition], lookup: OffsetLookup) -> Offsets:
    """Turn a position into one offset for each partition."""
    match position:
        case Edge.EARLIEST:
            return lookup.earliest(partitions)
        case Edge.LATEST:
            return lookup.latest(partitions)
        case AtOffsets():
            return _at_offsets(position, partitions, lookup)
        case AtTime():
            return _at_time(position, partitions, lookup)
        case AtLedger():
            return _at_ledger(position, partitions, lookup)
        case _:
            assert_never(position)


def _at_offsets(position: AtOffsets, partitions: Collection[TopicPartition], lookup: OffsetLookup) -> Offsets:
    _check_same(position.option, position.offsets, partitions)
    first = [one for one, offset in position.offsets.items() if offset == EARLIEST]
    last = [one for one, offset in position.offsets.items() if offset == LATEST]
    ends = (lookup.earliest(first) if first else {}) | (lookup.latest(last) if last else {})
    # What was found for -1 and -2 goes over the given numbers.
    return dict(position.offsets) | ends


def _at_time(position: AtTime, partitions: Collection[TopicPartition], lookup: OffsetLookup) -> Offsets:
    times = position.time_ms
    if not isinstance(times, int):
        _check_same(position.option, times, partitions)
    by_partition = dict.fromkeys(partitions, times) if isinstance(times, int) else dict(times)
    found = lookup.at_times(by_partition)
    # No record is as late as that: Spark's source asks the user what to do then, and so does this one.
    late = [one for one in by_partition if found[one] is None]
    if late and position.when_late is WhenLate.ERROR:
        raise ConfigError(
            f"{position.option}: no record of {late[0]} is at or after {by_partition[late[0]]} ms",
            you_want='.option("startingOffsetsByTimestampStrategy", "latest") to start at the end instead',
        )
    ends = lookup.latest(late) if late else {}
    return ends | {one: offset for one, offset in found.items() if offset is not None}


def _at_ledger(position: AtLedger, partitions: Collection[TopicPartition], lookup: OffsetLookup) -> Offsets:
    committed = lookup.ledger(position.pipeline)
    # New partitions have no entry: nothing of them is in the output, so they are read from the start.
    known = {one: committed[one] for one in partitions if one in committed}
    unknown = [one for one in partitions if one not in committed]
    if unknown:
        _log.warning(
            "the ledger of %r has no entry for %s: starting at the earliest offset there",
            position.pipeline,
            ", ".join(map(str, unknown)),
        )
    return known | (lookup.earliest(unknown) if unknown else {})


def _check_same(option: str, given: Collection[TopicPartition], wanted: Collection[TopicPartition]) -> None:
    """Every partition that is read needs a number, and no other has one: as Spark's Kafka source asks."""
    without = sorted(set(wanted) - set(given))
    extra = sorted(set(given) - set(wanted))
    if without or extra:
        parts = [
            f"no number for {', '.join(map(str, without))}" if without else "",
            f"{', '.join(map(str, extra))} not among the partitions that are read" if extra else "",
        ]
        raise ConfigError(f"option {option!r}: " + "; ".join(part for part in parts if part))


def check_found(partitions: Collection[TopicPartition], missing: Collection[str], what: str) -> None:
    """Refuse to start on nothing, or on less than was asked for."""
    if missing:
        raise SemelError(f"there is no {', '.join(missing)}", you_want="topics and partitions that exist")
    if not partitions:
        raise SemelError(f"no topic matches {what}", you_want="a pattern that matches at least one topic")

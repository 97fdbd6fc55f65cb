"""Offset ranges -> Spark tasks: many small ranges share a task, a big one is split.

Keeps: every offset of every range is in exactly one task; offsets of one partition rise within a task, and from
       task to task where a range is split, so that a reader who takes tasks in turn has each partition in order.
Why:   a Python task costs about a tenth of a second whatever it reads, so a tiny micro-batch is one task; a big range
       is split so that one partition does not bound the speed. In between there are as many tasks as partitions, which
       is the parallelism that users of Spark's Kafka source know.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from semel.wire.topology import TopicPartition

# Less is not worth a task of its own.
TASK_BYTES_SMALL = 4 << 20
# More is cut, so that one large partition does not bound the speed.
TASK_BYTES_MAX = 256 << 20
# Used until a sample has shown how large the records of a topic are.
RECORD_BYTES_DEFAULT = 256
# What a record costs beside its bytes: rows, offsets and times in columns.
RECORD_OVERHEAD_BYTES = 48
# Shares are sums of floats: without it a range of exactly one share would be cut in two.
ROUNDING = 1e-6


class OffsetRange(NamedTuple):
    """Records of one partition with start <= offset < end."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def place(self) -> TopicPartition:
        """The partition it is a range of."""
        return TopicPartition(self.topic, self.partition)

    @property
    def offset_count(self) -> int:
        """How many offsets; there may be fewer records."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLimits:
    """What the options say about tasks."""

    tasks_min: int = 0
    records_max: int | None = None


Task = tuple[OffsetRange, ...]


def plan_tasks(
    ranges: Sequence[OffsetRange], limits: TaskLimits, record_bytes: Mapping[str, float] | None = None
) -> list[Task]:
    """Cut and pack; `record_bytes` says how big a topic's records are on average."""
    sizes = record_bytes or {}
    # Sorted, so that the same ranges give the same tasks when Spark plans a micro-batch once more.
    wanted = sorted(one for one in ranges if one.offset_count > 0)
    costs = [one.offset_count * _cost(sizes, one.topic) for one in wanted]
    if not wanted:
        return []
    tasks = _task_count(len(wanted), sum(costs), limits)
    share = sum(costs) / tasks
    pieces = [
        (piece, piece.offset_count * _cost(sizes, piece.topic))
        for one, cost in zip(wanted, costs, strict=True)
        for piece in _split(one, _pieces(one, cost, share, limits))
    ]
    return _fill(pieces, share, limits) if len(pieces) > len(wanted) else _pack(pieces, tasks, limits)


def _cost(sizes: Mapping[str, float], topic: str) -> float:
    return sizes.get(topic, RECORD_BYTES_DEFAULT) + RECORD_OVERHEAD_BYTES


def _task_count(ranges: int, cost: float, limits: TaskLimits) -> int:
    # Not more than there are ranges: a small range is not worth a cut.
    side_by_side = min(ranges, math.ceil(cost / TASK_BYTES_SMALL))
    return max(1, side_by_side, math.ceil(cost / TASK_BYTES_MAX), limits.tasks_min)


def _pieces(one: OffsetRange, cost: float, share: float, limits: TaskLimits) -> int:
    """Cut what is larger than a fair share, if tasks were asked for or it is too large for any."""
    by_share = math.ceil(cost / share - ROUNDING) if limits.tasks_min or cost > TASK_BYTES_MAX else 1
    by_records = math.ceil(one.offset_count / limits.records_max) if limits.records_max else 1
    return min(one.offset_count, max(1, by_share, by_records))


def _split(one: OffsetRange, pieces: int) -> list[OffsetRange]:
    edges = [one.start + one.offset_count * number // pieces for number in range(pieces + 1)]
    return [OffsetRange(one.topic, one.partition, edges[i], edges[i + 1]) for i in range(pieces)]


def _fill(pieces: Sequence[tuple[OffsetRange, float]], share: float, limits: TaskLimits) -> list[Task]:
    """Fill one task after the other with neighbours, so that the pieces of a split range stay in order."""
    tasks: list[list[OffsetRange]] = [[]]
    given = 0.0
    records = 0
    for piece, cost in pieces:
        full = limits.records_max is not None and records + piece.offset_count > limits.records_max
        # A piece goes where more than half of it fits, which keeps the tasks near the fair share.
        if tasks[-1] and (full or given + cost / 2 > len(tasks) * share):
            tasks.append([])
            records = 0
        tasks[-1].append(piece)
        given += cost
        records += piece.offset_count
    return [tuple(task) for task in tasks]


@dataclass(slots=True, order=True)
class _Bin:
    """A task while it is being filled; the one with least load comes first."""

    load: float
    number: int
    pieces: list[OffsetRange] = field(default_factory=list, compare=False)


def _pack(pieces: Sequence[tuple[OffsetRange, float]], tasks: int, limits: TaskLimits) -> list[Task]:
    """Put the largest pieces first, each into the task that has least; a task keeps to `records_max`."""
    bins = [_Bin(0, number) for number in range(min(tasks, len(pieces)))]
    for piece, cost in sorted(pieces, key=lambda entry: (-entry[1], entry[0])):
        weight = piece.offset_count if limits.records_max else cost
        # The task with least is full, so all of them are.
        if limits.records_max and bins[0].load + weight > limits.records_max:
            heapq.heappush(bins, _Bin(weight, len(bins), [piece]))
            continue
        least = bins[0]
        least.pieces.append(piece)
        heapq.heapreplace(bins, _Bin(least.load + weight, least.number, least.pieces))
    return sorted(tuple(sorted(one.pieces)) for one in bins if one.pieces)

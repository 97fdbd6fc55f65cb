"""How much of what is there goes into one micro-batch: the share of each partition under `maxOffsetsPerTrigger`."""

from __future__ import annotations

import math
from collections.abc import Mapping

from semel.wire.topology import TopicPartition


def admit(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], offsets_max: int | None
) -> dict[TopicPartition, int]:
    """Give each partition its end: all of it, or a share in proportion to what waits there.

    As Spark's Kafka source does: a share below one is one, so that a small backlog beside a huge one still moves; the
    sum may therefore pass the limit by less than the number of partitions.
    """
    waiting = {one: max(0, end - start[one]) for one, end in latest.items()}
    total = sum(waiting.values())
    if offsets_max is None or total <= offsets_max:
        # A log that was cut may end before its start; then nothing is read, never something again.
        return {one: max(end, start[one]) for one, end in latest.items()}
    return {one: start[one] + _share(rows, total, offsets_max) for one, rows in waiting.items()}


def _share(waiting: int, total: int, offsets_max: int) -> int:
    share = offsets_max * waiting / total
    return min(waiting, math.ceil(share) if share < 1 else math.floor(share))

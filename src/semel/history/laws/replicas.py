"""Replicas: below the high watermark every replica holds the same batches, of the same leader epochs."""

from collections import defaultdict
from collections.abc import Sequence

from semel.history.op import Op, Place, Replica
from semel.history.verdict import Breach, Inconsistency, Judgement
from semel.history.view import acts, shown

LAW = "replicas"


def judge(history: Sequence[Op]) -> Judgement:
    """Compare looks that were taken at one moment, each pair below the lower of the two high watermarks."""
    looks: dict[tuple[Place, int], list[Replica]] = defaultdict(list)
    for op, replica in acts(history, Replica):
        # Of one moment in virtual time: a log that is looked at later may have grown or been cut.
        looks[replica.place, op.at_ms].append(replica)
    weighed = 0
    breaches: list[Breach] = []
    for together in looks.values():
        # The one that knows most, since each pair is compared below the lower of the two high watermarks.
        first = max(together, key=lambda one: one.high_watermark)
        for other in together:
            if other is not first:
                weighed += 1
                breaches += _differences(first, other)
    return Judgement(law=LAW, weighed=weighed, breaches=tuple(breaches))


def _differences(first: Replica, second: Replica) -> list[Breach]:
    limit = min(first.high_watermark, second.high_watermark)
    ours, theirs = ({batch for batch in one.batches if batch[0] < limit} for one in (first, second))
    if ours == theirs:
        return []
    # The first batch that one has and the other has not: behind it, everything differs.
    where, leader_epoch, _ = min(ours ^ theirs)
    text = f"{shown(first.place)}: brokers {first.broker} and {second.broker} differ at offset {where}"
    more = f" (leader epoch {leader_epoch}), below the high watermark {limit}"
    return [Breach(kind=Inconsistency.DIVERGED, text=text + more)]

"""Stable offsets: what a reader once got at an offset, every reader gets there ever after.

A record below the high watermark is committed to the log; an election or a restart that swaps it has rewritten history.
Weighs reads of both isolations together, since both read one log.
"""

from collections.abc import Sequence

from semel.guarantee import Anomaly
from semel.history.op import Op, Place, Read
from semel.history.verdict import Breach, Inconsistency, Judgement
from semel.history.view import acts, shown

LAW = "stable offsets"


def judge(history: Sequence[Op]) -> Judgement:
    """Remember each offset's record, and look whether a later read of that range agrees."""
    seen: dict[Place, dict[int, str]] = {}
    weighed = 0
    breaches: list[Breach] = []
    for op, read in acts(history, Read):
        known = seen.setdefault(read.place, {})
        for offset, value in read.records:
            weighed += 1
            # The first read of an offset decides. One that differs later proves that the log was rewritten.
            before = known.setdefault(offset, value)
            if before != value:
                text = f"{op.client} read {value} at {shown(read.place)}@{offset}, where {before} was read earlier"
                breaches.append(Breach(kind=Inconsistency.DIVERGED, text=text))
        breaches += _vanished(op, read, known)
    return Judgement(law=LAW, weighed=weighed, breaches=tuple(breaches))


def _vanished(op: Op, read: Read, known: dict[int, str]) -> list[Breach]:
    """Only a read_uncommitted reader gets every record of the range it passes."""
    if read.committed:
        return []
    got = dict(read.records)
    return [
        Breach(
            kind=Anomaly.LOST,
            text=f"{op.client} passed {shown(read.place)}@{offset} and did not get {known[offset]}, read earlier",
        )
        # The range that the answer covers, also where it has no record.
        for offset in range(read.offset_start, read.offset_next)
        if offset in known and offset not in got
    ]

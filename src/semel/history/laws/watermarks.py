"""Watermarks: for a client of one leader epoch, high watermark and last stable offset never go back.

Nothing at or above the limit of a reader's isolation is handed out, and the last stable offset is never above the high
watermark. A new leader may know an older high watermark, so leader epochs are weighed apart.
"""

from collections.abc import Iterator, Sequence

from semel.history.op import Op, Outcome, Place, Read
from semel.history.verdict import Breach, Inconsistency, Judgement
from semel.history.view import acts, shown

LAW = "watermarks"


def judge(history: Sequence[Op]) -> Judgement:
    """Follow each client's fetches of each partition and leader epoch."""
    last: dict[tuple[str, Place, int], Read] = {}
    weighed = 0
    breaches: list[Breach] = []
    for op, read in acts(history, Read):
        if op.outcome is not Outcome.OK:
            continue
        weighed += 1
        breaches += _inside(op.client, read)
        # One client's fetches follow each other. Those of two clients overlap, and their answers have no order.
        key = (op.client, read.place, read.leader_epoch)
        if key in last:
            breaches += _between(op.client, last[key], read)
        last[key] = read
    return Judgement(law=LAW, weighed=weighed, breaches=tuple(breaches))


def _inside(client: str, read: Read) -> Iterator[Breach]:
    where = f"{client} at {shown(read.place)}"
    if read.last_stable_offset > read.high_watermark:
        text = f"{where}: last stable offset {read.last_stable_offset} above high watermark {read.high_watermark}"
        yield Breach(kind=Inconsistency.UNEXPECTED, text=text)
    # Exclusive, as Kafka's own limits are.
    limit = read.last_stable_offset if read.committed else read.high_watermark
    beyond = [offset for offset, _ in read.records if offset >= limit]
    if beyond:
        yield Breach(kind=Inconsistency.UNEXPECTED, text=f"{where}: got offsets {beyond}, the limit was {limit}")


def _between(client: str, before: Read, after: Read) -> Iterator[Breach]:
    pairs = (
        ("high watermark", before.high_watermark, after.high_watermark),
        ("last stable offset", before.last_stable_offset, after.last_stable_offset),
    )
    for name, old, new in pairs:
        if new < old:
            text = f"{client} at {shown(after.place)}, leader epoch {after.leader_epoch}: {name} {old}, then {new}"
            yield Breach(kind=Inconsistency.WENT_BACK, text=text)

"""Order: records of one idempotent producer stand in a partition in the order in which they were sent.

Weighs acknowledged records of one producer id and epoch; a producer that took a new one has started over.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from semel.guarantee import Anomaly
from semel.history.op import Op, Outcome, Place, Send
from semel.history.verdict import Breach, Judgement
from semel.history.view import acts, shown

LAW = "order"


def judge(history: Sequence[Op]) -> Judgement:
    """Compare the offsets in the answers with the order in which the sends began."""
    sent: dict[tuple[str, Place], list[tuple[int, Send]]] = defaultdict(list)
    for op, send in acts(history, Send):
        # With acks=0 there is no offset in an answer.
        if op.outcome is Outcome.OK and send.producer and send.offset >= 0:
            sent[send.producer, send.place].append((op.invoked, send))
    breaches = []
    for (_, place), sends in sent.items():
        # By when they began: a history lists ops as they ended.
        in_order = [send for _, send in sorted(sends, key=lambda one: one[0])]
        breaches += [
            Breach(
                kind=Anomaly.REORDERED,
                text=f"{shown(place)}: {first.value}@{first.offset} was sent before {second.value}@{second.offset}",
            )
            for first, second in pairwise(in_order)
            if second.offset <= first.offset
        ]
    return Judgement(law=LAW, weighed=sum(map(len, sent.values())), breaches=tuple(breaches))

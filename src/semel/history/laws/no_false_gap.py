"""No false gap: the next batch of an idempotent producer is never refused as out of order.

A leader that has forgotten what it acknowledged, or never learnt it from the leader before, would refuse it so.
Unless a later batch was taken before it: of a producer that it has never heard of, a leader takes any batch as the
first (KIP-360), and the one before that, refused for another reason and sent again, comes too late.
Weighs only records outside transactions: a transaction that a newer owner has aborted may be refused in this way.
"""

from collections.abc import Sequence

from semel.history.op import Op, Send
from semel.history.verdict import Breach, Inconsistency, Judgement
from semel.history.view import acts, shown

LAW = "no false gap"


def judge(history: Sequence[Op]) -> Judgement:
    """Look at every send of a producer with sequences."""
    sends = [send for _, send in acts(history, Send) if send.producer and not send.transaction]
    breaches = tuple(
        Breach(
            kind=Inconsistency.UNEXPECTED,
            text=f"{send.value} to {shown(send.place)} was refused as a gap; all before it was acknowledged",
        )
        for send in sends
        if send.gap
    )
    return Judgement(law=LAW, weighed=len(sends), breaches=breaches)

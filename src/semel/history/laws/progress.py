"""Progress: once everything is healed, every client gets its work done within the limit."""

from collections.abc import Sequence

from semel.history.op import Op, Outcome, Settle
from semel.history.verdict import Breach, Inconsistency, Judgement
from semel.history.view import acts

LAW = "progress"


def judge(history: Sequence[Op]) -> Judgement:
    """Whatever had to settle and did not is a breach."""
    # Only what began after all was healed: until then a client may be held up by a fault.
    settled = list(acts(history, Settle))
    breaches = tuple(
        Breach(kind=Inconsistency.STALLED, text=f"{op.client}: {act.what}: {op.error or 'not done'}")
        for op, act in settled
        if op.outcome is not Outcome.OK
    )
    return Judgement(law=LAW, weighed=len(settled), breaches=breaches)

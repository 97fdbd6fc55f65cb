"""No phantom: nothing is read that nobody sent, that was sent later, or whose send failed for good."""

from collections.abc import Sequence

from semel.history.op import Op, Outcome, Read, Send
from semel.history.verdict import Breach, Inconsistency, Judgement
from semel.history.view import acts, sends_by_value, shown

LAW = "no phantom"


def judge(history: Sequence[Op]) -> Judgement:
    """Lead every record that was read back to its send."""
    sends = sends_by_value(history)
    weighed = 0
    breaches: list[Breach] = []
    for op, read in acts(history, Read):
        for offset, value in read.records:
            weighed += 1
            why = _objection(op, read, sends.get(value))
            if why:
                text = f"{op.client} read {value} at {shown(read.place)}@{offset}: {why}"
                breaches.append(Breach(kind=Inconsistency.UNEXPECTED, text=text))
    return Judgement(law=LAW, weighed=weighed, breaches=tuple(breaches))


def _objection(op: Op, read: Read, sent: tuple[Op, Send] | None) -> str:
    if sent is None:
        return "nobody sent it"
    by, send = sent
    if send.place != read.place:
        return f"it was sent to {shown(send.place)}"
    # Only what began after the read was over; what overlaps may have been seen.
    if by.invoked > op.returned:
        return "it was sent later"
    return "its send had failed" if by.outcome is Outcome.FAILED else ""

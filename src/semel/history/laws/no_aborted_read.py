"""No aborted read: a read_committed reader gets a transaction's record only after its commit was asked for.

Weighs every fetch of a read_committed reader, not only the last ones: a record that was shown cannot be taken back.
"""

from collections.abc import Sequence

from semel.guarantee import Anomaly
from semel.history.op import EndTransaction, Op, Outcome, Read
from semel.history.verdict import Breach, Judgement
from semel.history.view import acts, ends_by_transaction, sends_by_value, shown

LAW = "no aborted read"


def judge(history: Sequence[Op]) -> Judgement:
    """Compare what readers saw with how and when each transaction was asked to end."""
    sends, ends = sends_by_value(history), ends_by_transaction(history)
    weighed = 0
    breaches: list[Breach] = []
    for op, read in acts(history, Read):
        if not read.committed:
            continue
        for offset, value in read.records:
            transaction = sends[value][1].transaction if value in sends else ""
            if not transaction:
                continue
            weighed += 1
            # Asked for is enough: a commit may take effect before its client has the answer.
            if not _committed_by(op, ends[transaction]):
                text = f"{op.client} read {value} at {shown(read.place)}@{offset}; {transaction} was not committed"
                breaches.append(Breach(kind=Anomaly.ABORTED_READ, text=text))
    return Judgement(law=LAW, weighed=weighed, breaches=tuple(breaches))


def _committed_by(read: Op, ends: Sequence[tuple[Op, EndTransaction]]) -> bool:
    """Whether a commit that was not refused had been asked for when the read returned."""
    return any(end.commit and op.outcome is not Outcome.FAILED and op.invoked < read.returned for op, end in ends)

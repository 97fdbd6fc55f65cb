"""No loss: what was acknowledged with acks=all is there in the end, at the offset that was answered.

A record of a transaction counts for the log once it is acknowledged, and for read_committed readers once its commit is.
Judges acks=all only: a producer that asks for less accepts loss.
"""

from collections.abc import Iterator, Sequence

from semel.guarantee import Anomaly
from semel.history.op import ACKS_ALL, Op, Outcome, Send
from semel.history.verdict import Breach, Judgement
from semel.history.view import acts, ends_by_transaction, final_records, shown, was_committed

LAW = "no loss"


def judge(history: Sequence[Op]) -> Judgement:
    """Look for every acknowledged record in the final reads of both isolations."""
    acknowledged = [act for op, act in acts(history, Send) if op.outcome is Outcome.OK and act.acks == ACKS_ALL]
    ends = ends_by_transaction(history)
    # An end without an answer promises nothing, so its records are not asked for.
    visible = [act for act in acknowledged if not act.transaction or was_committed(ends[act.transaction])]
    breaches = [
        *_missing(acknowledged, final_records(history, committed=False), "read_uncommitted"),
        *_missing(visible, final_records(history, committed=True), "read_committed"),
    ]
    # Without both looks nothing was weighed, and the verdict is UNKNOWN.
    can_tell = all(final_records(history, committed=committed) is not None for committed in (True, False))
    return Judgement(law=LAW, weighed=len(acknowledged) if can_tell else 0, breaches=tuple(breaches))


def _missing(
    sends: Sequence[Send], final: dict[tuple[str, int], list[tuple[int, str]]] | None, isolation: str
) -> Iterator[Breach]:
    if final is None:
        return
    found = {place: dict(records) for place, records in final.items()}
    values = {place: set(records.values()) for place, records in found.items()}
    for send in sends:
        if send.value not in values.get(send.place, set()):
            text = f"{send.value} was acknowledged at {shown(send.place)}@{send.offset}; {isolation} does not find it"
            yield Breach(kind=Anomaly.LOST, text=text)
        # The offset in a producer's answer is a promise too: somebody may have stored it.
        elif send.offset >= 0 and found[send.place].get(send.offset) != send.value:
            text = f"{send.value} was acknowledged at {shown(send.place)}@{send.offset}, but stands elsewhere"
            yield Breach(kind=Anomaly.LOST, text=text)

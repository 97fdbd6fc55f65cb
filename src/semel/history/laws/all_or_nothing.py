"""All or nothing: of one transaction a read_committed reader finds every record and the offset, or none of them."""

from collections import defaultdict
from collections.abc import Sequence

from semel.history.op import CommitOffset, FetchOffset, Op, Outcome, Send
from semel.history.verdict import Breach, Inconsistency, Judgement
from semel.history.view import acts, final_records

LAW = "all or nothing"


def judge(history: Sequence[Op]) -> Judgement:
    """Compare the parts of each transaction that the final reads found."""
    final = final_records(history, committed=True)
    if final is None:
        return Judgement(law=LAW, weighed=0)
    visible = {value for records in final.values() for _, value in records}
    parts: dict[str, list[Send]] = defaultdict(list)
    for op, send in acts(history, Send):
        # A send that failed for good is part of no transaction, so nobody misses it.
        if send.transaction and op.outcome is not Outcome.FAILED:
            parts[send.transaction].append(send)
    breaches = [breach for name, sends in parts.items() if (breach := _torn_records(name, sends, visible)) is not None]
    # The offset lies on another partition than the records, with a marker of its own.
    breaches += _torn_offsets(parts, visible, history)
    return Judgement(law=LAW, weighed=len(parts), breaches=tuple(breaches))


def _torn_records(name: str, sends: list[Send], visible: set[str]) -> Breach | None:
    found = [send.value for send in sends if send.value in visible]
    if not found or len(found) == len(sends):
        return None
    missing = [send.value for send in sends if send.value not in visible]
    return Breach(kind=Inconsistency.TORN, text=f"of {name} {found} are visible and {missing} are not")


def _torn_offsets(parts: dict[str, list[Send]], visible: set[str], history: Sequence[Op]) -> list[Breach]:
    """The group's last offset tells which transactions took part: each commits a higher one than those before."""
    last: dict[tuple[str, tuple[str, int]], int] = {}
    for op, fetched in acts(history, FetchOffset):
        if op.outcome is Outcome.OK:
            # In the order of the history, so the last look is kept.
            last[fetched.group, fetched.place] = fetched.offset_next
    breaches = []
    for op, commit in acts(history, CommitOffset):
        key = (commit.group, commit.place)
        if not commit.transaction or op.outcome is not Outcome.OK or key not in last:
            continue
        shown = any(send.value in visible for send in parts.get(commit.transaction, ()))
        # A higher one is fine: a later transaction has moved it on.
        if shown and last[key] < commit.offset_next:
            text = f"{commit.transaction} is visible, its offset {commit.offset_next} is not: {last[key]} is committed"
            breaches.append(Breach(kind=Inconsistency.TORN, text=text))
        if not shown and parts.get(commit.transaction) and last[key] == commit.offset_next:
            text = f"the offset {commit.offset_next} of {commit.transaction} is committed, its records are not visible"
            breaches.append(Breach(kind=Inconsistency.TORN, text=text))
    return breaches

"""Group offsets: what a group has committed never goes back, and a commit once confirmed is what readers find.

Weighs groups whose members only ever commit higher offsets. A commit of unknown outcome may still arrive late and put
its own, lower offset over a newer one; finding exactly that one is no breach.
While faults last only commits that the same broker confirmed are demanded: a coordinator that is cut off and does not
know yet that it was replaced answers from its memory, as in Apache Kafka. In the end every confirmed commit counts.
"""

from collections.abc import Sequence

from semel.history.op import CommitOffset, EndTransaction, FetchOffset, Op, Outcome
from semel.history.verdict import Breach, Inconsistency, Judgement
from semel.history.view import acts, ends_by_transaction, may_be_committed, shown, was_committed

LAW = "group offsets"

Ends = dict[str, list[tuple[Op, EndTransaction]]]


def judge(history: Sequence[Op]) -> Judgement:
    """Compare every offset that was fetched with the commits that were over when it was asked for."""
    ends = ends_by_transaction(history)
    commits = list(acts(history, CommitOffset))
    weighed = 0
    breaches: list[Breach] = []
    for op, fetched in acts(history, FetchOffset):
        if op.outcome is not Outcome.OK:
            continue
        weighed += 1
        own = [(at, commit) for at, commit in commits if (commit.group, commit.place) == (fetched.group, fetched.place)]
        # The highest of them: members only ever commit higher ones.
        floor = max((c.offset_next for at, c in own if _is_sure(at, c, op, ends)), default=-1)
        # A request without an answer may still be on its way, and be carried out behind newer ones.
        late = {c.offset_next for at, c in own if at.outcome is Outcome.UNKNOWN}
        # Whatever had begun when the answer came may be what the answer shows.
        asked = {c.offset_next for at, c in own if at.invoked < op.returned and _is_possible(at, c, ends)}
        if fetched.offset_next < floor and fetched.offset_next not in late:
            text = (
                f"{fetched.group} had committed {floor} of {shown(fetched.place)}, then {fetched.offset_next} is found"
            )
            breaches.append(Breach(kind=Inconsistency.WENT_BACK, text=text))
        elif fetched.offset_next not in asked | {-1}:
            text = f"{fetched.group} finds {fetched.offset_next} of {shown(fetched.place)}, which nobody committed"
            breaches.append(Breach(kind=Inconsistency.UNEXPECTED, text=text))
    return Judgement(law=LAW, weighed=weighed, breaches=tuple(breaches))


def _is_sure(at: Op, commit: CommitOffset, read: Op, ends: Ends) -> bool:
    """Whether it counts for certain when the read begins; of a transaction only its confirmed end decides."""
    assert isinstance(read.act, FetchOffset)
    # A coordinator that was replaced without knowing it may answer from its memory, so only its own word binds it.
    is_demanded = read.act.final or commit.coordinator == read.act.coordinator
    if at.outcome is not Outcome.OK or not at.is_before(read) or not is_demanded:
        return False
    if not commit.transaction:
        return True
    return was_committed([(end_op, end) for end_op, end in ends[commit.transaction] if end_op.is_before(read)])


def _is_possible(at: Op, commit: CommitOffset, ends: Ends) -> bool:
    if at.outcome is Outcome.FAILED:
        return False
    return not commit.transaction or may_be_committed(ends[commit.transaction])

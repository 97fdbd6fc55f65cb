"""One owner: a transactional id's owners follow one another, each with a newer producer epoch than the last.

Once a newer owner was confirmed, whatever an older one begins must not succeed: neither a record nor a commit.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from semel.history.op import EndTransaction, Op, Outcome, Own, Send
from semel.history.verdict import Breach, Inconsistency, Judgement
from semel.history.view import acts

LAW = "one owner"


def judge(history: Sequence[Op]) -> Judgement:
    """Order the confirmed owners of each id, then look for late successes of those who were replaced."""
    owners: dict[str, list[tuple[Op, Own]]] = defaultdict(list)
    for op, own in acts(history, Own):
        if op.outcome is Outcome.OK:
            owners[own.transactional_id].append((op, own))
    breaches = [breach for name in owners for breach in _same_epoch(name, owners[name])]
    breaches += [breach for name in owners for breach in _late(name, owners[name], history)]
    return Judgement(law=LAW, weighed=sum(map(len, owners.values())), breaches=tuple(breaches))


def _same_epoch(name: str, owners: list[tuple[Op, Own]]) -> list[Breach]:
    """Compare owners where one was confirmed before the other asked; epochs of a new producer id start over."""
    breaches = []
    for (op, own), (later_op, later) in pairwise(owners):
        # A coordinator whose epochs of one producer id are used up goes on with another id.
        is_newer = later.producer_id != own.producer_id or later.producer_epoch > own.producer_epoch
        if op.is_before(later_op) and not is_newer:
            text = f"{name}: producer epoch {own.producer_epoch} was given, then {later.producer_epoch}"
            breaches.append(Breach(kind=Inconsistency.TWO_OWNERS, text=text))
    return breaches


def _late(name: str, owners: list[tuple[Op, Own]], history: Sequence[Op]) -> list[Breach]:
    """An act belongs to the last owner that its client had been confirmed as when it began."""
    breaches = []
    for op in history:
        # Reads need no owner, and a record outside a transaction belongs to no id.
        is_write = isinstance(op.act, EndTransaction) or (isinstance(op.act, Send) and op.act.transaction)
        if not is_write or op.outcome is not Outcome.OK:
            continue
        # The client may have become the owner again since; then the act is rightly its own.
        own = [at for at, _ in owners if at.client == op.client and at.is_before(op)]
        newer = [
            at for at, _ in owners if own and own[-1].is_before(at) and at.client != op.client and at.is_before(op)
        ]
        if newer:
            text = f"{name}: {op.client} succeeded with {op.act} after {newer[0].client} had become the owner"
            breaches.append(Breach(kind=Inconsistency.TWO_OWNERS, text=text))
    return breaches

"""The laws that judge a simulated cluster and the audit that judges real places mean the same by the same word."""

from hypothesis import given

from semel.audit.expectation import Expectation
from semel.audit.finding import Kind
from semel.history import Outcome, Send
from semel.history.laws import no_duplicate, no_loss, no_phantom, order
from tests.unit.audit.histories import History, histories
from tests.unit.audit.naive import naive_audit
from tests.unit.history.written import HERE, Written


@given(history=histories())
def test_laws_and_audit_find_the_same(history: History) -> None:
    # Values are all that a law sees of a record: what was altered is the same record here.
    left = [seen._replace(content=0) for seen in history.left]
    right = [seen._replace(content=0) for seen in history.right]
    written = Written()
    for seen in left:
        places = [other.position for other in right if other.identity == seen.identity]
        offset = min(places, default=-1)
        written.add(Send(value=str(seen.identity), place=HERE, producer="p-0", offset=offset), Outcome.OK)
    ops = written.final(*(str(seen.identity) for seen in right)).ops
    found = naive_audit(left, right, Expectation())
    # Each law looks at both isolations, and here they see the same.
    assert len(no_loss.judge(ops).breaches) == 2 * found[Kind.LOST]
    assert len(no_phantom.judge(ops).breaches) == 2 * found[Kind.UNEXPECTED]
    assert bool(no_duplicate.judge(ops).breaches) == bool(found[Kind.DUPLICATED])
    assert bool(order.judge(ops).breaches) == bool(found[Kind.REORDERED])

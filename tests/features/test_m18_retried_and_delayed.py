"""M18 Any message of a transaction lost, answered into the void, delayed or cut: no torn transaction, no lost write.

The broken half needs no fault in the broker: version 1 of the protocol cannot tell a late EndTxn from a new one.

Keeps: T4 a retried request has the effect of one; I1 a batch sent twice is appended once.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

import semel
from semel.broker.runtime.intercept import Action, CutMidFrame, Delay, DropRequest, DropResponse, Seen
from semel.protocol.error_codes import ErrorCode
from tests.features.producers import JAVA, LIBRARIES, TransactionalProducer
from tests.features.reading import committed_offset, seen, wait_complete
from tests.features.tickets import MakeProducer
from tests.support.transactional import RawTransactions
from tests.support.waiting import eventually

ACTIONS: dict[str, Action] = {
    "request lost": DropRequest(),
    "answer lost": DropResponse(),
    "request delayed": Delay(ms=150),
    "answer delayed": Delay(ms=150, response=True),
    "answer cut": CutMidFrame(),
}
APIS = ("InitProducerId", "AddPartitionsToTxn", "Produce", "TxnOffsetCommit", "EndTxn", "WriteTxnMarkers")
TRANSACTIONS = 4


@dataclass(frozen=True)
class Step:
    """Where the fault hits: one API, and the how-manieth of its requests."""

    api: str
    nth: int

    def where(self) -> Callable[[Seen], bool]:
        """Count requests until it is this one's turn."""
        left = [self.nth]

        def matches(_: Seen) -> bool:
            left[0] -= 1
            return left[0] < 0

        return matches

    def __str__(self) -> str:
        """As pytest shows it."""
        return f"{self.api} {self.nth + 1}"


STEPS = [Step(api, nth) for api in APIS for nth in ((0, 2) if api != "InitProducerId" else (0,))]
OLDER_STEPS = [*STEPS, Step("AddOffsetsToTxn", 0), Step("AddOffsetsToTxn", 2)]
CASES = [
    (library, step, fault)
    for library in LIBRARIES
    for step in (STEPS if library == JAVA else OLDER_STEPS)
    for fault in (ACTIONS if step.nth == 0 else ("request lost", "answer lost"))
]


def sell(producer: TransactionalProducer, number: int) -> None:
    """One order in a transaction, with the offset of its request."""
    producer.begin()
    for partition in range(2):
        producer.send("status", f"order {number} {partition}", partition)
        producer.send("seats", f"seat {number} {partition}", partition)
    producer.flush()
    producer.send_offset("shop", "seats", 2, number)
    producer.commit() if number % 2 == 0 else producer.abort()


@pytest.mark.sampled(96)
@pytest.mark.quick(16)
@pytest.mark.parametrize(
    ("library", "step", "fault"), CASES, ids=[f"{library}-{step}-{fault}" for library, step, fault in CASES]
)
def test_one_fault_changes_nothing(
    tickets: semel.Cluster, producer_of: MakeProducer, library: str, step: Step, fault: str
) -> None:
    producer = producer_of(library)
    hook = tickets.intercept(step.api, ACTIONS[fault], where=step.where())
    producer.init()
    for number in range(TRANSACTIONS):
        sell(producer, number)
    eventually(lambda: hook.fired, what="the fault")
    wait_complete(tickets)
    rows = [(what, number, part) for what in ("order", "seat") for number in (0, 2) for part in range(2)]
    assert seen(tickets, "status", "seats") == sorted(f"{what} {number} {part}" for what, number, part in rows)
    everything = seen(tickets, "status", "seats", committed=False)
    assert len(everything) == len(set(everything)), "in the log twice"
    assert committed_offset(tickets, "shop", "seats", 2) == 2


# A late EndTxn of the last transaction arrives in the middle of the next one.


def late_end(cluster: semel.Cluster, *, newer: bool) -> tuple[int, list[str]]:
    """The code that the late EndTxn got, and what was visible then."""
    raw = RawTransactions(cluster, "tickets", newer=newer)
    raw.init()
    late = raw.end_request(commit=True)
    write_both(raw, "first")
    assert raw.end(late) == ErrorCode.NONE
    wait_complete(cluster)
    write_one(raw, "status", "second")
    code = raw.end(late)
    if code == ErrorCode.NONE:
        wait_complete(cluster)
    return code, seen(cluster, "status", "seats")


def write_one(raw: RawTransactions, topic: str, name: str) -> None:
    assert raw.newer or raw.add(topic) == ErrorCode.NONE
    assert raw.send(topic, f"{topic} {name}") == ErrorCode.NONE


def write_both(raw: RawTransactions, name: str) -> None:
    write_one(raw, "status", name)
    write_one(raw, "seats", name)


def test_version_2_refuses_a_late_end(tickets: semel.Cluster) -> None:
    code, visible = late_end(tickets, newer=True)
    assert code == ErrorCode.PRODUCER_FENCED
    assert visible == ["seats first", "status first"]


def test_version_1_is_torn_by_a_late_end(tickets: semel.Cluster) -> None:
    code, visible = late_end(tickets, newer=False)
    assert code == ErrorCode.NONE
    assert visible == ["seats first", "status first", "status second"], "half of the second transaction"


@pytest.mark.parametrize("newer", [False, True], ids=["version1", "version2"])
def test_a_late_write_of_an_ended_transaction_is_refused(tickets: semel.Cluster, newer: bool) -> None:
    raw = RawTransactions(tickets, "tickets", newer=newer)
    raw.init()
    write_one(raw, "status", "first")
    late = raw.batch("late", 1)
    assert raw.end(raw.end_request(commit=True)) == ErrorCode.NONE
    wait_complete(tickets)
    assert raw.send_batch("status", late) != ErrorCode.NONE
    assert seen(tickets, "status", committed=False) == ["status first"]


def test_the_next_transaction_does_not_overtake_the_markers_of_the_last(tickets: semel.Cluster) -> None:
    raw = RawTransactions(tickets, "tickets", newer=True)
    raw.init()
    write_both(raw, "first")
    hook = tickets.intercept("WriteTxnMarkers", Delay(ms=60_000), times=None)
    assert raw.end(raw.end_request(commit=False)) == ErrorCode.NONE
    assert raw.send("status", "second") == ErrorCode.CONCURRENT_TRANSACTIONS
    raw.sequences.clear()
    tickets.disarm(hook)
    wait_complete(tickets)
    write_both(raw, "second")
    assert raw.end(raw.end_request(commit=True)) == ErrorCode.NONE
    wait_complete(tickets)
    assert seen(tickets, "status", "seats") == ["seats second", "status second"]
    assert hook.fired

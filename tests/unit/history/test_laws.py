"""Every law holds for a history that keeps it and bites one that does not."""

from collections.abc import Callable, Sequence

import pytest

from semel.guarantee import Anomaly
from semel.history import (
    CommitOffset,
    EndTransaction,
    FetchOffset,
    Inconsistency,
    Judgement,
    Op,
    Outcome,
    Own,
    Read,
    Replica,
    Send,
    Settle,
    Verdict,
)
from semel.history.laws import (
    LAWS,
    all_or_nothing,
    group_offsets,
    judge_all,
    no_aborted_read,
    no_duplicate,
    no_false_gap,
    no_loss,
    no_phantom,
    one_owner,
    order,
    progress,
    replicas,
    stable_offsets,
    watermarks,
)
from tests.unit.history.written import HERE, THERE, Written

Judge = Callable[[Sequence[Op]], Judgement]
A = Send(value="a", place=HERE, offset=0, producer="7/0")
B = Send(value="b", place=HERE, offset=1, producer="7/0")
IN_T = Send(value="t", place=HERE, offset=0, producer="7/0", transaction="T")
ALSO_IN_T = Send(value="u", place=THERE, offset=0, producer="7/0", transaction="T")
COMMIT, ABORT = EndTransaction(transaction="T", commit=True), EndTransaction(transaction="T", commit=False)
OFFSET_OF_T = CommitOffset(group="g", place=HERE, offset_next=5, transaction="T")


def read(*records: tuple[int, str], committed: bool = False, limit: int = 10, leader_epoch: int = 0) -> Read:
    return Read(
        place=HERE,
        committed=committed,
        leader_epoch=leader_epoch,
        offset_next=10,
        high_watermark=limit,
        last_stable_offset=limit,
        records=records,
    )


def marks(high_watermark: int, last_stable_offset: int, leader_epoch: int = 0) -> Read:
    return Read(
        place=HERE,
        committed=True,
        leader_epoch=leader_epoch,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
    )


def replica(broker: int, high_watermark: int, *batches: tuple[int, int, int]) -> Replica:
    return Replica(place=HERE, broker=broker, high_watermark=high_watermark, batches=batches)


def commit(offset_next: int) -> CommitOffset:
    return CommitOffset(group="g", place=HERE, offset_next=offset_next)


def fetched(offset_next: int) -> FetchOffset:
    return FetchOffset(group="g", place=HERE, offset_next=offset_next)


def own(producer_epoch: int) -> Own:
    return Own(transactional_id="t", producer_id=7, producer_epoch=producer_epoch)


HOLDS: list[tuple[str, Judge, Written]] = [
    ("acknowledged and found", no_loss.judge, Written().add(A).final("a")),
    ("acks=1 may be lost", no_loss.judge, Written().add(Send(value="x", place=HERE, acks=1)).add(A).final("a")),
    ("unknown may be lost", no_loss.judge, Written().add(A).add(B, Outcome.UNKNOWN).final("a")),
    (
        "aborted is found by readers of everything",
        no_loss.judge,
        Written().add(IN_T).add(ABORT).final_as(("t",), committed=False).final_as((), committed=True),
    ),
    ("once", no_duplicate.judge, Written().add(A).final("a")),
    ("plain twice", no_duplicate.judge, Written().add(A).add(Send(value="p", place=HERE)).final("a", "p", "p")),
    (
        "refused in a transaction that is over",
        no_false_gap.judge,
        Written().add(A).add(Send(value="t", place=HERE, producer="7/0", transaction="T", gap=True), Outcome.FAILED),
    ),
    ("refused for another reason", no_false_gap.judge, Written().add(A).add(B, Outcome.FAILED)),
    ("in order", order.judge, Written().add(A).add(B)),
    ("another producer", order.judge, Written().add(B).add(Send(value="c", place=HERE, offset=0, producer="8/0"))),
    (
        "committed, then read",
        no_aborted_read.judge,
        Written().add(COMMIT).add(IN_T).add(read((0, "t"), committed=True)),
    ),
    (
        "read while the commit is asked for",
        no_aborted_read.judge,
        Written().add(IN_T).add(read((0, "t"), committed=True)).add(COMMIT).last_began_at(1),
    ),
    ("sent, then read", no_phantom.judge, Written().add(A).add(read((0, "a")))),
    ("unknown send read", no_phantom.judge, Written().add(A, Outcome.UNKNOWN).add(read((0, "a")))),
    (
        "both parts and the offset",
        all_or_nothing.judge,
        Written()
        .add(IN_T)
        .add(ALSO_IN_T)
        .add(OFFSET_OF_T)
        .add(COMMIT)
        .add(fetched(5))
        .final("t")
        .final("u", place=THERE),
    ),
    (
        "neither part nor the offset",
        all_or_nothing.judge,
        Written().add(IN_T).add(ALSO_IN_T).add(OFFSET_OF_T).add(ABORT).add(fetched(4)).final("x"),
    ),
    ("same record again", stable_offsets.judge, Written().add(read((0, "a"))).add(read((0, "a")))),
    ("committed reader passes aborted", stable_offsets.judge, Written().add(read((0, "t"))).add(read(committed=True))),
    ("marks rise", watermarks.judge, Written().add(marks(3, 2)).add(marks(4, 4))),
    ("new leader knows less", watermarks.judge, Written().add(marks(3, 2)).add(marks(2, 2, leader_epoch=1))),
    ("same batches", replicas.judge, Written().add(replica(1, 2, (0, 0, 9))).add(replica(2, 2, (0, 0, 9)))),
    (
        "different above the mark",
        replicas.judge,
        Written().add(replica(1, 5, (0, 0, 9), (3, 0, 8))).add(replica(2, 3, (0, 0, 9), (3, 1, 7))),
    ),
    ("epochs rise", one_owner.judge, Written().add(own(0)).add(own(1), client="c2")),
    ("fenced", one_owner.judge, Written().add(own(0)).add(own(1), client="c2").add(COMMIT, Outcome.FAILED)),
    ("committed and found", group_offsets.judge, Written().add(commit(3)).add(commit(5)).add(fetched(5))),
    (
        "late unknown commit",
        group_offsets.judge,
        Written().add(commit(3), Outcome.UNKNOWN).add(commit(5)).add(fetched(3)),
    ),
    (
        "a replaced coordinator answers from memory",
        group_offsets.judge,
        Written()
        .add(CommitOffset(group="g", place=HERE, offset_next=3, coordinator="old"))
        .add(CommitOffset(group="g", place=HERE, offset_next=5, coordinator="new"))
        .add(FetchOffset(group="g", place=HERE, offset_next=3, coordinator="old")),
    ),
    ("offset of an open transaction", group_offsets.judge, Written().add(OFFSET_OF_T).add(fetched(-1)).add(COMMIT)),
    ("settled", progress.judge, Written().add(Settle(what="read to the end"))),
]

BITES: list[tuple[str, Judge, Anomaly | Inconsistency, Written]] = [
    ("acknowledged and gone", no_loss.judge, Anomaly.LOST, Written().add(A).add(B).final("a")),
    ("acknowledged elsewhere", no_loss.judge, Anomaly.LOST, Written().add(A).add(B).final("b", "a")),
    (
        "committed and hidden",
        no_loss.judge,
        Anomaly.LOST,
        Written().add(IN_T).add(COMMIT).final_as(("t",), committed=False).final_as(("x",), committed=True),
    ),
    ("twice", no_duplicate.judge, Anomaly.DUPLICATED, Written().add(A).final("a", "a")),
    (
        "refused as a gap",
        no_false_gap.judge,
        Inconsistency.UNEXPECTED,
        Written().add(A).add(Send(value="b", place=HERE, producer="7/0", gap=True), Outcome.FAILED),
    ),
    (
        "out of order",
        order.judge,
        Anomaly.REORDERED,
        Written().add(B).add(Send(value="c", place=HERE, offset=0, producer="7/0")),
    ),
    (
        "aborted and read",
        no_aborted_read.judge,
        Anomaly.ABORTED_READ,
        Written().add(IN_T).add(ABORT).add(read((0, "t"), committed=True)),
    ),
    (
        "read before the commit",
        no_aborted_read.judge,
        Anomaly.ABORTED_READ,
        Written().add(IN_T).add(read((0, "t"), committed=True)).add(COMMIT),
    ),
    ("nobody sent it", no_phantom.judge, Inconsistency.UNEXPECTED, Written().add(read((0, "z")))),
    (
        "failed and read",
        no_phantom.judge,
        Inconsistency.UNEXPECTED,
        Written().add(A, Outcome.FAILED).add(read((0, "a"))),
    ),
    ("read before sent", no_phantom.judge, Inconsistency.UNEXPECTED, Written().add(read((0, "a"))).add(A)),
    (
        "wrong partition",
        no_phantom.judge,
        Inconsistency.UNEXPECTED,
        Written().add(Send(value="a", place=THERE)).add(read((0, "a"))),
    ),
    ("one part", all_or_nothing.judge, Inconsistency.TORN, Written().add(IN_T).add(ALSO_IN_T).add(COMMIT).final("t")),
    (
        "records without the offset",
        all_or_nothing.judge,
        Inconsistency.TORN,
        Written().add(IN_T).add(OFFSET_OF_T).add(COMMIT).add(fetched(4)).final("t"),
    ),
    (
        "offset without the records",
        all_or_nothing.judge,
        Inconsistency.TORN,
        Written().add(IN_T).add(OFFSET_OF_T).add(COMMIT).add(fetched(5)).final("x"),
    ),
    ("another record", stable_offsets.judge, Inconsistency.DIVERGED, Written().add(read((0, "a"))).add(read((0, "b")))),
    ("record gone", stable_offsets.judge, Anomaly.LOST, Written().add(read((0, "a"))).add(read((1, "b")))),
    ("high watermark back", watermarks.judge, Inconsistency.WENT_BACK, Written().add(marks(3, 2)).add(marks(2, 2))),
    ("last stable offset back", watermarks.judge, Inconsistency.WENT_BACK, Written().add(marks(3, 3)).add(marks(3, 2))),
    ("stable above high", watermarks.judge, Inconsistency.UNEXPECTED, Written().add(marks(3, 4))),
    ("beyond the limit", watermarks.judge, Inconsistency.UNEXPECTED, Written().add(read((3, "a"), limit=3))),
    (
        "other bytes",
        replicas.judge,
        Inconsistency.DIVERGED,
        Written().add(replica(1, 2, (0, 0, 9))).add(replica(2, 2, (0, 0, 8))),
    ),
    (
        "batch missing below the mark",
        replicas.judge,
        Inconsistency.DIVERGED,
        Written().add(replica(1, 4, (0, 0, 9), (2, 0, 8))).add(replica(2, 4, (0, 0, 9))),
    ),
    ("one epoch twice", one_owner.judge, Inconsistency.TWO_OWNERS, Written().add(own(1)).add(own(1), client="c2")),
    (
        "commit of the replaced",
        one_owner.judge,
        Inconsistency.TWO_OWNERS,
        Written().add(own(0)).add(own(1), client="c2").add(COMMIT),
    ),
    (
        "record of the replaced",
        one_owner.judge,
        Inconsistency.TWO_OWNERS,
        Written().add(own(0)).add(own(1), client="c2").add(IN_T),
    ),
    (
        "offset back",
        group_offsets.judge,
        Inconsistency.WENT_BACK,
        Written().add(commit(3)).add(commit(5)).add(fetched(3)),
    ),
    (
        "offset back in the end, whoever answers",
        group_offsets.judge,
        Inconsistency.WENT_BACK,
        Written()
        .add(CommitOffset(group="g", place=HERE, offset_next=3, coordinator="old"))
        .add(CommitOffset(group="g", place=HERE, offset_next=5, coordinator="new"))
        .add(FetchOffset(group="g", place=HERE, offset_next=3, coordinator="old", final=True)),
    ),
    ("offset gone", group_offsets.judge, Inconsistency.WENT_BACK, Written().add(commit(3)).add(fetched(-1))),
    ("offset of nobody", group_offsets.judge, Inconsistency.UNEXPECTED, Written().add(commit(3)).add(fetched(4))),
    (
        "offset of an aborted transaction",
        group_offsets.judge,
        Inconsistency.UNEXPECTED,
        Written().add(OFFSET_OF_T).add(ABORT).add(fetched(5)),
    ),
    ("not settled", progress.judge, Inconsistency.STALLED, Written().add(Settle(what="read"), Outcome.FAILED)),
]


@pytest.mark.parametrize(("judge", "written"), [case[1:] for case in HOLDS], ids=[case[0] for case in HOLDS])
def test_it_holds(judge: Judge, written: Written) -> None:
    found = judge(written.ops)
    assert (found.verdict, found.breaches) == (Verdict.HELD, ())


@pytest.mark.parametrize(("judge", "kind", "written"), [case[1:] for case in BITES], ids=[case[0] for case in BITES])
def test_it_bites(judge: Judge, kind: Anomaly | Inconsistency, written: Written) -> None:
    found = judge(written.ops)
    assert found.verdict is Verdict.BROKEN
    assert {breach.kind for breach in found.breaches} == {kind}


def test_every_law_has_a_history_that_breaks_it() -> None:
    assert {case[1] for case in BITES} == set(LAWS) == {case[1] for case in HOLDS}


def test_nothing_weighed_is_unknown() -> None:
    assert {found.verdict for found in judge_all([])} == {Verdict.UNKNOWN}


def test_the_worst_verdict_counts() -> None:
    held, broken, unknown = Verdict.HELD, Verdict.BROKEN, Verdict.UNKNOWN
    assert Verdict.worst([held, unknown, broken]) is broken
    assert Verdict.worst([held, unknown]) is unknown
    assert Verdict.worst([held, held]) is held
    assert Verdict.worst([]) is unknown


def test_without_final_reads_loss_is_unknown() -> None:
    assert no_loss.judge(Written().add(A).ops).verdict is Verdict.UNKNOWN

"""The orders of steps, with a sink that only writes down what is asked of it; and what becomes of an error (E10)."""

# ruff: noqa: ARG002  (what a sink is given and a list of calls has no use for)
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from semel.errors import FencedError, OutcomeUnknownError, SinkError
from semel.guarantee import Guarantee
from semel.protocol.error_codes import ErrorCode
from semel.sinks.base import (
    RUNS_MAX,
    Attempts,
    CommitStep,
    ErrorKind,
    MicroBatch,
    Results,
    RowsAhead,
    SinkSession,
    WritePlan,
)
from semel.sinks.commit import Commit
from semel.sinks.ledger import Entry, Held, Ledger
from semel.sinks.recovery import Decision, Plan
from semel.wire.topology import TopicPartition

SOURCE = TopicPartition("orders", 0)
FENCED = FencedError("another driver", code=ErrorCode.PRODUCER_FENCED)
UNKNOWN = OutcomeUnknownError("no answer")
FINAL, AGAIN = SinkError("final"), SinkError("again")
KINDS: dict[Exception, ErrorKind] = {
    FENCED: ErrorKind.FENCED,
    UNKNOWN: ErrorKind.UNKNOWN,
    FINAL: ErrorKind.FINAL,
    AGAIN: ErrorKind.AGAIN,
}


class Noted(SinkSession):
    """Writes down what is called, and fails where it is told to."""

    pipeline = "noted"

    def __init__(self, plan: Plan = Plan.RUN, failing: Mapping[str, Sequence[Exception]] | None = None) -> None:
        self.called: list[str] = []
        self._plan = plan
        self._failing = {name: list(errors) for name, errors in (failing or {}).items()}

    def _note(self, name: str) -> None:
        self.called.append(name)
        if self._failing.get(name):
            raise self._failing[name].pop(0)

    def own(self) -> None:
        self._note("own")

    def read_ledger(self, _: MicroBatch) -> Ledger:
        self._note("read_ledger")
        return Ledger(last=Entry(query_id="q", micro_batch_id=6), held={SOURCE: Held(offset_next=5)})

    def decide(self, _: MicroBatch, *, is_stateful: bool, checkpoint: str) -> Decision:
        return Decision(action=self._plan, row="", reason="", error=FINAL)

    def prepare_run(self, _: MicroBatch) -> None:
        raise AssertionError("for batch jobs")

    def begin(self) -> None:
        self._note("begin")

    def plan_write(self, _: MicroBatch, rows: RowsAhead, *, run: int) -> WritePlan:
        self._note("plan_write")
        return WritePlan(stages=(), attempts=Attempts.ANY)

    def prepare(self, results: Results) -> int:
        self._note("prepare")
        return sum(row["rows"] for row in results)

    def write_ledger(self, _: MicroBatch) -> None:
        self._note("write_ledger")

    def commit(self) -> None:
        self._note("commit")

    def abort(self) -> None:
        self._note("abort")

    def commit_ledger(self, _: MicroBatch) -> None:
        self._note("commit_ledger")

    def classify(self, error: Exception) -> ErrorKind:
        return KINDS.get(error, ErrorKind.AGAIN)

    def explain(self, error: Exception, micro_batch: MicroBatch, *, kind: ErrorKind, is_last_run: bool) -> Exception:
        return SinkError(f"{kind.value} {'at last' if is_last_run else 'at once'}")


class JobFailed(Exception):
    """As Spark's own."""


@dataclass
class Counted:
    """Rows that are only counted."""

    rows: int = 3
    stateful: bool = False
    again: bool = True
    failing: list[Exception] = field(default_factory=list)
    dropped: int = 0
    written: list[int] = field(default_factory=list)
    errors: tuple[type[Exception], ...] = (JobFailed,)
    checkpoint: str = ""

    def ahead(self) -> RowsAhead:
        return RowsAhead(columns=(), expected=self.rows, cores=1)

    def carry_out(self, plan: WritePlan) -> Results:
        if self.failing:
            raise self.failing.pop(0)
        return [{"rows": self.rows}]

    def wrote(self, rows: int) -> None:
        self.written.append(rows)

    def has_no_rows(self) -> bool:
        return self.rows == 0

    def drop_rows(self) -> int:
        self.dropped += self.rows
        return self.rows

    def is_stateful(self) -> bool:
        return self.stateful

    def may_run_again(self) -> bool:
        return self.again

    def words_of(self, error: Exception) -> str:
        return str(error)


def execute(
    session: Noted, work: Counted | None = None, guarantee: Guarantee = Guarantee.EXACTLY_ONCE, end: int = 8
) -> tuple[int, list[CommitStep]]:
    steps: list[CommitStep] = []
    micro_batch = MicroBatch(pipeline="noted", query_id="q", id=7, guarantee=guarantee, offsets={SOURCE: end})
    rows = Commit(session=session, micro_batch=micro_batch, work=work or Counted(), on_step=steps.append).execute()
    return rows, steps


WHOLE = "own read_ledger begin plan_write prepare write_ledger commit"


@pytest.mark.parametrize(
    ("guarantee", "called"),
    [
        (Guarantee.EXACTLY_ONCE, WHOLE),
        (Guarantee.AT_LEAST_ONCE, "read_ledger plan_write prepare commit_ledger"),
        (Guarantee.AT_MOST_ONCE, "own read_ledger plan_write write_ledger commit prepare"),
    ],
)
def test_the_order_is_the_guarantee(guarantee: Guarantee, called: str) -> None:
    session, work = Noted(), Counted()
    assert execute(session, work, guarantee)[0] == 3
    assert " ".join(session.called) == called
    assert work.written == [3]


def test_every_step_of_exactly_once_is_told() -> None:
    assert execute(Noted())[1] == list(CommitStep)


@pytest.mark.parametrize("guarantee", list(Guarantee))
@pytest.mark.parametrize(("plan", "dropped"), [(Plan.SKIP, 0), (Plan.COMPUTE, 3)])
def test_what_the_output_holds_is_not_written_again(guarantee: Guarantee, plan: Plan, dropped: int) -> None:
    session, work = Noted(plan), Counted()
    assert execute(session, work, guarantee)[0] == 0
    assert session.called[-1] == "read_ledger"
    assert work.dropped == dropped
    with pytest.raises(SinkError, match="final"):
        execute(Noted(Plan.REFUSE), work, guarantee)


def test_without_rows_and_without_new_offsets_nothing_is_opened() -> None:
    """E6; a state moves on without rows, so then it is looked for rows in the transaction."""
    session = Noted()
    assert execute(session, Counted(rows=0), end=5)[0] == 0
    assert session.called == ["own", "read_ledger"]
    stateful = Noted()
    assert execute(stateful, Counted(rows=0, stateful=True), end=5)[0] == 0
    assert stateful.called == ["own", "read_ledger", "begin", "plan_write", "prepare", "abort"]
    assert execute(Noted(), Counted(rows=0), end=6)[1][-1] is CommitStep.COMMITTED


@pytest.mark.parametrize("place", ["begin", "plan_write", "prepare", "write_ledger", "commit"])
def test_what_may_pass_is_undone_and_run_again(place: str) -> None:
    session = Noted(failing={place: [AGAIN, AGAIN]})
    assert execute(session)[0] == 3
    assert session.called.count("abort") == 2
    assert " ".join(session.called).endswith(f"abort {WHOLE}")


def test_a_failed_job_is_run_again_and_any_other_error_is_not() -> None:
    session = Noted()
    assert execute(session, Counted(failing=[JobFailed("lost"), JobFailed("lost")]))[0] == 3
    assert session.called.count("own") == 3
    with pytest.raises(ZeroDivisionError):
        execute(Noted(), Counted(failing=[ZeroDivisionError()]))


@pytest.mark.parametrize(
    ("errors", "again", "told", "runs"),
    [
        ([FENCED], True, "fenced at once", 1),
        ([FINAL], True, "final at once", 1),
        ([AGAIN], False, "again at once", 1),
        ([AGAIN] * RUNS_MAX, True, "again at last", RUNS_MAX),
    ],
)
def test_the_last_error_is_explained(errors: list[Exception], again: bool, told: str, runs: int) -> None:
    session = Noted(failing={"write_ledger": errors})
    with pytest.raises(SinkError, match=told):
        execute(session, Counted(again=again))
    assert session.called.count("own") == session.called.count("abort") == runs


@pytest.mark.parametrize("guarantee", [Guarantee.EXACTLY_ONCE, Guarantee.AT_MOST_ONCE])
def test_an_unknown_outcome_is_left_as_it_is(guarantee: Guarantee) -> None:
    """E3: an abort could undo nothing, and might end what somebody else has begun."""
    session = Noted(failing={"commit": [UNKNOWN]})
    with pytest.raises(OutcomeUnknownError):
        execute(session, guarantee=guarantee)
    assert session.called[-1] == "commit"


def test_at_most_once_never_writes_rows_whose_ledger_is_not_committed() -> None:
    session = Noted(failing={"commit": [AGAIN]})
    with pytest.raises(SinkError, match="again at last"):
        execute(session, guarantee=Guarantee.AT_MOST_ONCE)
    assert "prepare" not in session.called

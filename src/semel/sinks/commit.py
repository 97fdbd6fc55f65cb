"""One micro-batch, from rows to a commit, in the order that its guarantee needs; for every sink.

- EXACTLY_ONCE: own, read the ledger, open, write rows, write offsets, commit: rows and offsets in one transaction.
- AT_LEAST_ONCE: write rows, then the ledger. A crash in between writes the rows again.
- AT_MOST_ONCE: write the ledger, then rows, and never a row twice. A crash in between loses the rows.

Before any of that `semel.sinks.recovery` decides whether the micro-batch is run at all. A test that wants to see that a
crash between two steps does no harm can stop the process there: `on_step` is called after every step.

Keeps: E1 to E7, E9, E10 and E13 to E18 of docs/DESIGN.md.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol, assert_never

from semel.errors import SemelError
from semel.guarantee import Guarantee
from semel.sinks.base import (
    RUNS_MAX,
    CommitStep,
    ErrorKind,
    MicroBatch,
    OnStep,
    Results,
    RowsAhead,
    SinkSession,
    WritePlan,
)
from semel.sinks.recovery import Plan

log = logging.getLogger("semel.sinks")


class Work(Protocol):
    """The rows of a micro-batch, and somebody who can carry out a plan with them."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What a job may fail with beside errors of semel's."""

    @property
    def checkpoint(self) -> str:
        """The folder of the query's checkpoint; empty for a batch job."""

    def ahead(self) -> RowsAhead:
        """What is known of the rows."""

    def carry_out(self, plan: WritePlan) -> Results:
        """Run the stages; gives what the tasks of the last one gave."""

    def wrote(self, rows: int) -> None:
        """Tell how many rows were written, for the query's progress."""

    def has_no_rows(self) -> bool:
        """Look whether there is any row."""

    def drop_rows(self) -> int:
        """Compute every row for its effect on the state, and write none; gives how many."""

    def is_stateful(self) -> bool:
        """Whether computing the rows changes a state."""

    def may_run_again(self) -> bool:
        """Whether the rows may be computed a second time by this driver."""

    def words_of(self, error: Exception) -> str:
        """An error in a few words, for the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One micro-batch of one session."""

    session: SinkSession
    micro_batch: MicroBatch
    work: Work
    on_step: OnStep

    def execute(self) -> int:
        """Carry the micro-batch out; gives how many rows were written, 0 when it was done before."""
        match self.micro_batch.guarantee:
            case Guarantee.EXACTLY_ONCE:
                return self._exactly_once()
            case Guarantee.AT_LEAST_ONCE:
                return self._at_least_once()
            case Guarantee.AT_MOST_ONCE:
                return self._at_most_once()
            case _:
                assert_never(self.micro_batch.guarantee)

    # --- exactly once

    def _exactly_once(self) -> int:
        failures: tuple[type[Exception], ...] = (SemelError, *self.work.errors)
        for run in range(1, RUNS_MAX + 1):
            # Again in every run: what attempts of the run before still send has to be refused.
            self.session.own()
            self.on_step(CommitStep.OWNED)
            ledger = self.session.read_ledger(self.micro_batch)
            self.on_step(CommitStep.LEDGER_READ)
            if not self._is_to_be_run():
                return 0
            is_without_offsets = ledger.offsets == self.micro_batch.offsets
            # Spark also runs micro-batches for a watermark or a timeout. Without rows they leave no trace (E6).
            if is_without_offsets and not self.work.is_stateful() and self.work.has_no_rows():
                return 0
            try:
                return self._commit_rows(run, may_be_empty=is_without_offsets)
            except failures as error:
                self._recover(error, run)
        raise AssertionError("the last run raises")

    def _commit_rows(self, run: int, *, may_be_empty: bool) -> int:
        # Before any row is written, so that an abort reaches every place that rows may go to.
        self.session.begin()
        self.on_step(CommitStep.OPENED)
        total = self._write_rows(self._plan(run))
        self.on_step(CommitStep.ROWS_WRITTEN)
        if may_be_empty and total == 0:
            self.session.abort()  # E6: no rows and no new offsets leave no trace
            return 0
        # After the rows, in the same transaction: a ledger that is visible has all its rows.
        self.session.write_ledger(self.micro_batch)
        self.on_step(CommitStep.OFFSETS_WRITTEN)
        self.session.commit()
        self.on_step(CommitStep.COMMITTED)
        return total

    def _recover(self, error: Exception, run: int) -> None:
        """Undo a run that failed and decide whether there is another."""
        # Nothing is touched: the commit may have happened, and the next start finds it in the ledger.
        if self.session.classify(error) is ErrorKind.UNKNOWN:
            raise error
        try:
            self.session.abort()
        except SemelError as second:
            raise error from second
        # Asked again: a transaction that timed out says so only when it is to be ended.
        kind = self.session.classify(error)
        is_last_run = run == RUNS_MAX
        if kind is not ErrorKind.AGAIN or is_last_run or not self.work.may_run_again():
            told = self.session.explain(error, self.micro_batch, kind=kind, is_last_run=is_last_run)
            if told is error:
                raise error
            raise told from error
        words = self.work.words_of(error)
        log.warning("micro-batch %d is run again (%d of %d): %s", self.micro_batch.id, run, RUNS_MAX, words)

    # --- the other two guarantees: the same functions in another order

    def _at_least_once(self) -> int:
        self.session.read_ledger(self.micro_batch)
        self.on_step(CommitStep.LEDGER_READ)
        if not self._is_to_be_run():
            return 0
        total = self._write_rows(self._plan())
        self.on_step(CommitStep.ROWS_WRITTEN)
        # After the rows: a crash in between repeats them, which this guarantee allows, and loses none.
        self.session.commit_ledger(self.micro_batch)
        self.on_step(CommitStep.COMMITTED)
        return total

    def _at_most_once(self) -> int:
        """The ledger first, in a transaction of its own: of two drivers only one gets to write the rows."""
        self.session.own()
        self.on_step(CommitStep.OWNED)
        self.session.read_ledger(self.micro_batch)
        self.on_step(CommitStep.LEDGER_READ)
        if not self._is_to_be_run():
            return 0
        # Planned before the ledger says that it is done: rows that cannot be written are refused while nothing is lost.
        plan = self._plan()
        try:
            self.session.write_ledger(self.micro_batch)
            self.on_step(CommitStep.OFFSETS_WRITTEN)
            self.session.commit()
        except SemelError as error:
            # As the last run, so it always raises: whether the ledger was written decides what may follow.
            self._recover(error, RUNS_MAX)
        self.on_step(CommitStep.COMMITTED)
        total = self._write_rows(plan)
        self.on_step(CommitStep.ROWS_WRITTEN)
        return total

    # --- what all three do

    def _plan(self, run: int = 1) -> WritePlan:
        return self.session.plan_write(self.micro_batch, self.work.ahead(), run=run)

    def _write_rows(self, plan: WritePlan) -> int:
        total = self.session.prepare(self.work.carry_out(plan))
        self.work.wrote(total)
        return total

    def _is_to_be_run(self) -> bool:
        """Ask `recovery`; a micro-batch that the output holds is skipped or only computed for its state, and logged."""
        name, number = self.micro_batch.pipeline, self.micro_batch.id
        decision = self.session.decide(
            self.micro_batch, is_stateful=self.work.is_stateful(), checkpoint=self.work.checkpoint
        )
        log.debug("micro-batch %d of %s: %s (%s)", number, name, decision.action, decision.row)
        match decision.action:
            case Plan.RUN:
                return True
            case Plan.SKIP:
                log.info("micro-batch %d of %s is not written again: %s", number, name, decision.reason)
                return False
            case Plan.COMPUTE:
                # Spark has to run every task of it, or the state store lacks this version at the next start.
                log.info(
                    "micro-batch %d of %s was computed for its state and %d rows dropped: %s",
                    number,
                    name,
                    self.work.drop_rows(),
                    decision.reason,
                )
                return False
            case Plan.REFUSE:
                assert decision.error is not None
                raise decision.error
            case _:
                assert_never(decision.action)

"""What the next start would do, and why: the sink's own decision, over the facts that a start would find.

A start goes through the same questions in the same order: does the source still find what it stood at, does the
checkpoint belong to this pipeline, does the output exist, is the ledger decided, and then `sinks.recovery.decide`. What
a checkpoint does not say (options of the source, whether a new query keeps state) is answered both ways.

Pure: facts in, forecasts out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from semel.errors import ConfigError, OutcomeUnknownError, SemelError
from semel.guarantee import Anomaly
from semel.pipeline.facts import LedgerState
from semel.pipeline.folder import CheckpointFolder
from semel.pipeline.starts import Question, Start, expired, new_starts, next_one, pending
from semel.sinks.base import MicroBatch
from semel.sinks.kafka.settling import ending_unknown
from semel.sinks.recovery import Decision, Plan, Situation, decide
from semel.spark.data_loss import DataLossError, Loss
from semel.spark.offset_log import check_claim

NOTHING_OPEN = "nothing of its last transaction is open"
LOSS_ACCEPTED = 'the source has .option("failOnDataLoss", "false")'


class Expected(StrEnum):
    """What a start would do: what the sink decides, or that nobody can tell."""

    RUN = "run"
    SKIP = "skip"
    COMPUTE = "compute"
    REFUSE = "refuse"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What one start, or one micro-batch of it, would do."""

    start: str
    """Which start it is about: `this checkpoint`, or a new one with its startingOffsets."""
    condition: str = ""
    """What must be so for this to hold; empty when nothing has to be."""
    expected: Expected
    row: str
    """The row of the decision table in DESIGN; `source`, `claim`, `owner`, `output`, `ledger`: what comes before it."""
    reason: str
    error: SemelError | None = None
    micro_batch: MicroBatch | None = None
    is_waiting: bool = False
    """Nothing is new: it happens with the next record."""


def forecast(question: Question) -> list[Forecast]:
    """Say what the next start would do; several answers where it depends on what is not known here."""
    facts, checkpoint = question.facts, question.checkpoint
    try:
        if checkpoint is not None:
            check_claim(checkpoint.owners, facts.name, checkpoint.next_id, str(checkpoint.path))
    except ConfigError as error:
        return [_refusal("this checkpoint", "claim", error)]
    # Who is declared at least once owns nothing, and so is not stopped by what is open.
    if question.guarantee.allows(Anomaly.DUPLICATED):
        return _of_starts(question)
    if facts.not_looked:
        found = [replace(one, condition=_both(one.condition, NOTHING_OPEN)) for one in _of_starts(question)]
        return [_not_looked(question), *found]
    unsettled = facts.unsettled
    if unsettled is not None and unsettled.outcome is None:
        return [_refusal("every start", "owner", ending_unknown(facts.name, unsettled, facts.bootstrap))]
    return _of_starts(question)


def _of_starts(question: Question) -> list[Forecast]:
    """What is decided once the pipeline is taken over."""
    checkpoint = question.checkpoint
    if checkpoint is None:
        return [found for one in new_starts(question, "") for found in _judged(question, one)]
    # A folder that Spark has made and never used: the query has an id already.
    if checkpoint.last_planned is None:
        starts = new_starts(question, checkpoint.query_id)
        return [found for one in starts for found in _judged(question, one)]
    return _of_checkpoint(question, checkpoint)


def _of_checkpoint(question: Question, checkpoint: CheckpointFolder) -> list[Forecast]:
    """The micro-batch that is pending, and after one that is passed over the next; or the next at once."""
    found: list[Forecast] = []
    if checkpoint.pending is not None:
        found = _judged(question, pending(question, checkpoint, checkpoint.pending))
        # One that is written moves the ledger and takes time: what comes after it depends on what the source has by
        # then.
        if found[-1].expected not in (Expected.SKIP, Expected.COMPUTE):
            return found
    position = checkpoint.position
    assert position is not None
    return found + _judged(question, next_one(question, checkpoint, position))


def _judged(question: Question, start: Start) -> list[Forecast]:
    """The source's plan, then the sink, then the tasks; where an option of the source decides, both ways."""
    found: list[Forecast] = []
    if start.losses:
        found.append(_stopped(start, start.losses))
        start = replace(start, condition=_both(start.condition, LOSS_ACCEPTED))
    sink = _by_sink(question, start, start.micro_batch)
    knowing = sink if start.knows_pipeline is None else _by_sink(question, start, start.knows_pipeline)
    # Whether the source was given the pipeline's name is in its options, and those are not in the checkpoint.
    if knowing.row != sink.row:
        option = f'.option("ledger", "{question.facts.name}")'
        sink = replace(sink, condition=_both(start.condition, f"the source has no {option}"))
        return [*found, sink, replace(knowing, condition=_both(start.condition, f"the source has {option}"))]
    # What is skipped or refused reads no records, so it misses none.
    missed = expired(question.facts, start.micro_batch) if sink.expected in (Expected.RUN, Expected.COMPUTE) else []
    if missed and not start.losses:
        return [_stopped(start, missed), replace(sink, condition=_both(start.condition, LOSS_ACCEPTED))]
    return [*found, sink]


def _stopped(start: Start, losses: Sequence[Loss]) -> Forecast:
    return replace(_refusal(start.name, "source", DataLossError.of(losses)), condition=start.condition)


def _both(one: str, other: str) -> str:
    return f"{one} and {other}" if one else other


def _by_sink(question: Question, start: Start, micro_batch: MicroBatch) -> Forecast:
    facts = question.facts
    missing = [name for name in facts.outputs if name not in facts.topics]
    if missing:
        gone = ConfigError(f"the output topic {missing[0]!r} does not exist")
        return replace(_refusal(start.name, "output", gone), condition=start.condition)
    # An open transaction is no obstacle: the start fences its driver and aborts it, which decides the entries.
    if facts.ledger_state is LedgerState.UNDECIDED and not facts.is_open:
        return _undecided(start, question)
    if facts.ledger.is_empty and facts.output_holds_records is None and micro_batch.id == 0:
        return Forecast(
            start=start.name,
            condition=start.condition,
            expected=Expected.UNKNOWN,
            row="output",
            reason="the pipeline has no ledger: it begins if its output has no records and is refused otherwise; name "
            "the output topics with --output",
        )
    decision = decide(
        Situation(
            ledger=facts.ledger,
            micro_batch=micro_batch,
            evidence=facts.evidence,
            targets=facts.outputs,
            is_stateful=start.is_stateful,
            checkpoint=str(question.checkpoint.path) if question.checkpoint is not None else "",
            status_command=question.status_command,
            reset_command=question.reset_command,
        )
    )
    return _of_decision(start, micro_batch, decision)


def _of_decision(start: Start, micro_batch: MicroBatch, decision: Decision) -> Forecast:
    meant = {
        Plan.RUN: Expected.RUN,
        Plan.SKIP: Expected.SKIP,
        Plan.COMPUTE: Expected.COMPUTE,
        Plan.REFUSE: Expected.REFUSE,
    }
    return Forecast(
        start=start.name,
        condition=start.condition,
        expected=meant[decision.action],
        row=decision.row,
        reason=decision.reason,
        error=decision.error,
        micro_batch=micro_batch,
        is_waiting=start.is_waiting,
    )


def _not_looked(question: Question) -> Forecast:
    """E21: a start asks the same leaders, and is refused if they do not answer it either."""
    facts = question.facts
    error = OutcomeUnknownError(
        f"pipeline {facts.name!r}: nobody could look whether its last transaction has left something open",
        because=facts.not_looked,
        you_want=f"a leader for every partition that is asked; then {question.status_command}",
    )
    return Forecast(start="every start", expected=Expected.UNKNOWN, row="owner", reason=error.summary, error=error)


def _undecided(start: Start, question: Question) -> Forecast:
    """E12: a start does not take an undecided entry for one that is not there."""
    facts = question.facts
    state = "no transaction of this name is known" if facts.owner is None else f"its transaction is {facts.owner.state}"
    error = OutcomeUnknownError(
        f"pipeline {facts.name!r}: its ledger has entries of a transaction that is not decided",
        because=f"{state}: it is being ended now, or its end never came, which the next start makes good if it can "
        "tell how it ended; or a producer of another name writes to this group",
        you_want=f"look again in a minute; if it stays so: {question.repair_command} --dry-run",
    )
    return Forecast(
        start=start.name,
        condition=start.condition,
        expected=Expected.UNKNOWN,
        row="ledger",
        reason=error.summary,
        error=error,
    )


def _refusal(start: str, row: str, error: SemelError) -> Forecast:
    return Forecast(start=start, expected=Expected.REFUSE, row=row, reason=error.summary, error=error)

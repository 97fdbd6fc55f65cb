"""How `semel pipeline` shows people what it found; the same as JSON is in pipeline_json.py."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from semel.cli.output import render_table
from semel.cli.pipeline_json import ending_word, output_rows, source_rows
from semel.pipeline.facts import LedgerState, PipelineFacts
from semel.pipeline.folder import CheckpointFolder
from semel.pipeline.forecast import Forecast
from semel.pipeline.plan import ResetPlan
from semel.pipeline.starts import Question, is_semel
from semel.sinks.commands import repair_command
from semel.sinks.kafka.settling import Unsettled
from semel.sinks.run_ids import QUERY_PREFIX
from semel.wire.topology import TopicPartition

LABEL_WIDTH = 12


def render_status(question: Question, found: list[Forecast]) -> str:
    """Everything, side by side, and last what the next start would do."""
    facts, checkpoint = question.facts, question.checkpoint
    parts = [
        f"pipeline {facts.name}, declared {question.guarantee}",
        render_known(facts),
        _line("checkpoint", *_checkpoint_texts(checkpoint)),
    ]
    rows = _source_rows(facts, checkpoint)
    if rows:
        parts += ["", render_table(["partition", "earliest", "output", "checkpoint", "latest", "lag"], rows)]
    parts += ["", *(_output_text(facts, name) for name in facts.outputs)]
    parts += ["", "next start", *(text for one in found for text in _forecast_texts(one))]
    if not found:
        parts.append(
            "  not known: the ledger has no offsets of a Kafka topic that this user may describe; name the checkpoint "
            "with --checkpoint"
        )
    return "\n".join(parts)


def render_known(facts: PipelineFacts) -> str:
    """The ledger and the owner."""
    return "\n".join([_line("ledger", *_ledger_texts(facts)), _line("owner", _owner_text(facts))])


def render_unsettled(name: str, found: Unsettled | None) -> str:
    """What a decided transaction has left open."""
    if found is None:
        return f"pipeline {name}: nothing is open"
    ending = "nothing tells; say it with --as" if found.outcome is None else ending_word(found.outcome)
    lines = [_line("open", *map(str, (*found.rows, *found.entries))), _line("ended", f"{ending} ({found.why})")]
    return "\n".join([f"pipeline {name}: its last transaction is decided, and still open", *lines])


def _line(label: str, *texts: str) -> str:
    return "\n".join(
        f"{label if number == 0 else '':<{LABEL_WIDTH}}{text}" for number, text in enumerate(texts or ("-",))
    )


def _ledger_texts(facts: PipelineFacts) -> list[str]:
    last = facts.ledger.last
    if last is None:
        return ["none" if facts.ledger_state is LedgerState.NONE else "undecided: its first commit has no end"]
    texts = [
        f"{facts.ledger_state}: commit {last.number} was micro-batch {last.micro_batch_id} of query {last.query_id}",
        f"into {', '.join(last.targets) or 'topics that it does not name'}",
    ]
    if last.query_id.startswith(QUERY_PREFIX):
        texts.append("of batch jobs: each run is remembered in a group of its own")
    # Kafka deletes offsets with their topic, but not before its coordinator hears of it.
    gone = [
        place
        for place, held in facts.source_entries.items()
        if place not in facts.positions and (place.topic in facts.topics or held.topic_id)
    ]
    if gone:
        texts.append(f"entries of topics that were deleted, or created again: {', '.join(map(str, sorted(gone)))}")
    return texts


def _owner_text(facts: PipelineFacts) -> str:
    owner = facts.owner
    if owner is None:
        return "none: nobody wrote in a transaction under this name, or it was long ago"
    opened = "no transaction is open"
    if facts.is_open:
        since = datetime.fromtimestamp(owner.started_ms / 1000, tz=UTC).isoformat(timespec="seconds")
        opened = f"a transaction is open since {since}; a start, or a reset, aborts it and fences its driver"
    elif facts.not_looked:
        opened = f"whether its last transaction has left something open could not be looked at ({facts.not_looked})"
    elif facts.unsettled is not None:
        opened = _unsettled_text(facts, facts.unsettled)
    return f"producer {owner.producer_id}, producer epoch {owner.producer_epoch}, {owner.state}: {opened}"


def _unsettled_text(facts: PipelineFacts, found: Unsettled) -> str:
    """Lost markers: readers of these partitions wait, although the coordinator calls the transaction complete (E21)."""
    repair = repair_command(facts.name, facts.bootstrap)
    if found.outcome is None:
        return (
            f"its last transaction is still open on {found}, and nothing tells how it ended ({found.why}): a start is "
            f"refused until {repair} --as committed, or --as aborted"
        )
    return (
        f"its last transaction is decided ({ending_word(found.outcome)}) and still open on {found}: the next start "
        f"ends it, or {repair}"
    )


def _checkpoint_texts(checkpoint: CheckpointFolder | None) -> list[str]:
    if checkpoint is None:
        return ["not named (--checkpoint DIR)"]
    position = checkpoint.position
    kind = "keeps state" if checkpoint.is_stateful else "keeps no state"
    planned, committed = checkpoint.last_planned, checkpoint.last_committed
    texts = [
        str(checkpoint.path),
        f"query {checkpoint.query_id} {kind}; pipeline {', '.join(checkpoint.owners) or 'not named in it'}",
        f"last planned micro-batch {_or_none(planned)}, last done {_or_none(committed)}",
    ]
    if position is not None:
        source = "semel's source" if is_semel(position) else "Spark's own source"
        form = "a source without Kafka offsets" if position.offsets is None else source
        texts.append(f"offset log {checkpoint.log_version}, written by {form}")
    return texts


def _or_none(number: int | None) -> str:
    return "none" if number is None else str(number)


def _source_rows(facts: PipelineFacts, checkpoint: CheckpointFolder | None) -> list[list[str]]:
    return [
        [
            str(TopicPartition(str(row["topic"]), int(str(row["partition"])))),
            _cell(row["earliest"]),
            _held_cell(row),
            _cell(row["checkpoint"]),
            _cell(row["latest"]),
            _cell(row["lag"]),
        ]
        for row in source_rows(facts, checkpoint)
    ]


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def _held_cell(row: Mapping[str, object]) -> str:
    if row["output_next"] is None:
        return "-"
    first = "?" if row["output_first"] is None else row["output_first"]
    return f"{first} to {row['output_next']}"


def _output_text(facts: PipelineFacts, name: str) -> str:
    row = next(one for one in output_rows(facts) if one["topic"] == name)
    if not row["exists"]:
        return f"output {name}: does not exist"
    return f"output {name}: {row['partitions']} partitions, {row['offsets']} offsets"


def _forecast_texts(one: Forecast) -> list[str]:
    number = f" micro-batch {one.micro_batch.id}" if one.micro_batch is not None else ""
    when = " as soon as there is something to read" if one.is_waiting else ""
    condition = f", if {one.condition}" if one.condition else ""
    texts = [f"  {one.start}{condition}:", f"    {one.expected}{number}{when} ({one.row}): {one.reason}"]
    if one.error is not None:
        labelled = (("because", one.error.because), ("you want", one.error.you_want))
        texts += [f"      {label:<9} {text}" for label, text in labelled if text]
    return texts


def render_plan(plan: ResetPlan, facts: PipelineFacts) -> str:
    """What a reset would do, partition by partition."""
    rows = [
        [
            str(one.place),
            _cell(one.output_next),
            _cell(one.checkpoint_next),
            str(one.goes_to),
            str(one.repeated),
            str(one.lost),
        ]
        for one in plan.moves
    ]
    table = render_table(["partition", "output ends", "checkpoint", "goes on at", "repeated", "lost"], rows)
    repeated, lost = sum(one.repeated for one in plan.moves), sum(one.lost for one in plan.moves)
    end = f"reset {facts.name} to {plan.to}: {repeated} offsets would be repeated, {lost} lost"
    return "\n".join([render_known(facts), "", table, "", end])

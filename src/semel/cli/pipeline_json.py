"""What `semel pipeline` found, as JSON with stable names: docs/guide/operations.md lists them."""

from __future__ import annotations

from semel.errors import SemelError
from semel.pipeline.facts import PipelineFacts
from semel.pipeline.folder import CheckpointFolder
from semel.pipeline.forecast import Expected, Forecast
from semel.pipeline.plan import ResetPlan
from semel.pipeline.starts import Question, is_semel
from semel.sinks.kafka.settling import Unsettled
from semel.sinks.ledger import UNKNOWN_OFFSET
from semel.sinks.run_ids import QUERY_PREFIX

SCHEMA = 1


def status_json(question: Question, found: list[Forecast]) -> dict[str, object]:
    """The whole status."""
    facts = question.facts
    return {
        "schema": SCHEMA,
        "pipeline": facts.name,
        "guarantee": question.guarantee.value,
        "ledger": _ledger_json(facts),
        "owner": _owner_json(facts),
        "checkpoint": _checkpoint_json(question.checkpoint),
        "sources": source_rows(facts, question.checkpoint),
        "outputs": output_rows(facts),
        "next": [_forecast_json(one) for one in found],
    }


def reset_json(plan: ResetPlan, facts: PipelineFacts, *, is_done: bool) -> dict[str, object]:
    """What a reset did, or would do."""
    return {
        "schema": SCHEMA,
        "pipeline": facts.name,
        "to": plan.to.value,
        "done": is_done,
        "moves": [
            {
                "topic": one.place.topic,
                "partition": one.place.partition,
                "output_next": one.output_next,
                "checkpoint": one.checkpoint_next,
                "goes_to": one.goes_to,
                "repeated": one.repeated,
                "lost": one.lost,
            }
            for one in plan.moves
        ],
    }


def release_json(facts: PipelineFacts) -> dict[str, object]:
    """What was given up."""
    return {
        "schema": SCHEMA,
        "pipeline": facts.name,
        "released": True,
        "ledger": _ledger_json(facts),
        "owner": _owner_json(facts),
    }


def _ledger_json(facts: PipelineFacts) -> dict[str, object]:
    last = facts.ledger.last
    return {
        "state": facts.ledger_state.value,
        "last": None
        if last is None
        else {
            "query": last.query_id,
            "micro_batch": last.micro_batch_id,
            "number": last.number,
            "outputs": list(last.targets),
            "of_batch_jobs": last.query_id.startswith(QUERY_PREFIX),
        },
        "entries": [
            {
                "topic": place.topic,
                "partition": place.partition,
                # Not every source says where it began.
                "first": None if held.offset_first == UNKNOWN_OFFSET else held.offset_first,
                "next": held.offset_next,
                "topic_id": held.topic_id or None,
            }
            for place, held in sorted(facts.ledger.held.items())
        ],
    }


def _owner_json(facts: PipelineFacts) -> dict[str, object] | None:
    owner = facts.owner
    if owner is None:
        return None
    return {
        "producer_id": owner.producer_id,
        "producer_epoch": owner.producer_epoch,
        "state": owner.state,
        "open_since_ms": owner.started_ms if facts.is_open else None,
        "timeout_ms": owner.timeout_ms,
        # Not an empty list: whoever reads that takes it for an answer.
        "unsettled": None if facts.not_looked else _places(facts.unsettled),
        "unsettled_unknown": facts.not_looked or None,
    }


def _checkpoint_json(checkpoint: CheckpointFolder | None) -> dict[str, object] | None:
    if checkpoint is None:
        return None
    position = checkpoint.position
    return {
        "folder": str(checkpoint.path),
        "pipelines": list(checkpoint.owners),
        "query": checkpoint.query_id,
        "keeps_state": checkpoint.is_stateful,
        "last_planned": checkpoint.last_planned,
        "last_committed": checkpoint.last_committed,
        "offset_log": checkpoint.log_version or None,
        # Both sources write the same offsets; only semel's notes ids beside them.
        "source_format": None if position is None or position.offsets is None else _format(checkpoint),
        "planned": _position_json(checkpoint, checkpoint.last_planned),
        "committed": _position_json(checkpoint, checkpoint.last_committed),
    }


def _format(checkpoint: CheckpointFolder) -> str:
    return "semel" if checkpoint.position is not None and is_semel(checkpoint.position) else "kafka"


def _position_json(checkpoint: CheckpointFolder, number: int | None) -> dict[str, dict[str, int]] | None:
    """Offsets the way Spark writes them: topic, partition, offset."""
    offsets = None if number is None else checkpoint.log.planned(number).offsets
    if offsets is None:
        return None
    nested: dict[str, dict[str, int]] = {}
    for place, offset in sorted(offsets.items()):
        # Text, since keys of JSON objects are.
        nested.setdefault(place.topic, {})[str(place.partition)] = offset
    return nested


def source_rows(facts: PipelineFacts, checkpoint: CheckpointFolder | None) -> list[dict[str, object]]:
    """Each source partition: where the topic begins and ends, the output and the checkpoint stand."""
    position = checkpoint.position if checkpoint is not None else None
    planned = (position.offsets if position is not None else None) or {}
    entries = facts.source_entries
    topics = {one.topic for one in planned} | {one.topic for one in entries}
    rows: list[dict[str, object]] = []
    for place in sorted({*facts.partitions_of(topics), *planned, *entries}):
        held = entries.get(place) if place in facts.positions else None
        latest = facts.latest.get(place)
        # Of a partition that the output does not have yet, everything is behind.
        lag = None if latest is None else max(0, latest - (facts.earliest[place] if held is None else held.offset_next))
        rows.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "exists": facts.exists(place),
                "earliest": facts.earliest.get(place),
                "output_first": None if held is None or held.offset_first == UNKNOWN_OFFSET else held.offset_first,
                "output_next": None if held is None else held.offset_next,
                "checkpoint": planned.get(place),
                "latest": latest,
                "lag": lag,
            }
        )
    return rows


def output_rows(facts: PipelineFacts) -> list[dict[str, object]]:
    """Each output topic, and how much it holds."""
    rows: list[dict[str, object]] = []
    for name in facts.outputs:
        places = facts.partitions_of([name])
        rows.append(
            {
                "topic": name,
                "exists": name in facts.topics,
                "partitions": len(places),
                "offsets": sum(facts.latest[one] - facts.earliest[one] for one in places),
            }
        )
    return rows


def repair_json(name: str, found: Unsettled | None, *, is_done: bool) -> dict[str, object]:
    """What was open, and how it ended."""
    return {
        "schema": SCHEMA,
        "pipeline": name,
        "done": is_done,
        "open": _places(found),
        "outcome": None if found is None or found.outcome is None else ending_word(found.outcome),
        "because": None if found is None else found.why,
    }


def _places(found: Unsettled | None) -> list[str]:
    return [] if found is None else [str(place) for place in (*found.rows, *found.entries)]


def ending_word(is_commit: bool) -> str:
    """How a transaction ended."""
    return "committed" if is_commit else "aborted"


def _forecast_json(one: Forecast) -> dict[str, object]:
    micro_batch = one.micro_batch
    return {
        "start": one.start,
        "condition": one.condition or None,
        "expected": one.expected.value,
        "row": one.row,
        "micro_batch": None if micro_batch is None else micro_batch.id,
        "is_replay": None if micro_batch is None else micro_batch.is_replay,
        "is_waiting": one.is_waiting,
        "reason": one.reason,
        **_error_json(one.error if one.expected in (Expected.REFUSE, Expected.UNKNOWN) else None),
    }


def _error_json(error: SemelError | None) -> dict[str, object]:
    return {
        "because": None if error is None else error.because or None,
        "you_want": None if error is None else error.you_want or None,
    }

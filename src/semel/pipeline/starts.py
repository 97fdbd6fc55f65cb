"""What a start of a pipeline would plan: what is pending, the micro-batch after that, or the first of a new checkpoint.

The source's side of a forecast, and pure: where it would begin and end, and what it would miss of what it stood at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from semel.guarantee import Guarantee
from semel.pipeline.facts import PipelineFacts
from semel.pipeline.folder import CheckpointFolder
from semel.sinks.base import MicroBatch
from semel.spark import data_loss
from semel.spark.data_loss import Loss
from semel.spark.offset_log import PlannedOffsets
from semel.spark.offsets import SourceOffsets
from semel.wire.topology import TopicPartition

ALWAYS_MS = 1 << 62  # a start that is still to come: whatever is planned now is a replay then
Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One pipeline, as a start would find it."""

    facts: PipelineFacts
    guarantee: Guarantee
    checkpoint: CheckpointFolder | None = None
    status_command: str = ""
    reset_command: str = ""
    repair_command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A start, before anybody judged it."""

    name: str
    micro_batch: MicroBatch
    losses: tuple[Loss, ...] = ()
    condition: str = ""
    is_stateful: bool = False
    is_waiting: bool = False
    knows_pipeline: MicroBatch | None = None
    """The micro-batch that a source plans which knows its pipeline (E15), where that is another one."""


def pending(question: Question, checkpoint: CheckpointFolder, number: int) -> Start:
    """The micro-batch that was planned and is not done: Spark runs it again, as it was planned."""
    facts = question.facts
    micro_batch = checkpoint.log.micro_batch(
        facts.name, checkpoint.query_id, number, question.guarantee, started_ms=ALWAYS_MS
    )
    before = checkpoint.log.before(number)
    # The first micro-batch has none before it; its own entry says where the query began.
    known = (before.known if before is not None else checkpoint.log.planned(number).known) or {}
    return Start(
        name="this checkpoint",
        micro_batch=micro_batch,
        losses=_losses(facts, known, micro_batch.offsets_before or {}),
        is_stateful=checkpoint.is_stateful,
    )


def next_one(question: Question, checkpoint: CheckpointFolder, position: PlannedOffsets) -> Start:
    """The micro-batch after all that is planned: from there up to what there is."""
    facts, begins = question.facts, position.offsets
    number = (checkpoint.last_planned or 0) + 1
    micro_batch = MicroBatch(
        pipeline=facts.name,
        query_id=checkpoint.query_id,
        id=number,
        guarantee=question.guarantee,
        offsets=None if begins is None else _ends(facts, begins),
        offsets_before=begins,
        topic_ids=_ids(facts, position.topic_ids),
        topic_ids_before=position.topic_ids,
        before_digest=position.digest,
    )
    losses = _losses(facts, position.known or {}, begins or {})
    is_waiting = not losses and begins is not None and micro_batch.offsets == begins
    return Start(
        name="this checkpoint",
        micro_batch=micro_batch,
        losses=losses,
        is_stateful=checkpoint.is_stateful,
        is_waiting=is_waiting,
        knows_pipeline=_up_to_output(facts, micro_batch) if is_semel(position) else None,
    )


def new_starts(question: Question, query_id: str) -> list[Start]:
    """An unused checkpoint, from each of the three positions, for a query without state and one with it."""
    facts = question.facts
    if facts.ledger.is_empty:  # then it does not matter where it starts, or whether it keeps state
        new = MicroBatch(pipeline=facts.name, query_id=query_id, id=0, guarantee=question.guarantee, offsets={})
        return [Start(name="a new checkpoint", micro_batch=new)]
    places = facts.partitions_of(one.topic for one in facts.source_entries)
    earliest = {one: facts.earliest[one] for one in places}
    latest = {one: facts.latest[one] for one in places}
    found: list[Start] = []
    for name, begins in (("earliest", earliest), ("latest", latest), ("ledger", earliest | facts.positions)):
        micro_batch = MicroBatch(
            pipeline=facts.name,
            query_id=query_id,
            id=0,
            guarantee=question.guarantee,
            # A position may lie behind the end of a log that has lost records; no range goes backwards.
            offsets={one: max(latest[one], begins[one]) for one in places},
            offsets_before=begins,
            topic_ids=facts.topic_ids,
        )
        plain = Start(
            name=f'a new checkpoint, startingOffsets="{name}"',
            micro_batch=micro_batch,
            losses=tuple(data_loss.beyond(begins, facts.log_ends)) if name == "ledger" else (),
            condition="the query keeps no state",
            knows_pipeline=_up_to_output(facts, micro_batch) if name == "earliest" else None,
        )
        # Judged apart: a query that keeps state lacks the state that wrote the output (E16).
        found += [plain, replace(plain, is_stateful=True, condition="the query keeps state")]
    return found if places else []


def is_semel(position: PlannedOffsets) -> bool:
    """Whether an entry is of semel's source, which notes more than offsets, and not of Spark's."""
    return any(one.topic_ids or one.leader_epochs or one.start is not None for one in (position.known or {}).values())


def _ids(facts: PipelineFacts, noted: Mapping[str, str]) -> dict[str, str]:
    """Ids that the source would write down: Spark's own writes none."""
    return {topic: facts.topic_ids[topic] for topic in noted if topic in facts.topic_ids}


def _ends(facts: PipelineFacts, begins: Mapping[TopicPartition, int]) -> Offsets:
    """Up to the latest, in every partition that is there; new ones of a topic that is read as a whole included."""
    read = {topic: {one.partition for one in begins if one.topic == topic} for topic in {one.topic for one in begins}}
    # A query that has all partitions of a topic seems to subscribe to it as a whole, and will read new ones as well.
    whole = [topic for topic, numbers in read.items() if numbers == set(range(len(numbers)))]
    places = {one for one in begins if facts.exists(one)} | set(facts.partitions_of(whole))
    return {one: max(facts.latest[one], begins.get(one, 0)) for one in sorted(places)}


def _up_to_output(facts: PipelineFacts, micro_batch: MicroBatch) -> MicroBatch | None:
    """What `StreamPlan` plans when it knows the pipeline and stands behind its output; None when it does not."""
    begins, held = micro_batch.offsets_before or {}, facts.positions
    ends = micro_batch.offsets or {}
    if not any(offset < held.get(one, 0) for one, offset in begins.items()):
        return None
    clipped = {one: max(begins.get(one, 0), min(end, held.get(one, begins.get(one, 0)))) for one, end in ends.items()}
    return replace(micro_batch, offsets={one: end for one, end in clipped.items() if one in begins or one in held})


def _losses(
    facts: PipelineFacts, sources: Mapping[str, SourceOffsets], begins: Mapping[TopicPartition, int]
) -> tuple[Loss, ...]:
    """What the source misses of what it stood at when it plans, before the sink hears of anything."""
    found: list[Loss] = []
    for one in sources.values():
        start = replace(one, offsets_next={place: begins[place] for place in one.offsets_next if place in begins})
        found += data_loss.gone(start, facts.topics)
        changed = data_loss.other_topic_ids(start, facts.topics)
        there = [place for place in start.offsets_next if facts.exists(place)]
        found += data_loss.recreated(
            start, facts.topics, {place: facts.earliest[place] for place in there if place.topic in changed}
        )
        same = {place: start.offsets_next[place] for place in there if place.topic not in changed}
        found += data_loss.beyond(same, facts.log_ends)
    return tuple(found)


def expired(facts: PipelineFacts, micro_batch: MicroBatch) -> list[Loss]:
    """What its tasks would miss: only they read, so the sink has decided before anybody knows."""
    ends = micro_batch.offsets or {}
    return [
        Loss(
            place=place,
            offset_next=offset,
            offset_resume=facts.earliest[place],
            reason="retention, or somebody, has removed what lies before that",
        )
        for place, offset in sorted((micro_batch.offsets_before or {}).items())
        if offset < facts.earliest.get(place, 0) and offset < ends.get(place, 0)
    ]

"""Where a reset would bring a pipeline, partition by partition, and what that repeats or loses. Pure.

`ledger` moves the checkpoint to the output: nothing is repeated and nothing lost, but what the topic has lost itself.
`earliest` and `offsets` move the output's position, on purpose: then the ledger moves too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from semel.errors import ConfigError
from semel.pipeline.facts import LedgerState, PipelineFacts
from semel.pipeline.folder import CheckpointFolder
from semel.pipeline.starts import is_semel
from semel.sinks.ledger import lost_entries
from semel.spark.offset_log import PlannedOffsets
from semel.spark.offsets import SourceOffsets
from semel.wire.offsets import EARLIEST, LATEST
from semel.wire.topology import TopicPartition

Offsets = dict[TopicPartition, int]


class To(StrEnum):
    """Where a pipeline is reset to."""

    LEDGER = "ledger"
    EARLIEST = "earliest"
    OFFSETS = "offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One partition: where the output and the checkpoint are, where both go on, and what lies between."""

    place: TopicPartition
    output_next: int | None
    checkpoint_next: int | None
    goes_to: int
    repeated: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPlan:
    """What a reset would do."""

    to: To
    moves: tuple[Move, ...]

    @property
    def positions(self) -> Offsets:
        """Where each partition goes on."""
        return {one.place: one.goes_to for one in self.moves}


def plan_reset(
    facts: PipelineFacts, checkpoint: CheckpointFolder | None, to: To, offsets: Mapping[TopicPartition, int]
) -> ResetPlan:
    """Hold what is wanted against what there is; ConfigError when it cannot be done."""
    _check_ledger(facts, checkpoint)
    if checkpoint is not None:
        check_movable(checkpoint, facts.name)
    elif to is To.LEDGER:
        raise ConfigError(
            "--to ledger moves a checkpoint to where the output ends, and none is named",
            you_want="--checkpoint DIR",
            because="a new checkpoint folder needs no reset: it begins there with "
            f'.option("startingOffsets", "ledger") and .option("ledger", "{facts.name}")',
        )
    position = _position(checkpoint)
    places = _places(facts, position, to)
    lost = lost_entries(facts.ledger, places, facts.topic_ids)
    # From there on everything is read again, whatever the ledger has lost.
    if to is not To.EARLIEST:
        _check_known(facts.name, [one for one in lost if one not in offsets], to)
    wanted = _wanted(facts, places, to, offsets)
    return ResetPlan(
        to=to, moves=tuple(_move(facts, position, to, one, wanted[one], is_lost=one in lost) for one in sorted(wanted))
    )


def _check_ledger(facts: PipelineFacts, checkpoint: CheckpointFolder | None) -> None:
    if facts.ledger_state is LedgerState.NONE:
        raise ConfigError(
            f"pipeline {facts.name!r} has no ledger, so nobody knows where its output ends",
            because="the name is wrong, it never committed, or its ledger expired or was deleted",
            you_want="the right name; or look at the output and choose KafkaSink(..., ledger_missing=...)",
        )
    position = _position(checkpoint)
    # Kafka deletes entries with their topic: then the checkpoint says what the query reads, and all of it is new.
    if not facts.source_entries and (position is None or position.known is None):
        raise ConfigError(
            f"the ledger of pipeline {facts.name!r} has no offsets of a Kafka topic",
            because="a source other than Kafka, or batch jobs, wrote it: its positions mean nothing to a cluster; or "
            "this user may not describe the source topics, whose offsets Kafka then hides",
            you_want="a user who may describe the source topics, the newest checkpoint of the query, or another "
            "pipeline name and a new output",
        )


def check_movable(checkpoint: CheckpointFolder, pipeline: str) -> None:
    """Refuse a checkpoint that is another's, or that offsets alone do not describe."""
    if checkpoint.owners != (pipeline,):
        known = (
            f"belongs to pipeline {', '.join(map(repr, checkpoint.owners))}"
            if checkpoint.owners
            else "has no pipeline's name"
        )
        raise ConfigError(
            f"the checkpoint {checkpoint.path} {known}: it is not moved to the ledger of {pipeline!r}",
            because="every pipeline has a ledger of its own, and the others of this query would be left behind"
            if pipeline in checkpoint.owners
            else "the sink leaves the name in the file semel-pipeline with the first micro-batch",
            you_want="the checkpoint of this pipeline; a copy needs the file semel-pipeline too",
        )
    if checkpoint.is_stateful:
        raise ConfigError(
            f"the checkpoint {checkpoint.path} is of a query that keeps state: it is not moved",
            because="its state belongs to the offsets it stands at; elsewhere counts and windows would be wrong",
            you_want="the newest checkpoint of this query; or compute everything again: another pipeline name, a new "
            'output topic, a new checkpoint folder and startingOffsets="earliest"',
        )
    if checkpoint.last_planned is None:
        raise ConfigError(
            f"the checkpoint {checkpoint.path} has no micro-batch yet: there is nothing to move",
            you_want='a source of format "semel" with .option("startingOffsets", "ledger") and '
            f'.option("ledger", "{pipeline}"), which begins where the output ends',
        )
    position = checkpoint.position
    if position is None or position.known is None:
        raise ConfigError(
            f"the checkpoint {checkpoint.path} is of a query with a source that has no Kafka offsets: it is not moved",
            because="where that source stood at the end of the output is not known",
            you_want="the newest checkpoint of this query",
        )


def _position(checkpoint: CheckpointFolder | None) -> PlannedOffsets | None:
    return None if checkpoint is None else checkpoint.position


def _places(facts: PipelineFacts, position: PlannedOffsets | None, to: To) -> list[TopicPartition]:
    """The partitions that are moved: those the query reads, as far as they exist; without a checkpoint the ledger's.

    Why not all of a topic: one that neither the ledger nor the checkpoint knows is read from its beginning anyway, or
    is not read at all.
    """
    entries = list(facts.source_entries)
    if position is None:
        return facts.partitions_of(one.topic for one in entries)
    read = set(position.offsets or {})
    topics = {one.topic for one in read}
    if entries and not topics & {one.topic for one in entries}:
        raise ConfigError(
            f"pipeline {facts.name!r} reads {', '.join(sorted({one.topic for one in entries}))}, the query of this "
            f"checkpoint {', '.join(sorted(topics))}",
            you_want="the checkpoint of this pipeline",
        )
    found = sorted(one for one in read | {one for one in entries if one.topic in topics} if facts.exists(one))
    if not found:
        raise ConfigError(f"none of the topics that pipeline {facts.name!r} reads exists any more")
    return found if to is not To.EARLIEST else sorted({*found, *_whole(facts, read)})


def _whole(facts: PipelineFacts, read: set[TopicPartition]) -> list[TopicPartition]:
    """All partitions of topics that are read as a whole."""
    numbers = {topic: {one.partition for one in read if one.topic == topic} for topic in {one.topic for one in read}}
    return facts.partitions_of(topic for topic, known in numbers.items() if known == set(range(len(known))))


def _wanted(
    facts: PipelineFacts, places: list[TopicPartition], to: To, offsets: Mapping[TopicPartition, int]
) -> Offsets:
    earliest = {one: facts.earliest[one] for one in places}
    at_output = earliest | {one: offset for one, offset in facts.positions.items() if one in earliest}
    match to:
        case To.EARLIEST:
            return earliest
        case To.LEDGER:
            _check_within(facts, at_output, "the ledger")
            return at_output
        case To.OFFSETS:
            edges = {EARLIEST: facts.earliest, LATEST: facts.latest}
            unknown = sorted(one for one in offsets if one not in earliest)
            if unknown:
                raise ConfigError(
                    f"--offsets names {unknown[0]}, which pipeline {facts.name!r} does not read",
                    you_want=f"partitions among {', '.join(map(str, places))}",
                )
            given = {one: edges[offset][one] if offset in edges else offset for one, offset in offsets.items()}
            _check_within(facts, given, "--offsets")
            _check_not_before(facts, given)
            return at_output | given


def _check_within(facts: PipelineFacts, offsets: Mapping[TopicPartition, int], what: str) -> None:
    for place, offset in sorted(offsets.items()):
        if offset > facts.log_ends[place]:
            raise ConfigError(
                f"{place} ends at offset {facts.log_ends[place]}, and {what} says {offset}",
                because="records that were there are gone: an election lost them, or the topic was created again",
                you_want="--to offsets with offsets that exist, or --to earliest",
            )


def _check_not_before(facts: PipelineFacts, offsets: Mapping[TopicPartition, int]) -> None:
    for place, offset in sorted(offsets.items()):
        if offset < facts.earliest[place]:
            raise ConfigError(
                f"{place} begins at offset {facts.earliest[place]}, and --offsets says {offset}",
                because="retention, or somebody, has removed what lies before",
                you_want=f"{facts.earliest[place]} or more; -2 is the earliest there is",
            )


def _check_known(pipeline: str, lost: list[TopicPartition], to: To) -> None:
    """Why not the earliest, as for a partition that is new: the output may hold all of it (D22)."""
    if lost:
        raise ConfigError(
            f"the ledger of pipeline {pipeline!r} has no entry of {lost[0]} any more, though its topic is the same",
            because="somebody deleted offsets of that group, or they expired: what the output holds of it is not known",
            you_want='if the checkpoint is untouched: KafkaSink(..., ledger_missing="run") for one start; or '
            + ("--to offsets" if to is To.LEDGER else "--offsets for all of them")
            + ", if you know where the output ends",
        )


def _move(
    facts: PipelineFacts,
    position: PlannedOffsets | None,
    to: To,
    place: TopicPartition,
    goes_to: int,
    *,
    is_lost: bool,
) -> Move:
    held = facts.positions.get(place)
    earliest = facts.earliest[place]
    # Of an entry that was lost nobody knows where the output ends: the most that can be repeated is all of it.
    output_next = held if held is not None else facts.latest[place] if is_lost else earliest
    return Move(
        place=place,
        output_next=held,
        checkpoint_next=None if position is None else (position.offsets or {}).get(place),
        goes_to=goes_to,
        repeated=max(0, output_next - goes_to),
        # What the topic itself has lost is lost wherever the query goes on, and said for --to ledger.
        lost=max(0, earliest - output_next) if to is To.LEDGER else max(0, goes_to - output_next),
    )


def sources_at(
    position: PlannedOffsets, positions: Mapping[TopicPartition, int], ids: Mapping[str, str]
) -> dict[str, SourceOffsets]:
    """The same offsets, source by source, in the form that each source has written before.

    Leader epochs are left out: those of the checkpoint belong to other offsets, and would tell of a log that was cut.
    """
    known = position.known or {}
    notes_more = is_semel(position)
    found: dict[str, SourceOffsets] = {}
    for name, source in known.items():
        # A partition that is new belongs to the source that alone reads its topic. Where two sources do, nobody can
        # tell whose it is.
        alone = {one.topic for one in source.offsets_next} - {
            place.topic for other, rest in known.items() if other != name for place in rest.offsets_next
        }
        mine = {
            place: offset for place, offset in positions.items() if place in source.offsets_next or place.topic in alone
        }
        topics = {place.topic for place in mine}
        found[name] = SourceOffsets(
            offsets_next=mine,
            topic_ids={topic: ids[topic] for topic in sorted(topics) if topic in ids} if notes_more else {},
            # The first entry says where the query began; from here on that is here.
            start=None if source.start is None else mine,
        )
    if any(not one.offsets_next for one in found.values()):
        raise ConfigError("a source of this query reads only topics that do not exist any more")
    return found

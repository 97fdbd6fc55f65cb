"""What to do with a micro-batch: run it, skip it, compute it for its state alone, or refuse it. One pure function.

The ledger says which offsets the output holds; the micro-batch says where it begins and ends. A micro-batch is run only
when it begins exactly where the output ends. It is skipped only when all of it is in the output. Everything else would
lose or repeat records and is refused, with a way out. Ids of micro-batches prove nothing: a checkpoint that was
restored from a backup plans the same id again over another range.

Keeps: E9, E13 to E18 of docs/DESIGN.md. Every `row` is a row of the decision table there, and the tests enumerate them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from semel.errors import ConfigError, OutcomeUnknownError, SemelError
from semel.guarantee import Anomaly
from semel.sinks.base import MicroBatch, setting_words
from semel.sinks.ledger import UNKNOWN_OFFSET, Entry, Ledger, is_held, is_same_topic, lost_entries
from semel.wire.topology import TopicPartition


class Plan(StrEnum):
    """What to do with a micro-batch, or with a run of a batch job."""

    RUN = "run"
    SKIP = "skip"
    COMPUTE = "compute"  # the output has its rows, the state does not have its effect: compute it and drop the rows
    REFUSE = "refuse"


class LedgerMissing(StrEnum):
    """What to do when there is no ledger, although the output holds records (E9)."""

    STOP = "stop"
    RUN = "run"
    SKIP = "skip"


class LostState(StrEnum):
    """What to do when a stateful query takes a pipeline over without the state that wrote the output (E16)."""

    STOP = "stop"
    ACCEPT = "accept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the cluster says beside the ledger."""

    # Ids of source and output topics as they are now; a topic that is not named here is taken to be the one it was.
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    # The first offset of partitions, where a decision needs it.
    earliest: Mapping[TopicPartition, int] = field(default_factory=dict)
    # Whether the output topics hold records, or held some that retention has removed. Asked when there is no ledger.
    output_holds_records: bool = False
    # Whether the cluster was asked for the topics' ids. Where it was not, a topic without an id may be another one.
    is_of_the_cluster: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How a sink calls things, in what a user is told."""

    sink: str = "KafkaSink"
    output: str = "topic"
    # Why a ledger may be gone.
    forgetting: str = (
        "the ledger may have expired (offsets.retention.minutes) or been deleted after the pipeline wrote, "
        "and then it would write again; or somebody else wrote there"
    )
    # Why an output may hold less than its checkpoint has read.
    falling_behind: str = ""
    # How a source begins where the output ends; empty: a source of format "semel" asks Kafka's ledger.
    start_at_ledger: str = ""
    # Whether settings of the sink are options of a format.
    by_option: bool = False

    def setting(self, **values: str) -> str:
        """Settings of the sink as its user writes them."""
        return setting_words(self.sink, values, by_option=self.by_option)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything that a decision is made from."""

    ledger: Ledger
    micro_batch: MicroBatch
    evidence: Evidence
    targets: tuple[str, ...] = ()
    is_stateful: bool = False
    ledger_missing: LedgerMissing = LedgerMissing.STOP
    lost_state: LostState = LostState.STOP
    # Only for words: the checkpoint's folder, the command that shows the whole situation, and the one that lets a
    # checkpoint of this machine go on where the output ends (empty for a checkpoint that lies elsewhere).
    checkpoint: str = ""
    status_command: str = ""
    reset_command: str = ""
    words: Words = Words()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do, by which row of the table, and why; `error` is what a refusal raises."""

    action: Plan
    row: str
    reason: str
    error: SemelError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One partition of a micro-batch, held against the ledger."""

    partition: TopicPartition
    begin: int
    end: int
    held_next: int | None  # None: the ledger knows nothing of this partition, or of this life of its topic
    held_first: int = UNKNOWN_OFFSET
    is_from_beginning: bool = False

    @property
    def is_behind(self) -> bool:
        return self.held_next is not None and self.begin < self.held_next

    @property
    def is_ahead(self) -> bool:
        if self.held_next is None:
            return not self.is_from_beginning
        return self.begin > self.held_next

    @property
    def is_beyond(self) -> bool:
        """Whether it brings something that the output does not hold."""
        return self.end > self.begin if self.held_next is None else self.end > self.held_next

    @property
    def is_partly_missing(self) -> bool:
        """Whether it is known that the output does not hold all that it brings."""
        return UNKNOWN_OFFSET < self.begin < self.held_first and self.end > self.begin

    @property
    def is_covered(self) -> bool:
        """Whether the output is known to hold all that it brings."""
        return self.end <= self.begin or UNKNOWN_OFFSET < self.held_first <= self.begin


def decide(situation: Situation) -> Decision:
    """Decide about a micro-batch of a streaming query."""
    last = situation.ledger.last
    if last is None:
        return _without_ledger(situation)
    # No topic in common. With one in common a topic was added or left out, which a pipeline may do.
    if last.targets and situation.targets and not set(last.targets) & set(situation.targets):
        return _refuse_targets(situation, last)
    gone = _outputs_gone(situation)
    if gone and situation.ledger_missing is not LedgerMissing.RUN:
        return _refuse_other_output(situation, gone)
    if (found := _without_entries(situation)) is not None:
        return found
    if situation.micro_batch.offsets is None:
        return _by_digest(situation, last)
    return _by_offsets(situation, last, situation.micro_batch.offsets)


# --- no ledger


def _without_ledger(situation: Situation) -> Decision:
    micro_batch = situation.micro_batch
    # Both must say so: a checkpoint that was used, or an output with records, means that a ledger was lost.
    if micro_batch.id == 0 and not situation.evidence.output_holds_records:
        return _run("D01", "the pipeline has no ledger and its output has no records: it begins here")
    if micro_batch.guarantee.allows(Anomaly.DUPLICATED):
        return _run("D02", "the pipeline has no ledger; at least once may repeat what the output holds")
    match situation.ledger_missing:
        case LedgerMissing.RUN:
            return _run("D03", 'the pipeline has no ledger; ledger_missing="run" was chosen')
        # Only what was begun before can be in the output already; what is new is written.
        case LedgerMissing.SKIP if micro_batch.is_replay:
            return _pass_over(situation, "D03", 'the pipeline has no ledger; ledger_missing="skip" was chosen')
        case LedgerMissing.SKIP:
            return _run("D03", 'ledger_missing="skip" was chosen, and this micro-batch was not begun before')
        case LedgerMissing.STOP:
            pass
    return _refused(
        "D04",
        OutcomeUnknownError(
            f"pipeline {micro_batch.pipeline!r} has no ledger, but {_traces(situation)}",
            because=situation.words.forgetting,
            you_want=_choices(situation),
            next_command=situation.status_command,
        ),
    )


def _lost(situation: Situation) -> list[TopicPartition]:
    return lost_entries(situation.ledger, situation.micro_batch.offsets or {}, situation.evidence.topic_ids)


def _without_entries(situation: Situation) -> Decision | None:
    """Decide where some entries alone are gone; None when there are none, or when this query is to go on all the same.

    Why it is refused: nobody knows how much of these partitions the output holds, and 0 is as wrong as any offset.
    """
    lost = _lost(situation)
    if not lost or situation.micro_batch.guarantee.allows(Anomaly.DUPLICATED):
        return None
    pipeline = situation.micro_batch.pipeline
    match situation.ledger_missing:
        case LedgerMissing.SKIP if situation.micro_batch.is_replay:
            return _pass_over(situation, "D03", 'entries of the ledger are lost; ledger_missing="skip" was chosen')
        case LedgerMissing.RUN | LedgerMissing.SKIP:
            return None
        case LedgerMissing.STOP:
            pass
    return _refused(
        "D22",
        OutcomeUnknownError(
            f"pipeline {pipeline!r}: its ledger has no entry of {lost[0]} any more, though its topic is the same",
            because=f"offsets of the group {pipeline!r} were deleted, or expired while nobody read that topic: what "
            "the output holds of it is not known",
            you_want=_choices(situation),
            next_command=situation.status_command,
        ),
    )


def _choices(situation: Situation) -> str:
    """The ways out where the ledger is gone, or a part of it."""
    found = (
        f"{_again_from_the_start(situation)}; or, if you have seen that this query begins exactly where the output "
        f"ends, {situation.words.setting(ledger_missing='run')}"
    )
    if not situation.micro_batch.is_replay:
        return found
    seen = "if you have seen that the output has the micro-batch that was begun before"
    return f"{found}; or, {seen}, {situation.words.setting(ledger_missing='skip')}"


def _traces(situation: Situation) -> str:
    if situation.evidence.output_holds_records:
        return f"its output {_names(situation.targets)} has records"
    return f"its checkpoint is at micro-batch {situation.micro_batch.id}"


# --- the ledger names other things than this query


def _refuse_targets(situation: Situation, last: Entry) -> Decision:
    pipeline = situation.micro_batch.pipeline
    return _refused(
        "D05",
        ConfigError(
            f"pipeline {pipeline!r} writes to {_names(last.targets)}, this sink to {_names(situation.targets)}",
            because="the ledger says what is in the output of the first; the second would be taken to hold the same",
            you_want="another pipeline name for this sink",
            next_command=situation.status_command,
        ),
    )


def _outputs_gone(situation: Situation) -> list[str]:
    """Output topics that were deleted since the ledger was written, whether or not others have their names now."""
    home = situation.ledger.home
    if home is None:
        # The first target is where the entry at home stands, see `Targets.home`.
        # Without it that topic was deleted, unless it is a source as well.
        first = TopicPartition(situation.targets[0], 0) if situation.targets else None
        return [] if first in situation.ledger.held else list(situation.targets[:1])
    ids = situation.evidence.topic_ids
    known = (name for name in situation.targets if name in home.output_ids)
    return [name for name in known if not is_same_topic(home.output_ids[name], ids.get(name, ""))]


def _refuse_other_output(situation: Situation, gone: list[str]) -> Decision:
    pipeline = situation.micro_batch.pipeline
    return _refused(
        "D20",
        ConfigError(
            f"pipeline {pipeline!r}: its output {situation.words.output} {gone[0]} was deleted and created again",
            because="the ledger says what was in the deleted one",
            you_want=f"{_again_from_the_start(situation)}; or, to go on without what was deleted, "
            f"{situation.words.setting(ledger_missing='run')}",
            next_command=situation.status_command,
        ),
    )


def _refuse_sources(situation: Situation, reads: str) -> Decision:
    pipeline = situation.micro_batch.pipeline
    return _refused(
        "D06",
        ConfigError(
            f"pipeline {pipeline!r} reads {_topics(situation.ledger.held)}, this query reads {reads}",
            because="two pipelines of one name would share a ledger, and each would fence the other",
            # They have an output in common, or it would be D05: without a ledger of its own the new name would be D04.
            you_want="another pipeline name, in a new checkpoint folder, and, for its first start, since the output "
            f"has records of {pipeline!r}, {situation.words.setting(ledger_missing='run')}",
            next_command=situation.status_command,
        ),
    )


# --- sources without Kafka offsets: their positions are compared as digests


def _by_digest(situation: Situation, last: Entry) -> Decision:
    micro_batch = situation.micro_batch
    if last.query_id != micro_batch.query_id:
        return _refuse_unknown_start(situation, last)
    if last.micro_batch_id == micro_batch.id and last.end_digest == micro_batch.end_digest:
        return _pass_over(situation, "D07", f"the output holds micro-batch {micro_batch.id}")
    if last.micro_batch_id < micro_batch.id and last.end_digest == micro_batch.before_digest:
        return _run("D10", "it begins exactly where the output ends")
    return _refused(
        "D11",
        ConfigError(
            f"pipeline {micro_batch.pipeline!r}: micro-batch {micro_batch.id} does not begin where the output ends",
            because=f"the ledger is at micro-batch {last.micro_batch_id} of this query and at another position of its "
            "sources: the checkpoint was rolled back, copied or changed",
            you_want=f"the newest checkpoint of this query; or {_again_from_the_start(situation)}",
            next_command=situation.status_command,
        ),
    )


def _refuse_unknown_start(situation: Situation, last: Entry) -> Decision:
    micro_batch = situation.micro_batch
    return _refused(
        "D12",
        ConfigError(
            f"pipeline {micro_batch.pipeline!r} was last written by query {last.query_id}, not by this one",
            because="this query's source does not say where it began, so what it would lose or repeat is not known",
            you_want=_start_at_ledger(situation),
            next_command=situation.status_command,
        ),
    )


# --- Kafka offsets


def _by_offsets(situation: Situation, last: Entry, ends: Mapping[TopicPartition, int]) -> Decision:
    micro_batch = situation.micro_batch
    # Another query under the same name: its offsets count other records.
    if situation.ledger.held and not {one.topic for one in situation.ledger.held} & {one.topic for one in ends}:
        return _refuse_sources(situation, _topics(ends))
    steps = _steps(situation, ends)
    is_last_one = (last.query_id, last.micro_batch_id) == (micro_batch.query_id, micro_batch.id)
    # The commit happened and Spark did not hear of it: the plain case after a crash.
    if is_last_one and all(one.end == one.held_next and not one.is_partly_missing for one in steps):
        return _pass_over(situation, "D07", f"the output holds micro-batch {micro_batch.id}")
    if micro_batch.offsets_before is None:
        return _refuse_unknown_start(situation, last)
    ahead = [one for one in steps if one.is_ahead]
    # At most once may leave records out, so a gap is no reason to stop.
    if ahead and not micro_batch.guarantee.allows(Anomaly.LOST):
        return _refuse_gap(situation, ahead[0])
    if any(one.is_behind for one in steps):
        return _from_behind(situation, last, steps)
    return _from_the_end(situation, last)


def _steps(situation: Situation, ends: Mapping[TopicPartition, int]) -> list[_Step]:
    micro_batch, evidence, lost = situation.micro_batch, situation.evidence, _lost(situation)
    begins = micro_batch.offsets_before or {}
    steps = []
    for partition, end in sorted(ends.items()):
        topic_id = evidence.topic_ids.get(partition.topic, "")
        # An entry of a topic that was deleted does not count: the output holds nothing of the one with its name now.
        held = situation.ledger.held[partition] if is_held(situation.ledger, partition, evidence.topic_ids) else None
        begin = begins.get(partition)
        if micro_batch.offsets_before is None:
            begin = UNKNOWN_OFFSET
        if not is_same_topic(micro_batch.topic_ids_before.get(partition.topic, ""), topic_id):
            begin = None  # an offset of the deleted topic: the source begins the new one at its beginning
        earliest = evidence.earliest.get(partition, 0)
        begins_at = earliest if begin is None else begin
        # Where an entry was lost and the query goes on all the same, it begins where the output ends.
        steps.append(
            _Step(
                partition=partition,
                begin=begins_at,
                end=end,
                held_next=held.offset_next if held is not None else begins_at if partition in lost else None,
                held_first=UNKNOWN_OFFSET if held is None else held.offset_first,
                is_from_beginning=begin is None or begin <= earliest,
            )
        )
    return steps


def _from_the_end(situation: Situation, last: Entry) -> Decision:
    """Decide about one that begins where the output ends; a stateful query must have the state that belongs there."""
    micro_batch = situation.micro_batch
    if situation.is_stateful and last.query_id != micro_batch.query_id:
        return _without_state(situation)
    # The same query plans an id that it has written: its checkpoint was restored.
    is_rolled_back = last.query_id == micro_batch.query_id and micro_batch.id <= last.micro_batch_id
    if situation.is_stateful and is_rolled_back and not micro_batch.guarantee.allows(Anomaly.DUPLICATED):
        return _refuse_state(situation, "D14", last)
    return _run("D10", "it begins exactly where the output ends")


def _from_behind(situation: Situation, last: Entry, steps: list[_Step]) -> Decision:
    """Decide about a micro-batch that begins with records which the output holds."""
    micro_batch = situation.micro_batch
    if micro_batch.guarantee.allows(Anomaly.DUPLICATED):
        if situation.is_stateful and last.query_id != micro_batch.query_id:
            return _without_state(situation)
        return _run("D15", "it repeats records that the output holds, which at least once allows")
    beyond = [one for one in steps if one.is_beyond]
    if situation.is_stateful:
        return _refuse_state(situation, "D16", last)
    if beyond:
        return _refuse_repeat(situation, next(one for one in steps if one.is_behind))
    return _covered(situation, last, steps)


def _covered(situation: Situation, last: Entry, steps: list[_Step]) -> Decision:
    """Skip it if the output is proven to hold all of its records, of this very topic; refuse it otherwise."""
    uncovered = [one for one in steps if not one.is_covered]
    if uncovered:
        return _refuse_uncovered(situation, uncovered[0])
    unproven = _unproven(situation, steps)
    if unproven and last.query_id != situation.micro_batch.query_id:
        return _refuse_unproven(situation, unproven[0])
    return Decision(action=Plan.SKIP, row="D17", reason="all of it is in the output")


def _unproven(situation: Situation, steps: list[_Step]) -> list[_Step]:
    """Partitions of topics that may have been created again: nobody has said which topic these offsets count."""
    if situation.evidence.is_of_the_cluster:
        return []
    held, ids = situation.ledger.held, situation.evidence.topic_ids
    return [
        one
        for one in steps
        if one.partition in held and not (held[one.partition].topic_id and ids.get(one.partition.topic))
    ]


def _without_state(situation: Situation) -> Decision:
    pipeline = situation.micro_batch.pipeline
    if situation.lost_state is LostState.ACCEPT:
        return _run("D13", 'it begins where the output ends, without the state; lost_state="accept" was chosen')
    return _refused(
        "D13",
        ConfigError(
            f"pipeline {pipeline!r}: this stateful query has none of the state that wrote the output",
            because="its checkpoint is new; counts would begin at nothing, open windows and rows that wait for their "
            "match are gone",
            you_want=f"the checkpoint that wrote the output; or {_again_from_the_start(situation)}; or "
            f"{situation.words.setting(lost_state='accept')} in a new checkpoint folder to go on with empty state",
            next_command=situation.status_command,
        ),
    )


def _refuse_state(situation: Situation, row: str, last: Entry) -> Decision:
    micro_batch = situation.micro_batch
    return _refused(
        row,
        ConfigError(
            f"pipeline {micro_batch.pipeline!r}: the output is at micro-batch {last.micro_batch_id}, the state of this "
            f"query's checkpoint at the beginning of {micro_batch.id}",
            because="a stateful query that begins before the end of its output gives results that depend on where its "
            "micro-batches end, and those are not known any more",
            you_want=f"the newest checkpoint of this query; or {_again_from_the_start(situation)}",
            next_command=situation.status_command,
        ),
    )


def _refuse_gap(situation: Situation, step: _Step) -> Decision:
    micro_batch = situation.micro_batch
    held = "holds nothing" if step.held_next is None else f"holds it up to offset {step.held_next}"
    return _refused(
        "D08" if step.held_next is None else "D09",
        ConfigError(
            f"pipeline {micro_batch.pipeline!r}: of {step.partition} the output {held}, "
            f"this query would begin at {step.begin} and lose records",
            because=situation.words.falling_behind if micro_batch.id > 0 else "",
            you_want=_go_on_at_ledger(situation),
            next_command=situation.status_command,
        ),
    )


def _refuse_repeat(situation: Situation, step: _Step) -> Decision:
    micro_batch = situation.micro_batch
    return _refused(
        "D18",
        ConfigError(
            f"pipeline {micro_batch.pipeline!r}: the output holds {step.partition} up to offset {step.held_next}, "
            f"this query would begin at {step.begin} and repeat records",
            because="" if micro_batch.id == 0 else "its checkpoint is older than its output: a backup, or a copy",
            you_want=_go_on_at_ledger(situation),
            next_command=situation.status_command,
        ),
    )


def _refuse_unproven(situation: Situation, step: _Step) -> Decision:
    micro_batch = situation.micro_batch
    return _refused(
        "D21",
        ConfigError(
            f"pipeline {micro_batch.pipeline!r}: the output holds {step.partition} up to offset {step.held_next}, this "
            f"query would begin at {step.begin}, and nobody can tell whether it is still the same topic",
            because="if it was deleted and created again, these are other records, and to pass over them loses them",
            you_want=f'{_go_on_at_ledger(situation)}, if it is the same; a source of format "semel" tells topics apart',
            next_command=situation.status_command,
        ),
    )


def _refuse_uncovered(situation: Situation, step: _Step) -> Decision:
    micro_batch = situation.micro_batch
    first = "an offset that is not known" if step.held_first == UNKNOWN_OFFSET else f"offset {step.held_first}"
    return _refused(
        "D19",
        ConfigError(
            f"pipeline {micro_batch.pipeline!r}: the output holds {step.partition} from {first} on, "
            f"this query begins at {step.begin}",
            because="what lies before that is not in the output, and would come behind younger records if written now",
            you_want=f"{_start_at_ledger(situation)}; or {_again_from_the_start(situation)}",
            next_command=situation.status_command,
        ),
    )


# --- words


def _run(row: str, reason: str) -> Decision:
    return Decision(action=Plan.RUN, row=row, reason=reason)


def _pass_over(situation: Situation, row: str, reason: str) -> Decision:
    """Do not write what the output holds; for a stateful query it is computed all the same, for its state."""
    return Decision(action=Plan.COMPUTE if situation.is_stateful else Plan.SKIP, row=row, reason=reason)


def _refused(row: str, error: SemelError) -> Decision:
    return Decision(action=Plan.REFUSE, row=row, reason=error.summary, error=error)


def _go_on_at_ledger(situation: Situation) -> str:
    """The way out for a checkpoint that has run before: reset it, or begin again; a stateful query can do neither."""
    if situation.is_stateful:
        return f"the newest checkpoint of this query; or {_again_from_the_start(situation)}"
    start_again = _start_at_ledger(situation)
    if situation.micro_batch.id == 0 or not situation.reset_command:
        return start_again
    return f"{situation.reset_command}; or {start_again}"


def _start_at_ledger(situation: Situation) -> str:
    """The way out that works for every stateless query: begin again, exactly where the output ends."""
    micro_batch = situation.micro_batch
    folder = "a new checkpoint folder"
    if micro_batch.id == 0 and situation.checkpoint:
        folder = f"a new checkpoint folder (this start has left its plan in {situation.checkpoint})"
    if situation.words.start_at_ledger:
        return f"{folder} and {situation.words.start_at_ledger}"
    return (
        f'{folder} and, on a source of format "semel", .option("startingOffsets", "ledger") with '
        f'.option("ledger", "{micro_batch.pipeline}")'
    )


def _again_from_the_start(situation: Situation) -> str:
    pipeline, output = situation.micro_batch.pipeline, situation.words.output
    return (
        f"compute everything again: another pipeline name than {pipeline!r}, a new output {output}, a new checkpoint "
        'folder and startingOffsets="earliest"'
    )


def _topics(partitions: Mapping[TopicPartition, object]) -> str:
    return _names(sorted({partition.topic for partition in partitions}))


def _names(topics: tuple[str, ...] | list[str]) -> str:
    return ", ".join(topics)

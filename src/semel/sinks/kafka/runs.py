"""The runs of batch jobs in Kafka: which of them a pipeline has written, and what is done when nobody can know.

Each run has a consumer group of its own, named after the pipeline and the hash of the run id. Its offsets, one for each
output topic, are committed in the transaction of the rows, so they are there exactly if the rows are. Nobody joins that
group: brokers forget it when `offsets.retention.minutes` have passed since the commit, and not before, however many
runs there are.

A run that is not found was therefore never written, or it was forgotten. Only its age tells the two apart: `plan_run`
runs what is younger than the retention and refuses what is older. A caller who does not say how old a run is
(`planned_at`) has it run, and is refused on a cluster that forgets within a day.

Their metadata says which topics the run was written to. The same run id with other topics is refused: skipped, its rows
would be missing in those it was not written to; written, they would be twice in the others. So is a run of which one
topic was deleted: brokers delete the offset of that topic with it, and those of the others still tell.

Keeps: E19 of docs/DESIGN.md.
Why:   a list of run ids in the pipeline's own entry must fit into 4,096 bytes, so it would forget by count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256

from semel.errors import ConfigError, OutcomeUnknownError
from semel.guarantee import Guarantee
from semel.sinks.base import MicroBatch, Run
from semel.sinks.kafka.ledger import TARGETS_BYTES_MAX
from semel.sinks.ledger import Ledger, is_same_topic
from semel.sinks.recovery import Plan
from semel.sinks.run_ids import (
    CLOCKS_APART_MS_MAX,
    DAY_MS,
    QUERY_PREFIX,
    duration,
    run_hash,
    run_query_id,
    written_elsewhere,
)
from semel.wire.group_offsets import CommittedOffset
from semel.wire.topology import TopicPartition

# A retry of a daily job must still find that the first try was written.
KEPT_MS_MIN = DAY_MS
# Pipeline names have no colon, so no pipeline's ledger is a run's group.
GROUP_MARKER = ":run:"


def run_group(pipeline: str, run: Run) -> str:
    """The group that remembers the run."""
    return pipeline + GROUP_MARKER + run_hash(run.id)


def is_run_group(group: str, pipeline: str) -> bool:
    """Whether the group remembers a run of this pipeline; one that only begins like that is somebody else's."""
    return re.fullmatch(re.escape(pipeline + GROUP_MARKER) + "[0-9a-f]{64}", group) is not None


def last_run_group(pipeline: str, ledger: Ledger) -> str | None:
    """The group of the run that the pipeline's own entry names; None when no batch job has committed last."""
    if ledger.last is None or not ledger.last.query_id.startswith(QUERY_PREFIX):
        return None
    return pipeline + GROUP_MARKER + ledger.last.query_id.removeprefix(QUERY_PREFIX)


# --- where a run was written


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What is known of the topics that a run was written to."""

    topics: Mapping[str, str] = field(default_factory=dict)
    """Names and ids; an id that is not known is empty."""
    are_all: bool = True
    """Whether these are all of them; entries of earlier versions tell one, by where they stand."""
    digest: str = ""
    """Of the names, where these were too long to be kept."""


def run_places(targets: Collection[str]) -> list[TopicPartition]:
    """Where a run's group has its offsets."""
    return [TopicPartition(name, 0) for name in targets]


def run_entries(run: Run, targets: Mapping[str, str]) -> dict[TopicPartition, CommittedOffset]:
    """What the run commits for its group: its id, for people who look at it, and the ids of the output topics."""
    fields: dict[str, object] = {"semel": 1, "run": run.id}
    kept = dict(sorted(targets.items()))
    if len(json.dumps(kept).encode()) <= TARGETS_BYTES_MAX:
        fields["targets"] = kept
    else:
        fields["targets_digest"] = _digest(targets)
    entry = CommittedOffset(offset_next=1, metadata=json.dumps(fields, ensure_ascii=False))
    return dict.fromkeys(run_places(targets), entry)


def _digest(names: Collection[str]) -> str:
    # No topic's name has a comma.
    return sha256(",".join(sorted(names)).encode()).hexdigest()


def _read(place: TopicPartition, row: CommittedOffset) -> _Written:
    """Read it back; the offset counts whoever wrote its metadata."""
    try:
        fields = json.loads(row.metadata)
        if "targets" in fields:
            return _Written(topics={str(name): str(number) for name, number in fields["targets"].items()})
        if "targets_digest" in fields:
            return _Written(digest=str(fields["targets_digest"]))
    except (ValueError, AttributeError, TypeError):
        pass
    return _Written(topics={place.topic: ""}, are_all=False)


def was_written(
    micro_batch: MicroBatch,
    ledger: Ledger,
    found: Mapping[TopicPartition, CommittedOffset],
    targets: Mapping[str, str],
    *,
    next_command: str = "",
) -> bool:
    """Whether the run was written to the sink's topics, given with their ids; ConfigError when it was to others."""
    run, last = micro_batch.run, ledger.last
    assert run is not None, "a micro-batch of a query is decided by its ledger"
    written = [_read(place, row) for place, row in found.items()]
    # The pipeline's own entry may name it as the last one: then somebody has deleted the run's group.
    if not written and last is not None and last.query_id == run_query_id(run):
        ids = ledger.home.output_ids if ledger.home is not None else {}
        written = [_Written(topics={name: ids.get(name, "") for name in last.targets}, are_all=bool(last.targets))]
    for one in written:
        _refuse_elsewhere(micro_batch, one, targets, partial(written_elsewhere, next_command=next_command))
    return bool(written)


def _refuse_elsewhere(
    micro_batch: MicroBatch, written: _Written, targets: Mapping[str, str], refusal: Callable[..., ConfigError]
) -> None:
    """Raise the refusal unless the run was written to just these topics."""
    here = ", ".join(sorted(targets))
    if written.digest:
        if written.digest != _digest(targets):
            raise refusal(micro_batch, "other topics", here)
        return
    is_same = written.topics.keys() == targets.keys() if written.are_all else written.topics.keys() <= targets.keys()
    if not is_same:
        raise refusal(micro_batch, ", ".join(sorted(written.topics)), here)
    for name, number in sorted(written.topics.items()):
        if not is_same_topic(number, targets[name]):
            there, now = f"a topic {name} that was deleted since", "the one that has its name now"
            if len(targets) == 1:
                raise refusal(micro_batch, there, now)
            # To repeat all of the run would write it twice into the others.
            alone = f'KafkaSink(..., topics=["{name}"]) and another pipeline name, for the rows of {name} alone: the '
            raise refusal(micro_batch, there, now, you_want=f"{alone}other topics have theirs")


# --- the decision


def check_kept(micro_batch: MicroBatch, kept_ms: int | None) -> None:
    """Refuse a cluster that forgets runs so soon that a retry may come later, unless the run says how old it is."""
    run, guarantee = micro_batch.run, micro_batch.guarantee
    if run is None or run.planned_ms is not None or guarantee is Guarantee.AT_LEAST_ONCE:
        return
    if kept_ms is not None and kept_ms < KEPT_MS_MIN:
        raise ConfigError(
            f"this cluster forgets a run id after {duration(kept_ms)}",
            because="a run that is repeated later would be written twice: offsets.retention.minutes of the brokers is "
            f"below {duration(KEPT_MS_MIN)}",
            you_want="write_batch(..., planned_at=...), which refuses a run that may be forgotten, or a longer "
            "offsets.retention.minutes",
        )


def plan_run(
    micro_batch: MicroBatch,
    *,
    is_written: bool,
    kept_ms: int | None,
    now_ms: int,
    choice: Plan | None,
) -> Plan:
    """Decide about a batch job; `is_written` as `was_written` says, `choice` as the user where nobody can know."""
    run = micro_batch.run
    assert run is not None, "a micro-batch of a query is decided by its ledger"
    if is_written:
        return Plan.SKIP
    if run.planned_ms is None or micro_batch.guarantee is Guarantee.AT_LEAST_ONCE:
        return Plan.RUN
    age_ms = now_ms - run.planned_ms
    # With room for clocks that differ: too young by mistake would mean to write twice.
    if kept_ms is not None and age_ms + CLOCKS_APART_MS_MAX < kept_ms:
        # Had it been written since it was planned, it would still be remembered.
        return Plan.RUN
    if choice is not None:
        return choice
    raise OutcomeUnknownError(
        f"pipeline {micro_batch.pipeline!r}: run {run.id!r} was planned {duration(max(age_ms, 0))} ago, "
        f"run ids are remembered for {duration(kept_ms)}",
        because="it is not remembered, so it was never written, or it was written and then forgotten "
        "(offsets.retention.minutes of the brokers)"
        + ("" if kept_ms is not None else "; reading that setting needs the permission DescribeConfigs on the cluster"),
        you_want='look at the output, then KafkaSink(..., ledger_missing="run") to write the run (again), '
        'or ledger_missing="skip" to count it as written',
    )

"""The runs of batch jobs in Kafka: which of them a pipeline has written, and what is done when nobody can know.

Each run has a consumer group of its own, named after the pipeline and the hash of the run id. Its one offset is
committed in the transaction of the rows, so it is there exactly if they are. Nobody joins that group: brokers forget
it when `offsets.retention.minutes` have passed since the commit, and not before, however many runs there are.

A run that is not found was therefore never written, or it was forgotten. Only its age tells the two apart: `plan_run`
runs what is younger than the retention and refuses what is older. A caller who does not say how old a run is
(`planned_at`) has it run, and is refused on a cluster that forgets within a day.

Keeps: E19 of docs/DESIGN.md.
Why:   a list of run ids in the pipeline's own entry must fit into 4,096 bytes, so it would forget by count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from semel.errors import ConfigError, OutcomeUnknownError
from semel.guarantee import Guarantee
from semel.sinks.base import MicroBatch, Run
from semel.sinks.ledger import Ledger
from semel.sinks.recovery import Plan
from semel.sinks.run_ids import CLOCKS_APART_MS_MAX, DAY_MS, duration, run_hash, run_query_id
from semel.wire.group_offsets import CommittedOffset
from semel.wire.topology import TopicPartition

# A retry of a daily job must still find that the first try was written.
KEPT_MS_MIN = DAY_MS
# Pipeline names have no colon, so no pipeline's ledger is a run's group.
GROUP_MARKER = ":run:"


def run_group(pipeline: str, run: Run) -> str:
    """The group that remembers the run."""
    return pipeline + GROUP_MARKER + run_hash(run.id)


def run_entries(run: Run, home: TopicPartition) -> dict[TopicPartition, CommittedOffset]:
    """What the run commits for its group; the metadata is for people who look at it."""
    metadata = json.dumps({"semel": 1, "run": run.id}, ensure_ascii=False)
    return {home: CommittedOffset(offset_next=1, metadata=metadata)}


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
    ledger: Ledger,
    found: Mapping[TopicPartition, CommittedOffset],
    *,
    kept_ms: int | None,
    now_ms: int,
    choice: Plan | None,
) -> Plan:
    """Decide about a batch job; `found` is what its group holds, `choice` what the user wants where nobody can know."""
    run = micro_batch.run
    assert run is not None, "a micro-batch of a query is decided by its ledger"
    if found:
        return Plan.SKIP
    if ledger.last is not None and ledger.last.query_id == run_query_id(run):
        # The pipeline's own entry names it as the last one: somebody has deleted the run's group.
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

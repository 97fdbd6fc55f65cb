"""What every sink of a micro-batch shares: the steps of a commit, the micro-batch as a value, the row counts.

The order of steps is the guarantee. `CommitStep` names them, each is one function, and whoever wants to know that a
crash between two of them does no harm can stop the process there: `on_step` is called after every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from semel.errors import SinkError
from semel.guarantee import Guarantee
from semel.wire.topology import TopicPartition


class CommitStep(StrEnum):
    """What has just been done; exactly once runs through all of them in this order."""

    OWNED = "owned"  # older owners are fenced, what they left open is aborted
    LEDGER_READ = "ledger-read"
    OPENED = "opened"  # the sink's transaction knows where rows will go
    ROWS_WRITTEN = "rows-written"
    OFFSETS_WRITTEN = "offsets-written"  # part of the transaction, not visible yet
    COMMITTED = "committed"


OnStep = Callable[[CommitStep], None]


def ignore_step(_: CommitStep) -> None:
    """Nobody asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """One Spark trigger's work, as a sink sees it."""

    pipeline: str
    query_id: str
    id: int
    guarantee: Guarantee
    # Where the sources stand when this micro-batch is done; None when a source has no Kafka offsets (S8).
    offsets: Mapping[TopicPartition, int] | None
    # Where they stood before; None when that is not known.
    offsets_before: Mapping[TopicPartition, int] | None = None
    # Whether an earlier run may have done part of it: it was planned before this process began.
    is_replay: bool = False
    # How long ago it was planned.
    age_ms: int = 0
    # A batch job instead of a micro-batch: its run, which the ledger remembers.
    run_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What one task wrote to one partition."""

    task: int
    target: TopicPartition
    records: int


def check_written(encoded: int, written: Iterable[Written]) -> int:
    """Hold S2: every row was acknowledged, and no partition had two writers; returns the count."""
    rows = list(written)
    writers: dict[TopicPartition, int] = {}
    for row in rows:
        other = writers.setdefault(row.target, row.task)
        if other != row.task:
            raise SinkError(
                f"tasks {other} and {row.task} both wrote to {row.target}",
                because="sequences of two writers under one producer id cannot be told from retries",
                you_want='partitioning="keyed", which gives each partition one writer',
            )
    total = sum(row.records for row in rows)
    if total != encoded:
        raise SinkError(f"{encoded} rows were encoded, but {total} acknowledged")
    return total

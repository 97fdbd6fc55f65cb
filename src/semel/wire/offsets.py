"""Offsets: of a log (earliest, latest, by time, by leader epoch) and of a group (fetched, committed)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from semel.wire.cluster import WireCluster
from semel.wire.deadline import Deadline
from semel.wire.topology import Isolation, TopicPartition

LATEST = -1
EARLIEST = -2
NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    """What ListOffsets answered; `offset` is NO_OFFSET when no record has that time or a later one."""

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """The largest leader epoch at or below the one asked for, and the offset where it ends; -1 when unknown."""

    leader_epoch: int
    offset_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """What a group has committed for a partition: the next offset to read, and a note of who committed."""

    offset_next: int
    leader_epoch: int = -1
    metadata: str = ""


def list_offsets(
    cluster: WireCluster,
    wanted: Mapping[TopicPartition, int],
    *,
    deadline: Deadline,
    isolation: Isolation = Isolation.READ_COMMITTED,
) -> dict[TopicPartition, ListedOffset]:
    """Look up EARLIEST, LATEST or the first offset at or after a time in ms, each partition at its leader.

    With READ_COMMITTED, LATEST is the last stable offset. Every partition asked for is in the answer.
    """
    raise NotImplementedError


def epoch_ends(
    cluster: WireCluster, wanted: Mapping[TopicPartition, int], *, deadline: Deadline
) -> dict[TopicPartition, EpochEnd]:
    """Ask each leader where a leader epoch ended in its log: below what was read means the log was truncated."""
    raise NotImplementedError


def committed_offsets(
    cluster: WireCluster,
    group: str,
    partitions: Collection[TopicPartition] | None = None,
    *,
    deadline: Deadline,
    require_stable: bool = True,
) -> dict[TopicPartition, CommittedOffset]:
    """Read what a group has committed, for these partitions or for all; partitions without an offset are left out.

    With `require_stable` an offset that an open transaction may still change is waited for.
    """
    raise NotImplementedError


def commit_offsets(
    cluster: WireCluster, group: str, offsets: Mapping[TopicPartition, CommittedOffset], *, deadline: Deadline
) -> None:
    """Commit offsets of a group without members (member "", generation -1), outside any transaction."""
    raise NotImplementedError

"""Fetch: record sets as they lie in the log, from all leaders at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from semel.errors import BrokerError
from semel.wire.cluster import WireCluster
from semel.wire.deadline import Deadline
from semel.wire.topology import Isolation, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedRecords:
    """One partition's answer; `aborted` is (producer id, first offset) of each aborted transaction in it."""

    records: memoryview
    aborted: tuple[tuple[int, int], ...]
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class OffsetOutOfRangeError(BrokerError):
    """The offset is not in the log: retention or DeleteRecords passed it, or the log ends before it."""

    topic: str
    partition: int
    offset: int


def fetch(
    cluster: WireCluster,
    wanted: Mapping[TopicPartition, int],
    *,
    deadline: Deadline,
    isolation: Isolation = Isolation.READ_COMMITTED,
    bytes_max: int = 32 << 20,
    partition_bytes_max: int = 4 << 20,
    bytes_min: int = 1,
    wait_ms_max: int = 500,
) -> dict[TopicPartition, FetchedRecords]:
    """Read from the given offsets on, once from each leader, and return as soon as some partitions were answered.

    A partition that is missing in the result had a leader that moved or could not be reached: ask again. When nothing
    was answered it is asked again here, until the deadline. Records may be empty after `wait_ms_max`, may begin below
    the offset asked for, and may end with part of a batch. Raises OffsetOutOfRangeError, BrokerError for what asking
    again cannot heal, ConnectionFailure at the deadline.
    """
    raise NotImplementedError

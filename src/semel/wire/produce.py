"""Produce: encoded batches, stamped, in order, each acknowledged exactly once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from semel.wire.cluster import WireCluster
from semel.wire.deadline import Deadline
from semel.wire.topology import TopicPartition

Batch = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """Who writes: shipped from the driver to every task of a micro-batch."""

    producer_id: int
    producer_epoch: int
    transactional_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """What the leader of one partition took."""

    records: int
    batches: int
    offset_first: int
    sequence_next: int


def send_batches(
    cluster: WireCluster,
    batches: Iterable[tuple[TopicPartition, Batch]],
    *,
    producer: ProducerIdentity,
    deadline: Deadline,
    sequences: dict[TopicPartition, int] | None = None,
    request_bytes_max: int = 1 << 20,
) -> dict[TopicPartition, Acknowledged]:
    """Send all batches and return when every one was acknowledged by all in-sync replicas.

    `batches` is read as sending goes on, so a generator keeps memory bounded. A writable batch is stamped in place,
    `bytes` are copied first. Sequences start at 0 in each partition unless `sequences` says otherwise. The same batch
    is sent again with the same sequence after errors that allow it; FencedError when a newer owner exists;
    OutcomeUnknownError when the deadline passes with batches unacknowledged.
    """
    raise NotImplementedError

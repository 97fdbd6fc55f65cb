"""A transaction as the driver runs it: begin, add partitions, commit offsets, end."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from semel.wire.cluster import WireCluster
from semel.wire.deadline import Deadline
from semel.wire.offsets import CommittedOffset
from semel.wire.produce import ProducerIdentity
from semel.wire.topology import TopicPartition


class TransactionClient:
    """One transactional id; each `begin` fences whoever used it before."""

    def __init__(self, cluster: WireCluster, transactional_id: str, *, timeout_ms: int) -> None:
        """`timeout_ms`: after that long the broker aborts a transaction by itself."""
        raise NotImplementedError

    def begin(self, deadline: Deadline) -> ProducerIdentity:
        """Take a new producer epoch: fences every earlier owner and aborts what it left open."""
        raise NotImplementedError

    def add_partitions(self, partitions: Collection[TopicPartition], deadline: Deadline) -> None:
        """Make partitions part of the transaction, before anything is written to them."""
        raise NotImplementedError

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset], deadline: Deadline) -> None:
        """Make a group's offsets part of the transaction."""
        raise NotImplementedError

    def end(self, deadline: Deadline, *, commit: bool) -> None:
        """Commit or abort. OutcomeUnknownError when no answer came by the deadline: read the ledger."""
        raise NotImplementedError

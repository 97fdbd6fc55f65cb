"""Requests and responses about committed offsets, as the coordinator knows them: without wire versions.

A commit names the member that makes it, in the words of the classic protocol. In a group of the consumer protocol its
generation is the member epoch.
"""

from dataclasses import dataclass

from semel.broker.groups.classic.types import NO_GENERATION, NO_MEMBER_ID
from semel.protocol.error_codes import ErrorCode

NO_OFFSET = -1
NO_LEADER_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetToCommit:
    """The offset of the next record to read of one partition."""

    topic: str
    partition: int
    offset_next: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """OffsetCommit. `retention_ms` (versions 2 to 4) below 0 means the broker's setting."""

    group_id: str
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None
    offsets: tuple[OffsetToCommit, ...]
    retention_ms: int = -1
    api_version: int = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnCommitRequest:
    """TxnOffsetCommit: becomes visible when the transaction commits. Group fields as in KIP-447."""

    group_id: str
    producer_id: int
    producer_epoch: int
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None
    offsets: tuple[OffsetToCommit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """What became of one partition of a request."""

    topic: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResponse:
    """One result per partition of the request, in its order."""

    results: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsetsRequest:
    """OffsetFetch of the named partitions, or of all that have a committed offset (None)."""

    group_id: str
    partitions: tuple[tuple[str, int], ...] | None = None
    require_stable: bool = False
    member_id: str | None = None
    member_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffset:
    """A committed offset, NO_OFFSET when there is none."""

    topic: str
    partition: int
    offset_next: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsetsRequest:
    """OffsetDelete."""

    group_id: str
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsetsResponse:
    """Either a code for the whole request, or one result per partition."""

    error_code: ErrorCode = ErrorCode.NONE
    results: tuple[PartitionResult, ...] = ()

"""Requests and responses of the classic group protocol, as the coordinator knows them: without wire versions.

JoinGroup and SyncGroup may wait for other members; Heartbeat, LeaveGroup and DescribeGroups are answered at once.
"""

from dataclasses import dataclass
from enum import StrEnum

from semel.protocol.error_codes import ErrorCode

NO_GENERATION = -1
NO_MEMBER_ID = ""


class GroupState(StrEnum):
    """Where a classic group stands; the values are the names that Kafka's tools print."""

    # No members; committed offsets may be there.
    EMPTY = "Empty"
    # The join phase: members come in, JoinGroup waits.
    PREPARING_REBALANCE = "PreparingRebalance"
    # The sync phase: the leader's assignment is awaited, SyncGroup waits.
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    # Its tombstones are on their way to the log.
    DEAD = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """One way of assigning that a member knows, with its metadata for it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """JoinGroup. `rebalance_timeout_ms` below 0 (version 0) means the session timeout."""

    group_id: str
    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1
    protocol_type: str
    protocols: tuple[Protocol, ...]
    api_version: int = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """A member as the leader learns of it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResponse:
    """`members` is filled for the leader only."""

    error_code: ErrorCode = ErrorCode.NONE
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = NO_MEMBER_ID
    skip_assignment: bool = False
    member_id: str = NO_MEMBER_ID
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """SyncGroup; protocol type and name come with version 5 and later."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResponse:
    """The member's own assignment."""

    error_code: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """Heartbeat; the response is an error code and never waits."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    """Named by member id, or by group instance id alone (an administrator removes a static member)."""

    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRequest:
    """LeaveGroup; versions before 3 carry one member."""

    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveResponse:
    """`results` has one error code per member of the request, in its order."""

    error_code: ErrorCode = ErrorCode.NONE
    results: tuple[ErrorCode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """Metadata and assignment are filled while the group is stable."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """One group of DescribeGroups; a group that does not exist is Dead."""

    group_id: str
    state: GroupState
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None

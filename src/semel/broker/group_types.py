"""What goes into and comes out of the group coordinator: requests, responses, effects and settings.

These are the coordinator's own values, free of wire versions. A request that may wait is given a token; its
response comes back later in an `Answer` with that token, exactly once. Records for `__consumer_offsets` leave as
`AppendRecords`; the shell appends them in the order given and reports each with `GroupCoordinator.appended`.
"""

from dataclasses import dataclass
from enum import StrEnum

from semel.broker.consumer_group_types import BeatResponse
from semel.protocol.error_codes import ErrorCode

NO_GENERATION = -1
NO_MEMBER_ID = ""
NO_OFFSET = -1
NO_LEADER_EPOCH = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
CONSUMER_PROTOCOL_TYPE = "consumer"
DAY_MS = 24 * 60 * 60 * 1000


class GroupState(StrEnum):
    """Where a classic group stands; the values are the names that Kafka's tools print."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Broker settings of groups, with the name Kafka gives each.

    Differs: the initial rebalance delay is 0 here and 3000 in Kafka, so that a test does not wait three seconds.
    """

    initial_rebalance_delay_ms: int = 0  # group.initial.rebalance.delay.ms
    session_timeout_ms_min: int = 6_000  # group.min.session.timeout.ms
    session_timeout_ms_max: int = 1_800_000  # group.max.session.timeout.ms
    group_members_max: int = 2**31 - 1  # group.max.size
    offset_metadata_bytes_max: int = 4_096  # offset.metadata.max.bytes
    offsets_retention_ms: int = 7 * DAY_MS  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
    new_member_join_timeout_ms: int = 300_000  # a constant in Kafka
    consumer_group_members_max: int = 2**31 - 1  # group.consumer.max.size
    consumer_heartbeat_interval_ms: int = 5_000  # group.consumer.heartbeat.interval.ms
    consumer_session_timeout_ms: int = 45_000  # group.consumer.session.timeout.ms


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupResponse:
    """What became of one group of DeleteGroups."""

    error_code: ErrorCode = ErrorCode.NONE


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """One line of ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


Response = (
    JoinResponse
    | SyncResponse
    | LeaveResponse
    | CommitResponse
    | DeleteOffsetsResponse
    | DeleteGroupResponse
    | BeatResponse
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorRecord:
    """A record for `__consumer_offsets`; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Send this response to the request with this token."""

    token: int
    response: Response


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRecords:
    """Append as one batch; with a producer id it is a transactional batch of that producer."""

    append_token: int
    group_id: str
    records: tuple[CoordinatorRecord, ...]
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


Effect = Answer | AppendRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRecord:
    """A record read back from `__consumer_offsets`; the producer id only when its batch is transactional."""

    offset: int
    key: bytes
    value: bytes | None
    producer_id: int = NO_PRODUCER_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedMarker:
    """A transaction marker read back from `__consumer_offsets`."""

    offset: int
    producer_id: int
    commit: bool

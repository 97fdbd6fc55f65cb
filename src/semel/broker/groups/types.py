"""What passes between the group coordinator and its shell: settings, effects, and records read back from the log.

A request that may wait is given a token; its response comes back later in an `Answer` with that token, exactly once.
Records for `__consumer_offsets` leave as `AppendRecords`; the shell appends them in the order given and reports each
with `GroupCoordinator.appended`. Work that is too long for one stretch ends in a `Later`. The requests and responses
themselves are in `classic/types`, `consumer/types` and `offsets/types`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from semel.broker.groups.classic.types import JoinResponse, LeaveResponse, SyncResponse
from semel.broker.groups.consumer.types import HeartbeatAnswer
from semel.broker.groups.offsets.types import CommitResponse, DeleteOffsetsResponse
from semel.protocol.error_codes import ErrorCode

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
CONSUMER_PROTOCOL_TYPE = "consumer"
DAY_MS = 24 * 60 * 60 * 1000


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
class ListedGroup:
    """One line of ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupResponse:
    """What became of one group of DeleteGroups."""

    error_code: ErrorCode = ErrorCode.NONE


Response = (
    JoinResponse
    | SyncResponse
    | LeaveResponse
    | CommitResponse
    | DeleteOffsetsResponse
    | DeleteGroupResponse
    | HeartbeatAnswer
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """Hand this to `GroupCoordinator.resume` once others were served.

    What it gives stands before every append that is asked for after this one, as if it had been given at once.
    """

    work: Callable[[], None]


Effect = Answer | AppendRecords | Later


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

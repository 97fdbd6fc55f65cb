"""What goes into and comes out of groups of the consumer protocol: heartbeats, their answers, descriptions.

These are the coordinator's own values, free of wire versions.
Sources: KIP-848 (the protocol), KIP-1251 (commits of an older member epoch).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from uuid import UUID

from semel.protocol.error_codes import ErrorCode

TopicIdPartition = tuple[UUID, int]
Held = Mapping[TopicIdPartition, int]  # partition -> the epoch at which the member got it

EPOCH_JOIN = 0
EPOCH_LEAVE = -1
EPOCH_LEAVE_STATIC = -2  # for a while: the partitions stay with the group instance
NO_REBALANCE_TIMEOUT = -1


class MemberState(IntEnum):
    """How far a member is on its way to its target; the numbers are those of Kafka's records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # it must give partitions up, and has not said that it did
    UNRELEASED_PARTITIONS = 2  # it waits for partitions that others still have


class ConsumerGroupState(StrEnum):
    """Where a group stands; the values are the names that Kafka's tools print."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class HeartbeatRefused(Exception):
    """A heartbeat that changes nothing and is answered with an error."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        """Keep what the answer says."""
        super().__init__(message)
        self.error_code = error_code
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """ConsumerGroupHeartbeat. None means "as before"; `owned` is what the member says that it has.

    `hidden_topics` are those that it has no right to hear of, whatever its regular expression matches.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NO_REBALANCE_TIMEOUT
    subscribed_names: frozenset[str] | None = None
    subscribed_regex: str | None = None
    server_assignor: str | None = None
    owned: frozenset[TopicIdPartition] | None = None
    # Looked up before the call, since the core knows nothing of rights.
    hidden_topics: frozenset[str] = frozenset()
    client_id: str = ""
    client_host: str = ""
    api_version: int = 1

    @property
    def is_leaving(self) -> bool:
        """Say whether the member goes, for good or for a while."""
        return self.member_epoch in (EPOCH_LEAVE, EPOCH_LEAVE_STATIC)

    @property
    def is_full(self) -> bool:
        """Say whether the heartbeat is complete, so that its answer has to be complete as well."""
        is_subscribing = self.subscribed_names is not None or self.subscribed_regex is not None
        is_complete = self.rebalance_timeout_ms != NO_REBALANCE_TIMEOUT and is_subscribing and self.owned is not None
        return self.member_epoch == EPOCH_JOIN or is_complete


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """`assignment` is None when it has not changed."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: frozenset[TopicIdPartition] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerMember:
    """One member of ConsumerGroupDescribe."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_names: tuple[str, ...]
    subscribed_regex: str
    assignment: frozenset[TopicIdPartition]
    target: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    """One group of ConsumerGroupDescribe."""

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumerMember, ...] = ()

"""The classic group protocol and committed offsets: one instance per partition of `__consumer_offsets`."""

from collections.abc import Callable, Iterable, Sequence

from semel.broker.group_types import (
    CommitRequest,
    DeleteOffsetsRequest,
    DescribedGroup,
    Effect,
    FetchedOffset,
    FetchOffsetsRequest,
    GroupSettings,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    ListedGroup,
    LoadedMarker,
    LoadedRecord,
    SyncRequest,
    TxnCommitRequest,
)
from semel.protocol.error_codes import ErrorCode


class GroupCoordinator:
    """Every call gets the time and returns effects; nothing here waits, reads a clock or touches a socket."""

    def __init__(self, settings: GroupSettings, new_uuid: Callable[[], str]) -> None:
        """`new_uuid` gives the random part of member ids."""

    def join(self, token: int, request: JoinRequest, now_ms: int) -> list[Effect]:
        """JoinGroup; answered when the join phase ends."""
        raise NotImplementedError

    def sync(self, token: int, request: SyncRequest, now_ms: int) -> list[Effect]:
        """SyncGroup; answered when the leader's assignment is durable."""
        raise NotImplementedError

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        """Keep the member's session alive."""
        raise NotImplementedError

    def leave(self, token: int, request: LeaveRequest, now_ms: int) -> list[Effect]:
        """LeaveGroup; answered at once."""
        raise NotImplementedError

    def commit_offsets(self, token: int, request: CommitRequest, now_ms: int) -> list[Effect]:
        """OffsetCommit; answered when durable, and visible from then on."""
        raise NotImplementedError

    def commit_offsets_in_transaction(self, token: int, request: TxnCommitRequest, now_ms: int) -> list[Effect]:
        """TxnOffsetCommit; answered when durable, visible when the transaction commits."""
        raise NotImplementedError

    def complete_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The transaction's marker is durable in this partition: show its offsets or drop them."""
        raise NotImplementedError

    def fetch_offsets(self, request: FetchOffsetsRequest) -> tuple[FetchedOffset, ...]:
        """OffsetFetch."""
        raise NotImplementedError

    def delete_offsets(self, token: int, request: DeleteOffsetsRequest, now_ms: int) -> list[Effect]:
        """OffsetDelete."""
        raise NotImplementedError

    def delete_group(self, token: int, group_id: str, now_ms: int) -> list[Effect]:
        """One group of DeleteGroups."""
        raise NotImplementedError

    def describe_group(self, group_id: str, *, api_version: int = 5) -> DescribedGroup:
        """One group of DescribeGroups."""
        raise NotImplementedError

    def list_groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> tuple[ListedGroup, ...]:
        """ListGroups; empty filters let everything through."""
        raise NotImplementedError

    def topic_deleted(self, topic: str, now_ms: int) -> list[Effect]:
        """Every group forgets its offsets of a topic that is gone."""
        raise NotImplementedError

    def appended(self, append_token: int, error_code: ErrorCode, base_offset: int, now_ms: int) -> list[Effect]:
        """The fate of an `AppendRecords` is known: durable (NONE) or not in the log. Report in log order."""
        raise NotImplementedError

    def append_timed_out(self, append_token: int, now_ms: int) -> list[Effect]:
        """Durability took too long: the waiting request gets an error, the fate stays open until `appended`."""
        raise NotImplementedError

    def tick(self, now_ms: int) -> list[Effect]:
        """Act on every deadline that has passed."""
        raise NotImplementedError

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do next."""
        raise NotImplementedError

    def load(self, records: Iterable[LoadedRecord | LoadedMarker], now_ms: int) -> list[Effect]:
        """Rebuild everything from the partition, oldest record first."""
        raise NotImplementedError

    def unload(self) -> list[Effect]:
        """Another broker leads the partition now: answer everyone NOT_COORDINATOR and forget all."""
        raise NotImplementedError

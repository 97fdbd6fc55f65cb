"""Both group protocols and committed offsets: one instance per partition of `__consumer_offsets`.

A pure state machine that behaves as Apache Kafka 4's coordinator does. Classic groups are in `classic/`, groups of the
consumer protocol (KIP-848) in `consumer/`, committed offsets in `offsets/`. `shell` turns wire requests into the values
of the `types` modules, sends each `Answer`, appends each `AppendRecords` in the order given, and calls `tick` when
`next_deadline_ms` has come.

Keeps: G1 to G12, each explained in the module that keeps it: `core`, `deletion`, `classic/rebalance`,
       `offsets/commits` and the modules of `consumer/`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from semel.broker.groups.classic.membership import Membership
from semel.broker.groups.classic.rebalance import Rebalance
from semel.broker.groups.classic.state import Group
from semel.broker.groups.classic.types import (
    DescribedGroup,
    GroupState,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    SyncRequest,
)
from semel.broker.groups.consumer.protocol import ConsumerGroups
from semel.broker.groups.consumer.refusals import error_for_fetch
from semel.broker.groups.consumer.types import ConsumerHeartbeat, DescribedConsumerGroup
from semel.broker.groups.core import AppendFate, GroupCore
from semel.broker.groups.deletion import Deletions
from semel.broker.groups.offsets.commits import Commits
from semel.broker.groups.offsets.types import (
    CommitRequest,
    DeleteOffsetsRequest,
    FetchedOffset,
    FetchOffsetsRequest,
    TxnCommitRequest,
)
from semel.broker.groups.replay import adopt_offsets, replay
from semel.broker.groups.timers import TimerKey, TimerKind
from semel.broker.groups.types import (
    CONSUMER_PROTOCOL_TYPE,
    Effect,
    GroupSettings,
    Later,
    ListedGroup,
    LoadedMarker,
    LoadedRecord,
)
from semel.broker.metadata.cluster_state import ClusterState
from semel.protocol.error_codes import ErrorCode

DESCRIBE_VERSION_GROUP_ID_NOT_FOUND = 6
CLASSIC, CONSUMER = "classic", "consumer"  # group types as ListGroups names them


class GroupCoordinator:
    """Every call gets the time and returns effects; nothing here waits, reads a clock or touches a socket."""

    def __init__(
        self, settings: GroupSettings, new_uuid: Callable[[], str], cluster: Callable[[], ClusterState]
    ) -> None:
        """`new_uuid` gives the random part of member ids, `cluster` the topics as they are now."""
        self._core = GroupCore(settings, new_uuid, cluster)
        self._rebalance = Rebalance(self._core)
        self._consumers = ConsumerGroups(self._core)
        self._membership = Membership(self._core, self._rebalance, self._consumers)
        self._commits = Commits(self._core)
        self._deletions = Deletions(self._core)

    def consumer_heartbeat(self, token: int, heartbeat: ConsumerHeartbeat, now_ms: int) -> list[Effect]:
        """ConsumerGroupHeartbeat; answered when what it changed is durable."""
        # The parts read the time from here, so that one call has one time.
        self._core.now_ms = now_ms
        self._consumers.heartbeat(token, heartbeat)
        return self._core.drain()

    def join(self, token: int, request: JoinRequest, now_ms: int) -> list[Effect]:
        """JoinGroup; answered when the join phase ends."""
        self._core.now_ms = now_ms
        self._membership.join(token, request)
        return self._core.drain()

    def sync(self, token: int, request: SyncRequest, now_ms: int) -> list[Effect]:
        """SyncGroup; answered when the leader's assignment is durable."""
        self._core.now_ms = now_ms
        self._membership.sync(token, request)
        return self._core.drain()

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        """Keep the member's session alive."""
        self._core.now_ms = now_ms
        return self._membership.heartbeat(request)

    def leave(self, token: int, request: LeaveRequest, now_ms: int) -> list[Effect]:
        """LeaveGroup; answered at once."""
        self._core.now_ms = now_ms
        self._membership.leave(token, request)
        return self._core.drain()

    def commit_offsets(self, token: int, request: CommitRequest, now_ms: int) -> list[Effect]:
        """OffsetCommit; answered when durable, and visible from then on."""
        self._core.now_ms = now_ms
        self._commits.commit(token, request)
        return self._core.drain()

    def commit_offsets_in_transaction(self, token: int, request: TxnCommitRequest, now_ms: int) -> list[Effect]:
        """TxnOffsetCommit; answered when durable, visible when the transaction commits."""
        self._core.now_ms = now_ms
        self._commits.commit_in_transaction(token, request)
        return self._core.drain()

    def complete_transaction(self, producer_id: int, *, commit: bool, marker_offset: int | None = None) -> None:
        """The transaction's marker is durable in this partition: show its offsets or drop them.

        A commit whose append was not reported yet is judged by the offsets of both when it is; without
        `marker_offset` it is taken to stand before the marker.
        """
        self._core.offsets.complete(producer_id, commit=commit, marker_offset=marker_offset)

    def error_for_fetch(self, request: FetchOffsetsRequest) -> ErrorCode:
        """Whether a member may fetch offsets: only the consumer protocol asks who it is."""
        consumer = self._core.consumer_group(request.group_id)
        return ErrorCode.NONE if consumer is None else error_for_fetch(consumer, request)

    def fetch_offsets(self, request: FetchOffsetsRequest) -> tuple[FetchedOffset, ...]:
        """OffsetFetch."""
        return self._core.offsets.fetch(request)

    def delete_offsets(self, token: int, request: DeleteOffsetsRequest, now_ms: int) -> list[Effect]:
        """OffsetDelete."""
        self._core.now_ms = now_ms
        self._deletions.delete_offsets(token, request)
        return self._core.drain()

    def delete_group(self, token: int, group_id: str, now_ms: int) -> list[Effect]:
        """One group of DeleteGroups."""
        self._core.now_ms = now_ms
        self._deletions.delete_group(token, group_id)
        return self._core.drain()

    def describe_group(self, group_id: str, *, api_version: int = 5) -> DescribedGroup:
        """One group of DescribeGroups."""
        # Versions below 6 call a group that does not exist Dead, later ones say so.
        group = self._core.groups.get(group_id)
        if group is not None and group.state is not GroupState.DEAD:
            return group.described()
        if api_version < DESCRIBE_VERSION_GROUP_ID_NOT_FOUND:
            return DescribedGroup(group_id=group_id, state=GroupState.DEAD)
        # DescribeGroups is about classic groups alone. The others are described by ConsumerGroupDescribe.
        is_consumer = self._core.consumer_group(group_id) is not None
        return DescribedGroup(
            group_id=group_id,
            state=GroupState.DEAD,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {'is not a classic group' if is_consumer else 'not found'}.",
        )

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        """One group of ConsumerGroupDescribe."""
        return self._consumers.describe(group_id)

    def list_groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> tuple[ListedGroup, ...]:
        """ListGroups; empty filters let everything through."""
        wanted_states = {state.lower() for state in states}
        wanted_types = {name.lower() for name in types}
        return tuple(
            group
            for group in self._all_listed()
            if (not wanted_states or group.state.lower() in wanted_states)
            and (not wanted_types or group.group_type in wanted_types)
        )

    def _all_listed(self) -> Iterator[ListedGroup]:
        for group in self._core.groups.values():
            protocol_type = group.protocol_type or ""
            yield ListedGroup(
                group_id=group.group_id, protocol_type=protocol_type, state=group.state, group_type=CLASSIC
            )
        for consumer in self._core.current_consumer_groups():
            yield ListedGroup(
                group_id=consumer.group_id,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                state=consumer.state(),
                group_type=CONSUMER,
            )

    def topic_deleted(self, topic: str, now_ms: int) -> list[Effect]:
        """Every group forgets its offsets of a topic that is gone."""
        self._core.now_ms = now_ms
        self._deletions.forget_topic(topic)
        return self._core.drain()

    def topics_with_offsets(self) -> set[str]:
        """Every topic that any group has offsets of."""
        return self._core.offsets.topics()

    def resume(self, later: Later, now_ms: int) -> list[Effect]:
        """The next part of work that is too long for one stretch."""
        self._core.now_ms = now_ms
        later.work()
        return self._core.drain()

    def appended(self, append_token: int, error_code: ErrorCode, base_offset: int, now_ms: int) -> list[Effect]:
        """The fate of an `AppendRecords` is known: durable (NONE) or not in the log. Report in log order."""
        self._core.now_ms = now_ms
        fate = AppendFate(error_code=error_code, base_offset=base_offset)
        self._core.appended(append_token, fate)
        return self._core.drain()

    def append_timed_out(self, append_token: int, now_ms: int) -> list[Effect]:
        """Durability took too long: the waiting request gets an error, the fate stays open until `appended`."""
        self._core.now_ms = now_ms
        self._core.append_timed_out(append_token)
        return self._core.drain()

    def tick(self, now_ms: int) -> list[Effect]:
        """Act on every deadline that has passed."""
        self._core.now_ms = now_ms
        for key in self._core.timers.pop_due(now_ms):
            self._expire(key)
        return self._core.drain()

    def _expire(self, key: TimerKey) -> None:
        group = self._core.groups.get(key.group_id)
        if key.kind is TimerKind.RETENTION:
            self._deletions.expire_offsets()
        # It is no classic group, so it is one of the consumer protocol: no group id is both.
        elif group is None:
            self._consumers.expire(key)
        elif key.kind is TimerKind.SESSION:
            self._rebalance.expire_session(group, key.member_id)
        elif key.kind is TimerKind.JOIN:
            self._rebalance.expire_join(group)
        else:
            self._rebalance.expire_sync(group)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do next."""
        return self._core.timers.next_deadline_ms()

    def load(self, records: Iterable[LoadedRecord | LoadedMarker], now_ms: int) -> list[Effect]:
        """Rebuild everything from the partition, oldest record first."""
        self._core.now_ms = now_ms
        for record in records:
            self._core.note_loaded(record.offset)
            # In log order, so that a marker finds the offsets of its own transaction, and of no later one.
            if isinstance(record, LoadedMarker):
                self._core.offsets.complete(record.producer_id, commit=record.commit)
            else:
                replay(self._core, record)
        # After all records: only now it is known which offsets have no group of either protocol.
        adopt_offsets(self._core)
        self._consumers.watch_loaded()
        for group in list(self._core.groups.values()):
            self._watch_loaded(group)
        return self._core.drain()

    def _watch_loaded(self, group: Group) -> None:
        """Give every member a full session to come back; shrink a group that is too large by now."""
        # Nobody knows how long a member was silent while no coordinator listened.
        for member in group.members.values():
            self._core.keep_session(group, member.member_id, member.session_timeout_ms)
        if len(group.members) > self._core.settings.group_members_max:
            self._rebalance.prepare(group)

    def unload(self) -> list[Effect]:
        """Another broker leads the partition now: answer everyone NOT_COORDINATOR and forget all."""
        for group in self._core.groups.values():
            for member_id in list(group.members):
                # Which answers their waiting JoinGroup and SyncGroup.
                self._rebalance.remove_member(group, member_id, ErrorCode.NOT_COORDINATOR)
        self._core.abandon(ErrorCode.NOT_COORDINATOR)
        return self._core.drain()

"""Groups of the consumer protocol: heartbeats, deadlines, and how an empty group changes its protocol.

A group id is of one protocol. An empty group changes it when somebody joins by the other one; a group with members
does not, as in Apache Kafka with `group.consumer.migration.policy=disabled`.

Keeps: G5 nobody waits for ever: a member that is silent, or does not give up what it should, is fenced.
"""

from collections.abc import Callable, Iterable

from semel.broker.groups.classic.state import Group
from semel.broker.groups.classic.types import NO_MEMBER_ID, GroupState, LeaveResponse, LeavingMember
from semel.broker.groups.consumer.assignors import DEFAULT_ASSIGNOR
from semel.broker.groups.consumer.changes import Draft, fence, forget_group
from semel.broker.groups.consumer.heartbeat import Conditions, apply_heartbeat, apply_leave
from semel.broker.groups.consumer.refusals import check_request
from semel.broker.groups.consumer.state import ConsumerGroup, ConsumerMember
from semel.broker.groups.consumer.types import (
    EPOCH_JOIN,
    ConsumerHeartbeat,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    HeartbeatAnswer,
    HeartbeatRefused,
    MemberState,
)
from semel.broker.groups.core import AppendFate, GroupCore, no_answer
from semel.broker.groups.records import group_record
from semel.broker.groups.timers import TimerKey, TimerKind
from semel.broker.groups.types import CoordinatorRecord
from semel.protocol.error_codes import ErrorCode


class ConsumerGroups:
    """Judges heartbeats and writes what they change."""

    def __init__(self, core: GroupCore) -> None:
        """Work on the shared state."""
        self._core = core

    def heartbeat(self, token: int, heartbeat: ConsumerHeartbeat) -> None:
        """ConsumerGroupHeartbeat; answered when what it changed is durable."""
        try:
            check_request(heartbeat)
            group, replaced = self._find(heartbeat)
            draft = Draft(group)
            response = self._plan(draft, heartbeat)
        except HeartbeatRefused as refused:
            refusal = HeartbeatAnswer(error_code=refused.error_code, error_message=refused.message)
            self._core.answer(token, refusal)
            return

        def answer(error_code: ErrorCode) -> None:
            failed = HeartbeatAnswer(error_code=error_code)
            self._core.answer(token, response if error_code is ErrorCode.NONE else failed)

        if draft.records:
            self._write(draft, answer, replaced)
        else:
            # Most heartbeats change nothing, and nothing has to be written for them.
            answer(ErrorCode.NONE)
        # Also if the records are not durable in the end: the member was heard of.
        self._watch(heartbeat, response, draft)

    def _find(self, heartbeat: ConsumerHeartbeat) -> tuple[ConsumerGroup, Group | None]:
        """The group of a heartbeat, and the empty classic group that it replaces."""
        group = self._core.consumer_group(heartbeat.group_id)
        if group is not None:
            return group, None
        classic = self._core.groups.get(heartbeat.group_id)
        if classic is not None and classic.state is GroupState.DEAD:
            raise HeartbeatRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Group {heartbeat.group_id} is being deleted.")
        # A member of a group that is not known here: it starts over.
        if heartbeat.member_epoch != EPOCH_JOIN:
            text = f"Group {heartbeat.group_id} not found." if classic is None else _not_consumer(heartbeat.group_id)
            raise HeartbeatRefused(ErrorCode.GROUP_ID_NOT_FOUND, text)
        if classic is not None and classic.state is not GroupState.EMPTY:
            text = (
                f"Cannot upgrade classic group {heartbeat.group_id} to consumer group because online upgrade is "
                "disabled."
            )
            raise HeartbeatRefused(ErrorCode.GROUP_ID_NOT_FOUND, text)
        return ConsumerGroup(group_id=heartbeat.group_id), classic

    def _plan(self, draft: Draft, heartbeat: ConsumerHeartbeat) -> HeartbeatAnswer:
        settings, cluster = self._core.settings, self._core.cluster()
        entry = self._core.consumer_entries.get(heartbeat.group_id)
        conditions = Conditions(
            cluster=cluster,
            # While the cluster's state is the same, no topic can have changed.
            is_fresh=entry is not None and entry.checked_version == cluster.version,
            now_ms=self._core.now_ms,
            members_max=settings.consumer_group_members_max,
            heartbeat_interval_ms=settings.consumer_heartbeat_interval_ms,
            new_uuid=self._core.new_uuid,
        )
        if heartbeat.is_leaving:
            return apply_leave(draft, heartbeat, conditions)
        response = apply_heartbeat(draft, heartbeat, conditions)
        self._core.consumer_entry(heartbeat.group_id).checked_version = cluster.version
        return response

    def _watch(self, heartbeat: ConsumerHeartbeat, response: HeartbeatAnswer, draft: Draft) -> None:
        """Set the deadlines of a member after its heartbeat; none if it has left."""
        member_id = response.member_id or heartbeat.member_id
        member = draft.group.members.get(member_id)
        if member is None:
            self._forget_deadlines(heartbeat.group_id, member_id)
        elif not heartbeat.is_leaving:
            self._watch_member(heartbeat.group_id, member, has_moved=bool(draft.records))

    def _watch_member(self, group_id: str, member: ConsumerMember, *, has_moved: bool) -> None:
        timers, now_ms = self._core.timers, self._core.now_ms
        session_ms = self._core.settings.consumer_session_timeout_ms
        # The broker sets the session's length here; in the classic protocol each client chooses its own (KIP-848).
        timers.schedule(TimerKey(TimerKind.SESSION, group_id, member.member_id), now_ms + session_ms)
        revocation = TimerKey(TimerKind.REVOCATION, group_id, member.member_id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            timers.cancel(revocation)
        # The time runs from the moment when it was asked to give them up, not from its last heartbeat.
        elif has_moved or revocation not in timers:
            timers.schedule(revocation, now_ms + max(member.rebalance_timeout_ms, 1))

    def _forget_deadlines(self, group_id: str, member_id: str) -> None:
        for kind in (TimerKind.SESSION, TimerKind.REVOCATION):
            self._core.timers.cancel(TimerKey(kind, group_id, member_id))

    def watch_loaded(self) -> None:
        """Give every member of every group a full session to come back after a restart."""
        for group in self._core.current_consumer_groups():
            for member in group.members.values():
                self._watch_member(group.group_id, member, has_moved=True)

    def expire(self, key: TimerKey) -> None:
        """Fence a member whose deadline has passed."""
        group = self._core.consumer_group(key.group_id)
        member = None if group is None else group.members.get(key.member_id)
        if group is None or member is None:
            return
        # It may have given up what it should just before its time was up.
        is_late = key.kind is TimerKind.SESSION or member.state is MemberState.UNREVOKED_PARTITIONS
        if is_late:
            self._fence(group, [member.member_id])

    def _fence(self, group: ConsumerGroup, member_ids: Iterable[str]) -> None:
        draft = Draft(group)
        gone = list(member_ids)
        fence(draft, gone, self._core.cluster())
        self._write(draft, no_answer)
        for member_id in gone:
            self._forget_deadlines(group.group_id, member_id)

    def _write(self, draft: Draft, answer: Callable[[ErrorCode], None], replaced: Group | None = None) -> None:
        """Write a draft; a classic group that it replaces is gone, and back if the records never become durable."""
        group_id = draft.group.group_id
        tombstones: tuple[CoordinatorRecord, ...] = ()
        if replaced is not None:
            tombstones = (group_record(group_id, None),)
            # At once: the next request must already find the new group.
            self._core.forget_group(group_id)

        def applied(fate: AppendFate) -> None:
            # If somebody made the group again meanwhile, that one stays.
            if replaced is not None and not fate.is_durable and group_id not in self._core.consumer_entries:
                self._core.groups.setdefault(group_id, replaced)

        self._core.append_consumer_records(
            group_id, tuple(draft.records), before=tombstones, answer=answer, applied=applied
        )

    def leave(self, token: int, group: ConsumerGroup, leaving: Iterable[LeavingMember]) -> None:
        """LeaveGroup: an administrator removes members."""
        found = [_judge_leaving(group, row) for row in leaving]
        gone = [member_id for member_id, error_code in found if error_code is ErrorCode.NONE]
        self._core.answer(token, LeaveResponse(results=tuple(error_code for _, error_code in found)))
        if gone:
            # Each once, in the order of the request; a set would have no order that repeats.
            self._fence(group, dict.fromkeys(gone))

    def delete_for_classic(self, group: ConsumerGroup) -> None:
        """An empty group becomes a classic one: its records go, its offsets stay.

        Nothing depends on these records: a classic group that is written later replaces what is left of this one.
        """
        draft = Draft(group)
        forget_group(draft)
        self._write(draft, no_answer)

    def describe(self, group_id: str) -> DescribedConsumerGroup:
        """One group of ConsumerGroupDescribe, as far as it is durable."""
        entry = self._core.consumer_entries.get(group_id)
        group = None if entry is None else entry.durable
        if group is None:
            message = _not_consumer(group_id) if group_id in self._core.groups else f"Group {group_id} not found."
            return DescribedConsumerGroup(
                group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message
            )
        return DescribedConsumerGroup(
            group_id=group_id,
            state=group.state(),
            epoch=group.epoch,
            target_epoch=group.target_epoch,
            assignor=group.assignor(DEFAULT_ASSIGNOR),
            members=tuple(_described(group, member) for member in group.members.values()),
        )


def _not_consumer(group_id: str) -> str:
    return f"Group {group_id} is not a consumer group."


def _judge_leaving(group: ConsumerGroup, leaving: LeavingMember) -> tuple[str, ErrorCode]:
    if leaving.group_instance_id is None:
        is_known = leaving.member_id in group.members
        return leaving.member_id, ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_MEMBER_ID
    static = group.static_member(leaving.group_instance_id)
    if static is None:
        return leaving.member_id, ErrorCode.UNKNOWN_MEMBER_ID
    is_same = leaving.member_id in (NO_MEMBER_ID, static.member_id)
    return static.member_id, ErrorCode.NONE if is_same else ErrorCode.FENCED_INSTANCE_ID


def _described(group: ConsumerGroup, member: ConsumerMember) -> DescribedConsumerMember:
    return DescribedConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_names=tuple(sorted(member.subscribed_names)),
        subscribed_regex=member.subscribed_regex or "",
        assignment=frozenset(member.assigned) | frozenset(member.revoking),
        target=group.target_of(member.member_id),
    )

"""Groups of the consumer protocol beside the classic ones: heartbeats, deadlines, conversions, who may commit.

A group id is one or the other. An empty group changes sides when somebody joins it by the other protocol; one with
members does not, as in Apache Kafka with `group.consumer.migration.policy=disabled`.

Keeps: G5 nobody waits for ever: a member that is silent, or does not give up what it should, is fenced.
"""

from collections.abc import Callable, Iterable

from semel.broker.consumer_group_assignors import DEFAULT_ASSIGNOR
from semel.broker.consumer_group_draft import Draft, bury, fence
from semel.broker.consumer_group_heartbeat import Around, beat_once, leave_once
from semel.broker.consumer_group_judge import check_request
from semel.broker.consumer_group_state import ConsumerGroup, ConsumerMember
from semel.broker.consumer_group_types import (
    EPOCH_JOIN,
    Beat,
    BeatRefused,
    BeatResponse,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    MemberState,
)
from semel.broker.group_core import AppendFate, GroupCore, no_answer
from semel.broker.group_records import group_record
from semel.broker.group_state import Group
from semel.broker.group_timers import TimerKey, TimerKind
from semel.broker.group_types import (
    NO_MEMBER_ID,
    CoordinatorRecord,
    GroupState,
    LeaveResponse,
    LeavingMember,
)
from semel.protocol.error_codes import ErrorCode


class ConsumerGroups:
    """Judges heartbeats and writes what they change."""

    def __init__(self, core: GroupCore) -> None:
        """Work on the shared state."""
        self._core = core

    def beat(self, token: int, beat: Beat) -> None:
        """ConsumerGroupHeartbeat; answered when what it changed is durable."""
        try:
            check_request(beat)
            group, replaced = self._find(beat)
            draft = Draft(group)
            response = self._plan(draft, beat)
        except BeatRefused as refused:
            refusal = BeatResponse(error_code=refused.error_code, error_message=refused.message)
            self._core.answer(token, refusal)
            return

        def answer(error_code: ErrorCode) -> None:
            failed = BeatResponse(error_code=error_code)
            self._core.answer(token, response if error_code is ErrorCode.NONE else failed)

        if draft.records:
            self._write(draft, answer, replaced)
        else:
            answer(ErrorCode.NONE)
        self._watch(beat, response, draft)

    def _find(self, beat: Beat) -> tuple[ConsumerGroup, Group | None]:
        """The group, and the empty classic one whose place it takes."""
        group = self._core.consumer_group(beat.group_id)
        if group is not None:
            return group, None
        classic = self._core.groups.get(beat.group_id)
        if classic is not None and classic.state is GroupState.DEAD:
            raise BeatRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Group {beat.group_id} is being deleted.")
        if beat.member_epoch != EPOCH_JOIN:
            text = f"Group {beat.group_id} not found." if classic is None else _not_consumer(beat.group_id)
            raise BeatRefused(ErrorCode.GROUP_ID_NOT_FOUND, text)
        if classic is not None and classic.state is not GroupState.EMPTY:
            text = f"Cannot upgrade classic group {beat.group_id} to consumer group because online upgrade is disabled."
            raise BeatRefused(ErrorCode.GROUP_ID_NOT_FOUND, text)
        return ConsumerGroup(group_id=beat.group_id), classic

    def _plan(self, draft: Draft, beat: Beat) -> BeatResponse:
        settings, cluster = self._core.settings, self._core.cluster()
        slot = self._core.consumer_slots.get(beat.group_id)
        around = Around(
            cluster=cluster,
            is_fresh=slot is not None and slot.checked_version == cluster.version,
            now_ms=self._core.now_ms,
            members_max=settings.consumer_group_members_max,
            heartbeat_interval_ms=settings.consumer_heartbeat_interval_ms,
            new_uuid=self._core.new_uuid,
        )
        if beat.is_leaving:
            return leave_once(draft, beat, around)
        response = beat_once(draft, beat, around)
        self._core.consumer_slot(beat.group_id).checked_version = cluster.version
        return response

    def _watch(self, beat: Beat, response: BeatResponse, draft: Draft) -> None:
        """Set the member's deadlines by what has become of it."""
        member_id = response.member_id or beat.member_id
        member = draft.group.members.get(member_id)
        if member is None:
            self._forget_deadlines(beat.group_id, member_id)
        elif not beat.is_leaving:
            self._watch_member(beat.group_id, member, has_moved=bool(draft.records))

    def _watch_member(self, group_id: str, member: ConsumerMember, *, has_moved: bool) -> None:
        timers, now_ms = self._core.timers, self._core.now_ms
        session_ms = self._core.settings.consumer_session_timeout_ms
        timers.schedule(TimerKey(TimerKind.SESSION, group_id, member.member_id), now_ms + session_ms)
        revocation = TimerKey(TimerKind.REVOCATION, group_id, member.member_id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            timers.cancel(revocation)
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
            self._core.forget_group(group_id)

        def applied(fate: AppendFate) -> None:
            if replaced is not None and not fate.is_durable and group_id not in self._core.consumer_slots:
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
            self._fence(group, dict.fromkeys(gone))

    def make_way(self, group: ConsumerGroup) -> None:
        """An empty group becomes a classic one: its records go, its offsets stay.

        Nothing depends on these records: a classic group that is written later replaces what is left of this one.
        """
        draft = Draft(group)
        bury(draft)
        self._write(draft, no_answer)

    def describe(self, group_id: str) -> DescribedConsumerGroup:
        """One group of ConsumerGroupDescribe, as far as it is durable."""
        slot = self._core.consumer_slots.get(group_id)
        group = None if slot is None else slot.durable
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

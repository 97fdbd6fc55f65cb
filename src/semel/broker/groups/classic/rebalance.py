"""How a classic group gets from one generation to the next: join phase, sync phase, and who is dropped on the way.

Keeps: G3 a generation has one leader and one protocol; G4 an assignment goes only to members of its generation;
       G5 nobody waits for ever: every phase has a deadline.
Sources: KIP-62 (rebalance timeout), KIP-134 (initial delay), KIP-345 (static members).
"""

from semel.broker.groups.classic.member import Member
from semel.broker.groups.classic.state import Group
from semel.broker.groups.classic.types import GroupState, JoinResponse, SyncResponse
from semel.broker.groups.core import AppendFate, GroupCore, is_active, no_answer
from semel.broker.groups.records import group_record
from semel.broker.groups.timers import TimerKey, TimerKind
from semel.protocol.error_codes import ErrorCode


class Rebalance:
    """Moves groups between states; `membership` judges the requests that cause it."""

    def __init__(self, core: GroupCore) -> None:
        """Work on the shared state."""
        self._core = core

    def answer_join(self, member: Member, response: JoinResponse) -> None:
        """Answer the member's waiting JoinGroup, if it has one."""
        if member.join_token is not None:
            token, member.join_token = member.join_token, None
            self._core.answer(token, response)

    def answer_sync(self, member: Member, response: SyncResponse) -> None:
        """Answer the member's waiting SyncGroup, if it has one."""
        if member.sync_token is not None:
            token, member.sync_token = member.sync_token, None
            self._core.answer(token, response)

    def await_join(self, member: Member, token: int) -> None:
        """Let the member wait with this JoinGroup; an earlier one of it, sent before a broken connection, ends."""
        self.answer_join(member, JoinResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id))
        member.join_token = token

    def await_sync(self, member: Member, token: int) -> None:
        """Let the member wait with this SyncGroup; an earlier one of it ends."""
        self.answer_sync(member, SyncResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_token = token

    def remove_member(self, group: Group, member_id: str, error_code: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        """Drop a member or a pending one; what it waits for is answered, so that a live client starts over."""
        member = group.members.get(member_id)
        if member is not None:
            self.answer_join(member, JoinResponse(error_code=error_code))
            self.answer_sync(member, SyncResponse(error_code=error_code))
        group.remove(member_id)
        self._core.timers.cancel(TimerKey(TimerKind.SESSION, group.group_id, member_id))

    def after_removal(self, group: Group) -> None:
        """Let the group go on without those who were removed."""
        # A member that leaves changes who reads what, so the others need another generation.
        if is_active(group):
            self.prepare(group)
        else:
            self.complete_join_if_all_joined(group)

    def prepare_or_complete(self, group: Group) -> None:
        """Start a join phase; if there is one and all members have joined, end it."""
        if group.state is GroupState.PREPARING_REBALANCE:
            self.complete_join_if_all_joined(group)
        else:
            self.prepare(group)

    def prepare(self, group: Group) -> None:
        """Start a join phase."""
        # They wait for an assignment that will not come.
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._propagate_error(group, ErrorCode.REBALANCE_IN_PROGRESS)
        # A member that has not synced joins again in the phase that begins now, and is not dropped for it.
        group.pending_sync.clear()
        self._core.timers.cancel(TimerKey(TimerKind.SYNC, group.group_id))
        is_first = group.state is GroupState.EMPTY
        group.transition(GroupState.PREPARING_REBALANCE, self._core.now_ms)
        if is_first:
            self._hold_open(group)
        elif group.has_all_joined():
            self.complete_join(group)
        else:
            self._schedule_join(group, group.rebalance_timeout_ms())

    def _hold_open(self, group: Group) -> None:
        """Give the other members of a new group time to join as well."""
        delay_ms = self._core.settings.initial_rebalance_delay_ms
        if delay_ms == 0:
            self.complete_join(group)
            return
        group.new_member_added = False
        # KIP-134: every new member prolongs the delay, but all of it stays within the rebalance timeout.
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
        self._schedule_join(group, delay_ms)

    def _schedule_join(self, group: Group, delay_ms: int) -> None:
        self._core.timers.schedule(TimerKey(TimerKind.JOIN, group.group_id), self._core.now_ms + delay_ms)

    def expire_join(self, group: Group) -> None:
        """The join phase's time is up; the first one is held open longer while members keep coming."""
        left_ms = group.initial_delay_left_ms
        if left_ms and group.new_member_added:
            delay_ms = min(self._core.settings.initial_rebalance_delay_ms, left_ms)
            group.new_member_added = False
            group.initial_delay_left_ms = left_ms - delay_ms
            self._schedule_join(group, delay_ms)
        else:
            self.complete_join(group)

    def complete_join_if_all_joined(self, group: Group) -> None:
        """End the join phase early, unless it is held open for a new group."""
        is_join_phase = group.state is GroupState.PREPARING_REBALANCE
        if is_join_phase and group.initial_delay_left_ms is None and group.has_all_joined():
            self.complete_join(group)

    def complete_join(self, group: Group) -> None:
        """End the join phase: remove members that did not come back, but for static ones, and start the generation."""
        self._core.timers.cancel(TimerKey(TimerKind.JOIN, group.group_id))
        group.initial_delay_left_ms = None
        for member in list(group.members.values()):
            # A static member keeps its place until its session ends, so that a restart moves no partitions (KIP-345).
            if member.join_token is None and member.group_instance_id is None:
                self.remove_member(group, member.member_id)
        # Only static members are left and none of them has joined: nobody could make the assignment.
        if group.members and not group.elect_joined_leader():
            self._schedule_join(group, group.rebalance_timeout_ms())
            return
        group.start_generation(self._core.now_ms)
        if group.members:
            self._announce_generation(group)
        else:
            self._write_empty(group)

    def _announce_generation(self, group: Group) -> None:
        for member in group.members.values():
            self.answer_join(member, self.join_response(group, member.member_id))
            member.is_new = False
            group.pending_sync.add(member.member_id)
            # While it waited for the join phase its session was not counted.
            self._core.keep_session(group, member.member_id, member.session_timeout_ms)
        deadline_ms = self._core.now_ms + group.rebalance_timeout_ms()
        self._core.timers.schedule(TimerKey(TimerKind.SYNC, group.group_id), deadline_ms)

    def join_response(self, group: Group, member_id: str) -> JoinResponse:
        """Describe the current generation; the leader also learns who is in it."""
        return JoinResponse(
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader or "",
            member_id=member_id,
            members=group.joined_members() if group.leader == member_id else (),
        )

    def _write_empty(self, group: Group) -> None:
        """Record that nobody is left. Nothing depends on it: if it is lost, the members expire after a restart."""
        record = group_record(group.group_id, group.stored({}))
        self._core.append(group.group_id, (record,), apply=lambda _fate: None, answer=no_answer)

    def write_created(self, group: Group) -> None:
        """Record a group that somebody begins to join, so that a restart does not make it unknown to those who saw it.

        Nobody waits for the record, as in Apache Kafka: it holds nothing that was answered to a member.
        """
        group.state_timestamp_ms = self._core.now_ms
        self._write_empty(group)

    def sync_response(self, group: Group, member: Member) -> SyncResponse:
        """Give the member its assignment."""
        return SyncResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
        )

    def store_assignments(self, group: Group, assignments: dict[str, bytes]) -> None:
        """Write the leader's assignment; members get it when it is durable and still theirs."""
        # Set before the append: a second SyncGroup of the leader finds that its assignment is on the way.
        generation = group.stored_generation = group.generation

        def is_current() -> bool:
            # A newer generation may have begun while the record was on its way.
            is_same = self._core.groups.get(group.group_id) is group and group.generation == generation
            return is_same and group.state is GroupState.COMPLETING_REBALANCE

        def apply(fate: AppendFate) -> None:
            if fate.is_durable and is_current():
                self._propagate(group, assignments)

        def answer(error_code: ErrorCode) -> None:
            # After a timeout the record may become durable all the same. By then the next join phase has begun, so
            # `apply` gives its assignment to nobody.
            if error_code is not ErrorCode.NONE and is_current():
                self._propagate_error(group, error_code)
                self.prepare(group)

        record = group_record(group.group_id, group.stored(assignments))
        self._core.append(group.group_id, (record,), apply=apply, answer=answer)

    def _propagate(self, group: Group, assignments: dict[str, bytes]) -> None:
        group.transition(GroupState.STABLE, self._core.now_ms)
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            self._end_sync(group, member, self.sync_response(group, member))

    def _propagate_error(self, group: Group, error_code: ErrorCode) -> None:
        for member in group.members.values():
            member.assignment = b""
            self._end_sync(group, member, SyncResponse(error_code=error_code))

    def _end_sync(self, group: Group, member: Member, response: SyncResponse) -> None:
        """Answer, and watch the session again: its deadline may have passed unheeded while the member waited."""
        if member.sync_token is not None:
            self.answer_sync(member, response)
            self._core.keep_session(group, member.member_id, member.session_timeout_ms)

    def expire_sync(self, group: Group) -> None:
        """Drop the members that joined but never synced."""
        if not is_active(group) or not group.pending_sync:
            return
        # Sorted: a set has no order that repeats under one seed.
        for member_id in sorted(group.pending_sync):
            self.remove_member(group, member_id)
        self.prepare(group)

    def expire_session(self, group: Group, member_id: str) -> None:
        """Remove a member whose session has run out, unless it waits for our answer."""
        member = group.members.get(member_id)
        if member is not None and not member.may_expire():
            return
        was_pending = member_id in group.pending_join
        self.remove_member(group, member_id)
        # It never joined, so at most a join phase has waited for it.
        if was_pending:
            self.complete_join_if_all_joined(group)
        elif member is not None:
            self.after_removal(group)

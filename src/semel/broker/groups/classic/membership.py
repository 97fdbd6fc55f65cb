"""The requests of group members: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, judged as Apache Kafka 4 judges them.

Sources: KIP-394 (a member id before joining), KIP-345 (static members), KIP-814 (a static leader that comes back
         skips the assignment), KIP-559 (protocol type and name in SyncGroup).
"""

from semel.broker.groups.classic.member import Member
from semel.broker.groups.classic.rebalance import Rebalance
from semel.broker.groups.classic.state import Group
from semel.broker.groups.classic.types import (
    NO_MEMBER_ID,
    GroupState,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeaveResponse,
    LeavingMember,
    SyncRequest,
    SyncResponse,
)
from semel.broker.groups.consumer.protocol import ConsumerGroups
from semel.broker.groups.core import GroupCore
from semel.broker.groups.records import fits_string, group_record
from semel.broker.groups.timers import TimerKey, TimerKind
from semel.protocol.error_codes import ErrorCode

JOIN_VERSION_MEMBER_ID_REQUIRED = 4
JOIN_VERSION_SKIP_ASSIGNMENT = 9


class Membership:
    """Judges requests and starts what follows from them."""

    def __init__(self, core: GroupCore, rebalance: Rebalance, consumers: ConsumerGroups) -> None:
        """Work on the shared state."""
        self._core = core
        self._rebalance = rebalance
        self._consumers = consumers

    def join(self, token: int, request: JoinRequest) -> None:
        """JoinGroup."""
        error_code = self._error_for_join(request)
        consumer = self._core.consumer_group(request.group_id)
        if error_code is ErrorCode.NONE and consumer is not None and consumer.members:
            # Members of the consumer protocol are there, and the two protocols cannot share a generation.
            error_code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error_code is not ErrorCode.NONE:
            self._refuse_join(token, error_code, request.member_id)
            return
        if consumer is not None:
            self._consumers.delete_for_classic(consumer)
        is_created = request.group_id not in self._core.groups
        # The member remembers a group that this coordinator has forgotten. It starts over with a new id.
        if request.member_id != NO_MEMBER_ID and is_created:
            self._refuse_join(token, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            return
        group = self._core.group(request.group_id)
        if is_created:
            self._rebalance.write_created(group)
        self._join_group(group, token, request)

    def _error_for_join(self, request: JoinRequest) -> ErrorCode:
        settings = self._core.settings
        error_code = self._core.error_for_group_id(request.group_id)
        if error_code is not ErrorCode.NONE:
            return error_code
        # A session that is too short fences members for a pause of the garbage collector, one that is too long keeps
        # the partitions of a dead member from everybody.
        if not settings.session_timeout_ms_min <= request.session_timeout_ms <= settings.session_timeout_ms_max:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        names = (protocol.name for protocol in request.protocols)
        # The member id that is made of it must fit a record, too.
        instance_and_uuid = f"{request.group_instance_id or request.client_id}-{'u' * 36}"
        fits = fits_string(request.protocol_type, request.client_host, instance_and_uuid, *names)
        return ErrorCode.NONE if fits else ErrorCode.INVALID_REQUEST

    def _refuse_join(self, token: int, error_code: ErrorCode, member_id: str) -> None:
        self._core.answer(token, JoinResponse(error_code=error_code, member_id=member_id))

    def _join_group(self, group: Group, token: int, request: JoinRequest) -> None:
        if group.state is GroupState.DEAD:
            self._refuse_join(token, ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id)
        elif not self._has_room(group, request.member_id):
            self._refuse_join(token, ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER_ID)
            # It had an id but no place yet. Those who wait for it must not wait on.
            self._rebalance.remove_member(group, request.member_id)
            self._rebalance.complete_join_if_all_joined(group)
        elif not group.supports(request.protocol_type, request.protocols):
            self._refuse_join(token, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        elif request.member_id == NO_MEMBER_ID:
            self._join_new(group, token, request)
        # The second JoinGroup of KIP-394, with the id that the first one gave.
        elif request.member_id in group.pending_join and request.group_instance_id is None:
            self._add(group, Member.joining(request.member_id, request), token, request)
        else:
            self._rejoin(group, token, request)

    def _has_room(self, group: Group, member_id: str) -> bool:
        """Whether group.max.size allows this member; in a join phase those who came back first stay."""
        members_max = self._core.settings.group_members_max
        member = group.members.get(member_id)
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                has_joined = member is not None and member.join_token is not None
                return has_joined or group.joined_count() < members_max
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return member is not None or len(group.members) < members_max
            case _:
                return True

    def _join_new(self, group: Group, token: int, request: JoinRequest) -> None:
        member_id = f"{request.group_instance_id or request.client_id}-{self._core.new_uuid()}"
        if request.group_instance_id in group.static_members:
            self._replace_static(group, member_id, token, request)
        # KIP-394: the id comes before the membership. A client that repeats its first JoinGroup after a lost answer
        # would otherwise leave a member behind that nobody speaks for.
        elif request.group_instance_id is None and request.api_version >= JOIN_VERSION_MEMBER_ID_REQUIRED:
            # The id lapses with its session: a client that asked for one and went away must
            # not hold up the join phase for ever.
            group.pending_join.add(member_id)
            self._core.keep_session(group, member_id, request.session_timeout_ms)
            self._refuse_join(token, ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            self._add(group, Member.joining(member_id, request), token, request)

    def _add(self, group: Group, member: Member, token: int, request: JoinRequest) -> None:
        """Add a new member. It cannot send heartbeats before it is answered, so its wait has a limit of its own."""
        if not group.members:
            group.protocol_type = request.protocol_type
        # Prolongs the first join phase, see `expire_join`.
        group.new_member_added = group.initial_delay_left_ms is not None
        group.add(member)
        self._rebalance.await_join(member, token)
        self._core.keep_session(group, member.member_id, self._core.settings.new_member_join_timeout_ms)
        self._rebalance.prepare_or_complete(group)

    def _rejoin(self, group: Group, token: int, request: JoinRequest) -> None:
        error_code = group.error_for_member(request.member_id, request.group_instance_id)
        if error_code is not ErrorCode.NONE:
            self._refuse_join(token, error_code, request.member_id)
            return
        member = group.members[request.member_id]
        is_unchanged = member.protocols == request.protocols
        # A leader joins a stable group again when it has found something
        # that asks for another assignment, for example new partitions.
        leads_stable = group.state is GroupState.STABLE and group.leader == member.member_id
        if group.state is GroupState.PREPARING_REBALANCE or not is_unchanged or leads_stable:
            member.update(request)
            self._rebalance.await_join(member, token)
            self._rebalance.prepare_or_complete(group)
        else:
            # The answer to its first JoinGroup was lost: tell it about the generation that it is in.
            self._core.answer(token, self._rebalance.join_response(group, member.member_id))

    def _replace_static(self, group: Group, member_id: str, token: int, request: JoinRequest) -> None:
        """A static member came back under a new member id: the old id is fenced, its assignment stays."""
        member = group.members[group.static_members[request.group_instance_id or ""]]
        leader_before = group.leader or ""
        fenced = ErrorCode.FENCED_INSTANCE_ID
        self._rebalance.answer_join(member, JoinResponse(error_code=fenced, member_id=member.member_id))
        self._rebalance.answer_sync(member, SyncResponse(error_code=fenced))
        # By the old id, which nobody will send heartbeats with any more. The new one gets a session of its own below.
        self._core.timers.cancel(TimerKey(TimerKind.SESSION, group.group_id, member.member_id))
        group.replace_static(member, member_id)
        member.update(request)
        member.join_token = token
        self._core.keep_session(group, member_id, member.session_timeout_ms)
        # The others do not notice: same protocol, same assignment, no rebalance.
        if group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
            self._store_replacement(group, member, leader_before, request.api_version)
        else:
            self._rebalance.prepare_or_complete(group)

    def _store_replacement(self, group: Group, member: Member, leader_before: str, api_version: int) -> None:
        """Write the new member id before the member may use it.

        Why: when the append fails the new id is kept in memory. The client comes back with its instance id and tries
        again; going back to the old id would let in the one that was just fenced.
        """
        token = member.join_token

        def answer(error_code: ErrorCode) -> None:
            # It may have joined once more while the record was on its way.
            if member.join_token == token:
                response = self._replacement_response(group, member, leader_before, api_version)
                failed = JoinResponse(error_code=error_code)
                self._rebalance.answer_join(member, response if error_code is ErrorCode.NONE else failed)
                self._core.keep_session(group, member.member_id, member.session_timeout_ms)

        assignments = {m.member_id: m.assignment for m in group.members.values()}
        record = group_record(group.group_id, group.stored(assignments))
        self._core.append(group.group_id, (record,), apply=lambda _fate: None, answer=answer)

    def _replacement_response(self, group: Group, member: Member, leader_before: str, api_version: int) -> JoinResponse:
        response = self._rebalance.join_response(group, member.member_id)
        leads = group.leader == member.member_id
        return JoinResponse(
            generation=response.generation,
            protocol_type=response.protocol_type,
            protocol_name=response.protocol_name,
            # Older clients cannot skip the assignment: with the old leader's id they take themselves for a follower.
            leader=response.leader if api_version >= JOIN_VERSION_SKIP_ASSIGNMENT else leader_before,
            skip_assignment=leads and api_version >= JOIN_VERSION_SKIP_ASSIGNMENT,
            member_id=response.member_id,
            members=response.members if api_version >= JOIN_VERSION_SKIP_ASSIGNMENT else (),
        )

    def sync(self, token: int, request: SyncRequest) -> None:
        """SyncGroup."""
        group = self._core.groups.get(request.group_id)
        error_code = self._error_for_sync(group, request)
        if group is None or error_code is not ErrorCode.NONE:
            self._core.answer(token, SyncResponse(error_code=error_code))
            return
        member = group.members[request.member_id]
        group.pending_sync.discard(member.member_id)
        # The answer to an earlier SyncGroup was lost, or this member is late: the assignment is there already.
        if group.state is GroupState.STABLE:
            self._core.answer(token, self._rebalance.sync_response(group, member))
            return
        self._rebalance.await_sync(member, token)
        # Once for each generation: a leader that repeats itself could otherwise hand out two assignments.
        if group.leader == member.member_id and group.stored_generation != group.generation:
            given = dict(request.assignments)
            # Members that the leader left out get an empty assignment, and names that are no members are dropped (G4).
            self._rebalance.store_assignments(group, {name: given.get(name, b"") for name in group.members})

    def _error_for_sync(self, group: Group | None, request: SyncRequest) -> ErrorCode:
        error_code = self._error_for_generation(group, request)
        if group is None or error_code is not ErrorCode.NONE:
            return error_code
        # None is what versions before 5 send.
        if request.protocol_type not in (None, group.protocol_type):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol_name not in (None, group.protocol_name):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        is_joining = group.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if is_joining else ErrorCode.NONE

    def _error_for_generation(self, group: Group | None, request: SyncRequest | HeartbeatRequest) -> ErrorCode:
        error_code = self._core.error_for_group_id(request.group_id)
        if error_code is not ErrorCode.NONE:
            return error_code
        if group is None or group.state is GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error_code = group.error_for_member(request.member_id, request.group_instance_id)
        if error_code is ErrorCode.NONE and request.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error_code

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Heartbeat: keep the session, and tell of a rebalance."""
        group = self._core.groups.get(request.group_id)
        error_code = self._error_for_generation(group, request)
        if group is None or error_code is not ErrorCode.NONE:
            return error_code
        self._core.keep_session(group, request.member_id, group.members[request.member_id].session_timeout_ms)
        is_joining = group.state is GroupState.PREPARING_REBALANCE
        # Only while members join. A member that hears this joins too; in the sync phase it has done so already.
        return ErrorCode.REBALANCE_IN_PROGRESS if is_joining else ErrorCode.NONE

    def leave(self, token: int, request: LeaveRequest) -> None:
        """LeaveGroup, of one or many members."""
        group = self._core.groups.get(request.group_id)
        error_code = self._core.error_for_group_id(request.group_id)
        if group is not None and group.state is GroupState.DEAD:
            error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if error_code is not ErrorCode.NONE:
            self._core.answer(token, LeaveResponse(error_code=error_code))
            return
        consumer = self._core.consumer_group(request.group_id)
        if consumer is not None:
            self._consumers.leave(token, consumer, request.members)
            return
        # One rebalance for all who leave, after the answer: each removal would start one otherwise.
        results = tuple(self._leave_one(group, leaving) for leaving in request.members)
        self._core.answer(token, LeaveResponse(results=results))
        if group is not None and ErrorCode.NONE in results:
            self._rebalance.after_removal(group)

    def _leave_one(self, group: Group | None, leaving: LeavingMember) -> ErrorCode:
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = leaving.member_id
        # How an administrator removes a static member.
        if member_id == NO_MEMBER_ID and leaving.group_instance_id is not None:
            member_id = group.static_members.get(leaving.group_instance_id, NO_MEMBER_ID)
        is_pending = member_id in group.pending_join
        error_code = ErrorCode.NONE if is_pending else group.error_for_member(member_id, leaving.group_instance_id)
        if error_code is ErrorCode.NONE:
            self._rebalance.remove_member(group, member_id)
        return error_code

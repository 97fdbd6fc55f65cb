"""Rules of JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

import pytest

from semel.broker.groups.classic.types import GroupState, LeavingMember, Protocol
from semel.broker.groups.records import decode_group_value
from semel.broker.groups.types import GroupSettings, LoadedRecord
from semel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.harness import (
    GROUP,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    STICKY,
    Harness,
    subscription,
)

CHANGED = Protocol(name="range", metadata=subscription("t", "u"))


@pytest.fixture
def group() -> Harness:
    return Harness()


def state(group: Harness) -> GroupState:
    return group.core.describe_group(GROUP).state


class TestJoin:
    """JoinGroup."""

    def test_member_id_is_required_first(self, group: Harness) -> None:
        response = group.joined(group.ask_join())
        assert response.error_code is ErrorCode.MEMBER_ID_REQUIRED
        assert response.member_id == "client-uuid1"
        assert group.joined(group.ask_join(response.member_id)).error_code is ErrorCode.NONE

    def test_the_group_is_there_after_a_restart(self, group: Harness) -> None:
        """As in Apache Kafka: the first JoinGroup writes the group, empty, before anybody is in it."""
        group.new_id()
        stored = [decode_group_value(record.value or b"") for record in group.log if isinstance(record, LoadedRecord)]
        assert [(one.generation, one.protocol_type, one.members) for one in stored] == [(0, "", ())]
        group.restart()
        assert state(group) is GroupState.EMPTY
        assert [one.group_id for one in group.core.list_groups()] == [GROUP]
        response = group.joined(group.ask_join(api_version=3))
        assert (response.error_code, response.generation) == (ErrorCode.NONE, 1)

    def test_a_created_group_whose_record_is_not_written_can_be_joined_all_the_same(self, group: Harness) -> None:
        group.holds_appends = True
        member_id = group.new_id()
        group.release(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert group.joined(group.ask_join(member_id)).error_code is ErrorCode.NONE

    def test_old_versions_join_without_a_member_id(self, group: Harness) -> None:
        response = group.joined(group.ask_join(api_version=3))
        assert (response.error_code, response.generation, response.leader) == (ErrorCode.NONE, 1, response.member_id)
        assert [member.metadata for member in response.members] == [RANGE.metadata]
        assert (response.protocol_type, response.protocol_name) == ("consumer", "range")

    @pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001])
    def test_session_timeout_has_bounds(self, group: Harness, timeout_ms: int) -> None:
        token = group.ask_join(session_timeout_ms=timeout_ms)
        assert group.joined(token).error_code is ErrorCode.INVALID_SESSION_TIMEOUT

    @pytest.mark.parametrize("group_id", ["", "g" * 40_000])
    def test_group_id_must_be_storable(self, group: Harness, group_id: str) -> None:
        assert group.joined(group.ask_join(group_id=group_id)).error_code is ErrorCode.INVALID_GROUP_ID

    def test_names_must_be_storable(self, group: Harness) -> None:
        token = group.ask_join(protocols=(Protocol(name="p" * 40_000, metadata=b""),))
        assert group.joined(token).error_code is ErrorCode.INVALID_REQUEST

    def test_unknown_member_id(self, group: Harness) -> None:
        assert group.joined(group.ask_join("nobody")).error_code is ErrorCode.UNKNOWN_MEMBER_ID
        group.stable()
        assert group.joined(group.ask_join("nobody")).error_code is ErrorCode.UNKNOWN_MEMBER_ID

    @pytest.mark.parametrize(("protocol_type", "protocols"), [("", (RANGE,)), ("consumer", ())])
    def test_a_new_group_needs_a_protocol(
        self, group: Harness, protocol_type: str, protocols: tuple[Protocol, ...]
    ) -> None:
        token = group.ask_join(protocol_type=protocol_type, protocols=protocols)
        assert group.joined(token).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    @pytest.mark.parametrize(("protocol_type", "protocols"), [("connect", (RANGE,)), ("consumer", (STICKY,))])
    def test_protocols_must_fit_the_group(
        self, group: Harness, protocol_type: str, protocols: tuple[Protocol, ...]
    ) -> None:
        group.stable()
        token = group.ask_join(protocol_type=protocol_type, protocols=protocols)
        assert group.joined(token).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_protocol_is_chosen_by_votes_among_common_ones(self) -> None:
        group = Harness(GroupSettings(initial_rebalance_delay_ms=3_000))
        only = Protocol(name="mine", metadata=b"")
        tokens = [
            group.ask_join(api_version=3, protocols=protocols)
            for protocols in ((RANGE, STICKY), (STICKY, RANGE), (only, STICKY, RANGE))
        ]
        group.advance(6_000)
        assert {group.joined(token).protocol_name for token in tokens} == {"sticky"}

    def test_initial_delay_is_extended_by_new_members_up_to_the_rebalance_timeout(self) -> None:
        group = Harness(GroupSettings(initial_rebalance_delay_ms=3_000))
        first = group.ask_join(api_version=3, rebalance_timeout_ms=8_000)
        group.advance(2_000)
        second = group.ask_join(api_version=3, rebalance_timeout_ms=8_000)
        group.advance(2_000)
        third = group.ask_join(api_version=3, rebalance_timeout_ms=8_000)
        group.advance(3_000)
        assert group.waiting() == {first, second, third}
        fourth = group.ask_join(api_version=3, rebalance_timeout_ms=8_000)
        group.advance(1_000)
        assert not group.waiting()
        assert {group.joined(token).generation for token in (first, second, third, fourth)} == {1}

    def test_initial_delay_ends_when_nobody_new_comes(self) -> None:
        group = Harness(GroupSettings(initial_rebalance_delay_ms=3_000))
        token = group.ask_join(api_version=3)
        group.advance(2_999)
        assert group.waiting() == {token}
        group.advance(1)
        assert group.joined(token).generation == 1

    def test_new_member_waits_for_the_others(self, group: Harness) -> None:
        first = group.stable()[0]
        token = group.ask_join(api_version=3)
        assert token in group.waiting()
        assert group.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
        again = group.joined(group.ask_join(first.member_id))
        assert (again.generation, again.leader) == (2, first.member_id)
        assert len(again.members) == 2
        assert group.joined(token).members == ()

    def test_pending_member_is_waited_for_until_its_session_ends(self, group: Harness) -> None:
        first = group.stable()[0]
        group.new_id()
        token = group.ask_join(first.member_id)
        assert token in group.waiting()
        group.advance(SESSION_MS)
        assert group.joined(token).generation == 2

    def test_who_does_not_rejoin_is_dropped_and_another_leads(self, group: Harness) -> None:
        first, second = group.stable(2)
        token = group.ask_join(second.member_id, protocols=(CHANGED,))
        for _ in range(REBALANCE_MS // 5_000 - 1):
            group.advance(5_000)
            assert group.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
        assert token in group.waiting()
        group.advance(5_000)
        response = group.joined(token)
        assert (response.leader, len(response.members)) == (second.member_id, 1)
        assert group.heartbeat(first) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_most_patient_member_sets_the_rebalance_timeout(self, group: Harness) -> None:
        first = group.stable()[0]
        group.ask_join(api_version=3, rebalance_timeout_ms=7_000)
        for _ in range(REBALANCE_MS // 5_000 - 1):
            group.advance(5_000)
            assert group.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS

    def test_leader_rejoin_starts_a_rebalance(self, group: Harness) -> None:
        first, second = group.stable(2)
        token = group.ask_join(first.member_id)
        assert token in group.waiting()
        assert group.heartbeat(second) is ErrorCode.REBALANCE_IN_PROGRESS

    def test_follower_rejoin_unchanged_is_told_the_generation(self, group: Harness) -> None:
        _, second = group.stable(2)
        assert group.joined(group.ask_join(second.member_id)) == second
        assert state(group) is GroupState.STABLE

    def test_follower_rejoin_changed_starts_a_rebalance(self, group: Harness) -> None:
        _, second = group.stable(2)
        group.ask_join(second.member_id, protocols=(CHANGED,))
        assert state(group) is GroupState.PREPARING_REBALANCE

    def test_leader_rejoin_before_sync_is_told_the_generation_again(self, group: Harness) -> None:
        joined = group.joined(group.ask_join(group.new_id()))
        assert group.joined(group.ask_join(joined.member_id)) == joined

    def test_changed_rejoin_before_sync_starts_over(self, group: Harness) -> None:
        joined = group.joined(group.ask_join(group.new_id()))
        again = group.joined(group.ask_join(joined.member_id, protocols=(CHANGED,)))
        assert again.generation == joined.generation + 1

    def test_repeated_join_ends_the_earlier_one(self, group: Harness) -> None:
        first, _ = group.stable(2)
        lost = group.ask_join(first.member_id)
        again = group.ask_join(first.member_id)
        assert group.joined(lost).error_code is ErrorCode.REBALANCE_IN_PROGRESS
        assert again in group.waiting()

    def test_group_max_size(self) -> None:
        group = Harness(GroupSettings(group_members_max=2))
        first, second = group.stable(2)
        assert group.joined(group.ask_join()).error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
        group.ask_join(first.member_id)
        group.ask_join(second.member_id)
        assert not group.waiting()

    def test_last_to_rejoin_a_group_that_is_too_large_is_dropped(self) -> None:
        group = Harness()
        first, second = group.stable(2)
        group.settings = GroupSettings(group_members_max=1)
        group.restart()
        assert state(group) is GroupState.PREPARING_REBALANCE
        token = group.ask_join(second.member_id)
        assert group.joined(group.ask_join(first.member_id)).error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
        assert group.joined(token).leader == second.member_id

    def test_new_member_that_waits_too_long_is_dropped(self) -> None:
        group = Harness(GroupSettings(new_member_join_timeout_ms=20_000))
        first = group.stable()[0]
        token = group.ask_join(api_version=3)
        for _ in range(4):
            group.heartbeat(first)
            group.advance(5_000)
        assert group.joined(token).error_code is ErrorCode.UNKNOWN_MEMBER_ID


class TestSync:
    """SyncGroup."""

    def test_followers_wait_for_the_leader_and_its_record(self, group: Harness) -> None:
        first, second = group.stable(2)
        waiting = group.ask_join(first.member_id)
        joined = [group.joined(token) for token in (group.ask_join(second.member_id), waiting)]
        group.holds_appends = True
        follower = group.ask_sync(joined[0])
        assert group.waiting() == {follower}
        leader = group.ask_sync(joined[1], {second.member_id: b"two"})
        assert group.waiting() == {follower, leader}
        group.release()
        assert (group.synced(follower).assignment, group.synced(leader).assignment) == (b"two", b"")
        assert state(group) is GroupState.STABLE

    def test_failed_record_fails_every_sync_and_starts_over(self, group: Harness) -> None:
        joined = group.joined(group.ask_join(group.new_id()))
        group.holds_appends = True
        token = group.ask_sync(joined, {joined.member_id: b"a"})
        group.release(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert group.synced(token).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert group.heartbeat(joined) is ErrorCode.REBALANCE_IN_PROGRESS

    def test_slow_record_fails_every_sync_and_does_nothing_later(self, group: Harness) -> None:
        joined = group.joined(group.ask_join(group.new_id()))
        group.holds_appends = True
        token = group.ask_sync(joined, {joined.member_id: b"a"})
        group.time_out()
        assert group.synced(token).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        group.release()
        assert state(group) is GroupState.PREPARING_REBALANCE

    def test_record_of_an_older_generation_does_nothing(self, group: Harness) -> None:
        joined = group.joined(group.ask_join(group.new_id()))
        group.holds_appends = True
        group.ask_sync(joined, {joined.member_id: b"a"})
        again = group.joined(group.ask_join(joined.member_id, protocols=(CHANGED,)))
        group.release()
        assert state(group) is GroupState.COMPLETING_REBALANCE
        token = group.ask_sync(again, {joined.member_id: b"b"})
        group.release()
        assert group.synced(token).assignment == b"b"

    def test_repeated_leader_sync_writes_once(self, group: Harness) -> None:
        joined = group.joined(group.ask_join(group.new_id()))
        group.holds_appends = True
        lost = group.ask_sync(joined, {joined.member_id: b"a"})
        again = group.ask_sync(joined, {joined.member_id: b"b"})
        assert len(group.held) == 1
        group.release()
        assert group.synced(lost).error_code is ErrorCode.REBALANCE_IN_PROGRESS
        assert group.synced(again).assignment == b"a"

    def test_sync_while_stable_repeats_the_assignment(self, group: Harness) -> None:
        joined = group.stable()[0]
        assert group.synced(group.ask_sync(joined)).assignment == f"for {joined.member_id}".encode()

    def test_sync_faults(self, group: Harness) -> None:
        first, second = group.stable(2)
        old = group.joined(group.ask_join(api_version=4))
        assert group.synced(group.ask_sync(old)).error_code is ErrorCode.UNKNOWN_MEMBER_ID
        wrong_type = group.ask_sync(first, protocol_type="connect")
        wrong_name = group.ask_sync(first, protocol_name="sticky")
        assert group.synced(wrong_type).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert group.synced(wrong_name).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        group.ask_join(first.member_id)
        assert group.synced(group.ask_sync(second)).error_code is ErrorCode.REBALANCE_IN_PROGRESS
        group.leave(LeavingMember(member_id=old.member_id))
        group.ask_join(second.member_id)
        assert group.synced(group.ask_sync(second)).error_code is ErrorCode.ILLEGAL_GENERATION

    def test_sync_of_unknown_group(self, group: Harness) -> None:
        joined = group.stable()[0]
        group.leave(LeavingMember(member_id=joined.member_id))
        assert group.synced(group.ask_sync(joined)).error_code is ErrorCode.UNKNOWN_MEMBER_ID
        other = Harness()
        assert other.synced(other.ask_sync(joined)).error_code is ErrorCode.UNKNOWN_MEMBER_ID

    def test_who_never_syncs_is_dropped(self, group: Harness) -> None:
        first, second = group.stable(2)
        waiting = group.ask_join(second.member_id, protocols=(CHANGED,))
        leader = group.joined(group.ask_join(first.member_id))
        follower = group.joined(waiting)
        waiting = group.ask_sync(follower)
        for _ in range(REBALANCE_MS // 5_000):
            group.heartbeat(leader)
            group.advance(5_000)
        assert group.synced(waiting).error_code is ErrorCode.REBALANCE_IN_PROGRESS
        assert group.heartbeat(leader) is ErrorCode.UNKNOWN_MEMBER_ID
        assert group.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS

    def test_stable_member_that_never_syncs_is_dropped_too(self, group: Harness) -> None:
        first, second = group.stable(2)
        waiting = group.ask_join(second.member_id, protocols=(CHANGED,))
        leader = group.joined(group.ask_join(first.member_id))
        follower = group.joined(waiting)
        group.ask_sync(leader)
        assert state(group) is GroupState.STABLE
        for _ in range(REBALANCE_MS // 5_000):
            assert group.heartbeat(leader) is ErrorCode.NONE
            assert group.heartbeat(follower) is ErrorCode.NONE
            group.advance(5_000)
        assert group.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS


class TestSession:
    """Heartbeat and silence."""

    def test_silence_ends_the_session(self, group: Harness) -> None:
        first, second = group.stable(2)
        group.advance(SESSION_MS - 1)
        assert group.heartbeat(first) is ErrorCode.NONE
        group.advance(1)
        assert group.heartbeat(second) is ErrorCode.UNKNOWN_MEMBER_ID
        assert group.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS

    def test_commit_keeps_the_session(self, group: Harness) -> None:
        joined = group.stable()[0]
        group.advance(SESSION_MS - 1)
        group.commit(1, joined)
        group.advance(SESSION_MS - 1)
        assert group.heartbeat(joined) is ErrorCode.NONE

    def test_group_without_members_is_empty(self, group: Harness) -> None:
        joined = group.stable()[0]
        group.advance(SESSION_MS)
        assert state(group) is GroupState.EMPTY
        assert group.heartbeat(joined) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_heartbeat_faults(self, group: Harness) -> None:
        joined = group.stable()[0]
        again = group.joined(group.ask_join(joined.member_id))
        assert group.heartbeat(again) is ErrorCode.NONE
        assert group.heartbeat(joined) is ErrorCode.ILLEGAL_GENERATION
        assert Harness().heartbeat(joined) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_waiting_members_do_not_expire(self, group: Harness) -> None:
        first, second = group.stable(2)
        token = group.ask_join(first.member_id)
        for _ in range(5):
            group.advance(5_000)
            group.heartbeat(second)
        assert token in group.waiting()

    def test_session_is_watched_again_after_a_long_join(self, group: Harness) -> None:
        first, second = group.stable(2)
        token = group.ask_join(first.member_id)
        for _ in range(5):
            group.advance(5_000)
            group.heartbeat(second)
        group.leave(LeavingMember(member_id=second.member_id))
        assert group.joined(token).error_code is ErrorCode.NONE
        group.advance(SESSION_MS)
        assert state(group) is GroupState.EMPTY

    def test_session_is_watched_again_after_a_long_sync(self, group: Harness) -> None:
        first, second = group.stable(2)
        waiting = group.ask_join(second.member_id, protocols=(CHANGED,))
        leader = group.joined(group.ask_join(first.member_id))
        follower = group.joined(waiting)
        token = group.ask_sync(follower)
        for _ in range(5):
            group.advance(5_000)
            group.heartbeat(leader)
        group.ask_sync(leader)
        assert group.synced(token).error_code is ErrorCode.NONE
        for _ in range(2):
            group.heartbeat(leader)
            group.advance(SESSION_MS // 2)
        assert group.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_session_is_watched_after_a_restart(self, group: Harness) -> None:
        group.stable()
        group.restart()
        group.advance(SESSION_MS - 1)
        assert state(group) is GroupState.STABLE
        group.advance(1)
        assert state(group) is GroupState.EMPTY


class TestLeave:
    """LeaveGroup."""

    def test_leaving_starts_a_rebalance(self, group: Harness) -> None:
        first, second = group.stable(2)
        assert group.leave(LeavingMember(member_id=first.member_id)).results == (ErrorCode.NONE,)
        assert group.heartbeat(second) is ErrorCode.REBALANCE_IN_PROGRESS
        assert group.joined(group.ask_join(second.member_id)).leader == second.member_id

    def test_several_leave_at_once(self, group: Harness) -> None:
        first, second = group.stable(2)
        leaving = (LeavingMember(member_id=name) for name in (first.member_id, "nobody", second.member_id))
        expected = (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE)
        assert group.leave(*leaving).results == expected
        assert state(group) is GroupState.EMPTY

    def test_static_member_leaves_by_instance(self, group: Harness) -> None:
        joined = group.stable(1, instances=["a"])[0]
        assert group.leave(LeavingMember(group_instance_id="b")).results == (ErrorCode.UNKNOWN_MEMBER_ID,)
        fenced = LeavingMember(member_id="other", group_instance_id="a")
        assert group.leave(fenced).results == (ErrorCode.FENCED_INSTANCE_ID,)
        assert group.heartbeat(joined, instance="a") is ErrorCode.NONE
        assert group.leave(LeavingMember(group_instance_id="a")).results == (ErrorCode.NONE,)
        assert state(group) is GroupState.EMPTY

    def test_pending_member_leaves(self, group: Harness) -> None:
        first = group.stable()[0]
        pending = group.new_id()
        token = group.ask_join(first.member_id)
        assert token in group.waiting()
        assert group.leave(LeavingMember(member_id=pending)).results == (ErrorCode.NONE,)
        assert group.joined(token).generation == 2

    def test_unknown_group(self, group: Harness) -> None:
        assert group.leave(LeavingMember(member_id="m")).results == (ErrorCode.UNKNOWN_MEMBER_ID,)
        assert group.leave(LeavingMember(member_id="m"), group_id="").error_code is ErrorCode.INVALID_GROUP_ID

    def test_what_the_leaver_waits_for_is_answered(self, group: Harness) -> None:
        first, second = group.stable(2)
        join = group.ask_join(first.member_id)
        group.leave(LeavingMember(member_id=first.member_id))
        assert group.joined(join).error_code is ErrorCode.UNKNOWN_MEMBER_ID
        waiting = group.joined(group.ask_join(second.member_id))
        third = group.ask_join(api_version=3)
        leader = group.joined(group.ask_join(waiting.member_id))
        sync = group.ask_sync(group.joined(third))
        group.leave(LeavingMember(member_id=group.joined(third).member_id))
        assert group.synced(sync).error_code is ErrorCode.UNKNOWN_MEMBER_ID
        assert group.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS


class TestStatic:
    """KIP-345 and KIP-814."""

    def test_restart_keeps_assignment_and_fences_the_old_id(self, group: Harness) -> None:
        leader, old = group.stable(2, instances=["a", "b"])
        new = group.joined(group.ask_join(instance="b"))
        assert (new.generation, new.leader) == (old.generation, leader.member_id)
        assert not new.skip_assignment
        assert new.member_id != old.member_id
        assert group.heartbeat(old, instance="b") is ErrorCode.FENCED_INSTANCE_ID
        rejoin = group.joined(group.ask_join(old.member_id, instance="b"))
        assert rejoin.error_code is ErrorCode.FENCED_INSTANCE_ID
        assert group.synced(group.ask_sync(new, instance="b")).assignment == f"for {old.member_id}".encode()
        assert group.heartbeat(leader, instance="a") is ErrorCode.NONE

    def test_leader_skips_the_assignment(self, group: Harness) -> None:
        group.stable(2, instances=["a", "b"])
        new = group.joined(group.ask_join(instance="a"))
        assert new.skip_assignment
        assert new.leader == new.member_id
        assert len(new.members) == 2

    def test_old_clients_take_themselves_for_followers(self, group: Harness) -> None:
        old = group.stable(2, instances=["a", "b"])[0]
        new = group.joined(group.ask_join(instance="a", api_version=8))
        assert (new.skip_assignment, new.leader, new.members) == (False, old.member_id, ())

    def test_new_id_is_used_only_when_durable(self, group: Harness) -> None:
        group.stable(1, instances=["a"])
        group.holds_appends = True
        token = group.ask_join(instance="a")
        assert token in group.waiting()
        group.release()
        new = group.joined(token)
        group.restart()
        assert group.heartbeat(new, instance="a") is ErrorCode.NONE

    def test_failed_record_does_not_unfence(self, group: Harness) -> None:
        old = group.stable(1, instances=["a"])[0]
        group.holds_appends = True
        token = group.ask_join(instance="a")
        group.release(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert group.joined(token).error_code is ErrorCode.NOT_COORDINATOR
        assert group.heartbeat(old, instance="a") is ErrorCode.FENCED_INSTANCE_ID

    def test_session_is_watched_after_a_slow_record(self, group: Harness) -> None:
        group.stable(1, instances=["a"])
        group.holds_appends = True
        token = group.ask_join(instance="a")
        group.advance(SESSION_MS + 1)
        assert token in group.waiting()
        group.release()
        group.advance(SESSION_MS)
        assert state(group) is not GroupState.STABLE

    def test_change_of_protocol_rebalances(self, group: Harness) -> None:
        first = group.joined(group.ask_join(instance="a", protocols=(RANGE, STICKY)))
        group.ask_sync(first, instance="a")
        token = group.ask_join(instance="a", protocols=(STICKY, RANGE))
        assert (group.joined(token).generation, group.joined(token).protocol_name) == (2, "sticky")

    def test_waiting_requests_of_the_old_id_are_fenced(self, group: Harness) -> None:
        leader, other = group.stable(2, instances=["a", "b"])
        join = group.ask_join(leader.member_id, instance="a")
        group.ask_join(instance="a")
        assert group.joined(join).error_code is ErrorCode.FENCED_INSTANCE_ID
        follower = group.joined(group.ask_join(other.member_id, instance="b"))
        sync = group.ask_sync(follower, instance="b")
        token = group.ask_join(instance="b")
        assert group.synced(sync).error_code is ErrorCode.FENCED_INSTANCE_ID
        assert token in group.waiting()

    def test_static_leader_that_missed_a_rebalance_does_not_lead(self, group: Harness) -> None:
        leader, second = group.stable(2, instances=["a"])
        token = group.ask_join(second.member_id, protocols=(CHANGED,))
        for _ in range(REBALANCE_MS // 5_000):
            group.heartbeat(leader, instance="a")
            group.advance(5_000)
        response = group.joined(token)
        assert (response.leader, len(response.members)) == (second.member_id, 2)

    def test_all_static_and_silent_are_dropped_in_the_end(self, group: Harness) -> None:
        first, second = group.stable(2, instances=["a", "b"])
        group.leave(LeavingMember(member_id=first.member_id, group_instance_id="a"))
        for _ in range(REBALANCE_MS // 5_000):
            assert group.heartbeat(second, instance="b") is ErrorCode.REBALANCE_IN_PROGRESS
            group.advance(5_000)
        assert state(group) is GroupState.PREPARING_REBALANCE
        group.advance(SESSION_MS)
        assert state(group) is GroupState.EMPTY


def test_unload_answers_everyone(group: Harness) -> None:
    first, _ = group.stable(2)
    join = group.ask_join(first.member_id)
    group.holds_appends = True
    commit = group.ask_commit(1, group_id="simple")
    group.unload()
    assert group.joined(join).error_code is ErrorCode.NOT_COORDINATOR
    assert group.committed(commit) is ErrorCode.NOT_COORDINATOR
    assert group.core.list_groups() == ()
    assert group.core.next_deadline_ms() is None
    group.release()
    assert group.fetch(group_id="simple").offset_next == -1


def test_replay_restores_members_and_assignments(group: Harness) -> None:
    first, second = group.stable(2)
    before = group.core.describe_group(GROUP)
    group.restart()
    assert group.core.describe_group(GROUP) == before
    assert [group.heartbeat(member) for member in (first, second)] == [ErrorCode.NONE] * 2
    group.advance(SESSION_MS)
    assert state(group) is GroupState.EMPTY
    group.restart()
    assert state(group) is GroupState.EMPTY


def test_describe_and_list(group: Harness) -> None:
    joined = group.stable()[0]
    group.commit(1)
    described = group.core.describe_group(GROUP)
    assert (described.state, described.protocol_name, described.protocol_type) == ("Stable", "range", "consumer")
    member = described.members[0]
    assert (member.client_id, member.client_host, member.metadata) == ("client", "/127.0.0.1", RANGE.metadata)
    assert member.assignment == f"for {joined.member_id}".encode()
    group.ask_commit(1, group_id="simple")
    assert {(g.group_id, g.state, g.protocol_type) for g in group.core.list_groups()} == {
        (GROUP, "Stable", "consumer"),
        ("simple", "Empty", ""),
    }
    assert [g.group_id for g in group.core.list_groups(states=["empty"])] == ["simple"]
    assert [g.group_id for g in group.core.list_groups(["Stable"], ["Classic"])] == [GROUP]
    assert group.core.list_groups(types=["consumer"]) == ()


def test_describe_hides_metadata_while_rebalancing(group: Harness) -> None:
    joined = group.stable()[0]
    group.new_id()
    group.ask_join(joined.member_id)
    described = group.core.describe_group(GROUP)
    assert (described.state, described.protocol_name) == ("PreparingRebalance", "")
    assert described.members[0].metadata == b""
    assert described.members[0].assignment == f"for {joined.member_id}".encode(), "the one of the last generation"


@pytest.mark.parametrize(("api_version", "code"), [(5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_describe_unknown_group(group: Harness, api_version: int, code: ErrorCode) -> None:
    described = group.core.describe_group("none", api_version=api_version)
    assert (described.state, described.error_code) == ("Dead", code)

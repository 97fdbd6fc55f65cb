"""Rules of committed offsets: who may commit, when it is visible, what removes it."""

import pytest

from semel.broker.groups.classic.types import GroupState, LeavingMember
from semel.broker.groups.offsets.types import FetchOffsetsRequest, OffsetToCommit, TxnCommitRequest
from semel.broker.groups.types import DAY_MS, GroupSettings
from semel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.harness import GROUP, RANGE, Harness

RETENTION_MS = 7 * DAY_MS


@pytest.fixture
def group() -> Harness:
    return Harness()


class TestWhoMayCommit:
    """Fencing of OffsetCommit (G6)."""

    def test_member_of_the_generation(self, group: Harness) -> None:
        joined = group.stable()[0]
        assert group.commit(5, joined) is ErrorCode.NONE
        assert group.fetch().offset_next == 5

    def test_simple_consumer_only_while_the_group_is_empty(self, group: Harness) -> None:
        assert group.commit(5) is ErrorCode.NONE
        joined = group.stable()[0]
        assert group.commit(6) is ErrorCode.UNKNOWN_MEMBER_ID
        group.leave(LeavingMember(member_id=joined.member_id))
        assert group.commit(7) is ErrorCode.NONE
        assert group.fetch().offset_next == 7

    def test_older_generation(self, group: Harness) -> None:
        joined = group.stable()[0]
        group.ask_join(joined.member_id)
        assert group.commit(5, joined) is ErrorCode.ILLEGAL_GENERATION
        assert group.fetch().offset_next == -1

    def test_removed_member(self, group: Harness) -> None:
        first, _ = group.stable(2)
        group.leave(LeavingMember(member_id=first.member_id))
        assert group.commit(5, first) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_fenced_instance(self, group: Harness) -> None:
        old = group.stable(1, instances=["a"])[0]
        group.ask_join(instance="a")
        assert group.committed(group.ask_commit(5, old, instance="a")) is ErrorCode.FENCED_INSTANCE_ID

    def test_member_may_commit_while_the_others_join(self, group: Harness) -> None:
        joined = group.stable()[0]
        group.ask_join(api_version=3)
        assert group.commit(5, joined) is ErrorCode.NONE

    def test_not_between_join_and_sync(self, group: Harness) -> None:
        joined = group.joined(group.ask_join(group.new_id()))
        assert group.commit(5, joined) is ErrorCode.REBALANCE_IN_PROGRESS

    @pytest.mark.parametrize(
        ("api_version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
    )
    def test_generation_of_an_unknown_group(self, api_version: int, code: ErrorCode) -> None:
        joined = Harness().stable()[0]
        group = Harness()
        assert group.committed(group.ask_commit(5, joined, api_version=api_version)) is code
        assert group.core.list_groups() == ()

    def test_member_of_an_empty_group(self, group: Harness) -> None:
        joined = group.stable()[0]
        group.leave(LeavingMember(member_id=joined.member_id))
        assert group.commit(5, joined) is ErrorCode.UNKNOWN_MEMBER_ID


class TestCommit:
    """What a commit stores, and when it shows (G2, G7)."""

    def test_metadata_limit_is_per_partition(self, group: Harness) -> None:
        assert group.committed(group.ask_commit(5, metadata="m" * 4096)) is ErrorCode.NONE
        assert group.committed(group.ask_commit(6, metadata="m" * 4097)) is ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert group.fetch().offset_next == 5

    def test_metadata_and_leader_epoch_survive_a_restart(self, group: Harness) -> None:
        group.ask_commit(5, metadata="é")
        group.restart()
        fetched = group.fetch()
        assert (fetched.offset_next, fetched.leader_epoch, fetched.metadata) == (5, 3, "é")

    def test_answered_and_visible_only_when_durable(self, group: Harness) -> None:
        group.holds_appends = True
        token = group.ask_commit(5)
        assert token in group.waiting()
        assert group.fetch().offset_next == -1
        assert group.fetch(require_stable=True).error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT
        group.release()
        assert group.committed(token) is ErrorCode.NONE
        assert group.fetch(require_stable=True).offset_next == 5

    @pytest.mark.parametrize(
        ("append_code", "code"),
        [
            (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
            (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        ],
    )
    def test_failed_append(self, group: Harness, append_code: ErrorCode, code: ErrorCode) -> None:
        group.holds_appends = True
        token = group.ask_commit(5)
        group.release(append_code)
        assert group.committed(token) is code
        assert group.fetch(require_stable=True) == group.fetch(partition=0)
        assert group.fetch().offset_next == -1

    def test_slow_append_is_answered_once_and_still_counts(self, group: Harness) -> None:
        group.holds_appends = True
        token = group.ask_commit(5)
        group.time_out()
        assert group.committed(token) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        group.release()
        assert group.fetch().offset_next == 5

    def test_appends_must_be_reported_in_log_order(self, group: Harness) -> None:
        group.holds_appends = True
        group.ask_commit(5)
        group.ask_commit(6)
        group.core.appended(group.held[1].append_token, ErrorCode.NONE, 8, group.now_ms)
        with pytest.raises(AssertionError, match="log order"):
            group.core.appended(group.held[0].append_token, ErrorCode.NONE, 7, group.now_ms)

    def test_log_order_goes_on_after_a_restart(self, group: Harness) -> None:
        group.commit(5)
        group.restart()
        group.holds_appends = True
        group.ask_commit(6)
        with pytest.raises(AssertionError, match="log order"):
            group.core.appended(group.held[0].append_token, ErrorCode.NONE, 0, group.now_ms)

    def test_fetch_all(self, group: Harness) -> None:
        group.ask_commit(5)
        group.ask_commit(6, topic="u", partition=3)
        fetched = group.core.fetch_offsets(FetchOffsetsRequest(group_id=GROUP))
        assert [(f.topic, f.partition, f.offset_next) for f in fetched] == [("t", 0, 5), ("u", 3, 6)]
        assert group.core.fetch_offsets(FetchOffsetsRequest(group_id="none")) == ()

    def test_topic_that_cannot_be_stored(self, group: Harness) -> None:
        assert group.committed(group.ask_commit(1, topic="t" * 40_000)) is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert group.committed(group.ask_commit(1, group_id="g" * 40_000)) is ErrorCode.INVALID_GROUP_ID


class TestTransaction:
    """Offsets inside a transaction."""

    def test_visible_after_commit_only(self, group: Harness) -> None:
        group.commit(1)
        assert group.committed(group.ask_txn_commit(5, producer_id=9)) is ErrorCode.NONE
        assert group.fetch().offset_next == 1
        assert group.fetch(require_stable=True).error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert group.fetch(partition=1, require_stable=True).error_code is ErrorCode.NONE
        group.end_transaction(9, commit=True)
        assert group.fetch(require_stable=True).offset_next == 5

    def test_aborted(self, group: Harness) -> None:
        group.commit(1)
        group.ask_txn_commit(5, producer_id=9)
        group.end_transaction(9, commit=False)
        assert group.fetch(require_stable=True).offset_next == 1

    def test_transactions_do_not_touch_each_other(self, group: Harness) -> None:
        group.ask_txn_commit(5, producer_id=9)
        group.ask_txn_commit(6, producer_id=10, partition=1)
        group.end_transaction(10, commit=True)
        assert group.fetch().offset_next == -1
        assert group.fetch(partition=1).offset_next == 6

    @pytest.mark.parametrize("commit", [True, False])
    def test_replay_with_markers(self, group: Harness, commit: bool) -> None:
        group.ask_txn_commit(5, producer_id=9)
        group.restart()
        assert group.fetch(require_stable=True).error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT
        group.end_transaction(9, commit=commit)
        seen = group.fetch(require_stable=True)
        assert seen.offset_next == (5 if commit else -1)
        group.restart()
        assert group.fetch(require_stable=True) == seen

    def test_later_plain_commit_wins_over_an_earlier_transactional_one(self, group: Harness) -> None:
        group.ask_txn_commit(5, producer_id=9)
        group.commit(3)
        group.end_transaction(9, commit=True)
        assert group.fetch().offset_next == 3
        group.restart()
        assert group.fetch().offset_next == 3

    def test_fenced_by_group_metadata(self, group: Harness) -> None:
        joined = group.stable()[0]
        assert group.committed(group.ask_txn_commit(5, 9, joined)) is ErrorCode.NONE
        group.ask_join(joined.member_id)
        assert group.committed(group.ask_txn_commit(6, 9, joined)) is ErrorCode.ILLEGAL_GENERATION
        group.leave(LeavingMember(member_id=joined.member_id))
        assert group.committed(group.ask_txn_commit(6, 9, joined)) is ErrorCode.UNKNOWN_MEMBER_ID
        group.end_transaction(9, commit=True)
        assert group.fetch().offset_next == 5

    @pytest.mark.parametrize("commit", [True, False])
    @pytest.mark.parametrize("knows_offset", [True, False])
    def test_marker_may_overtake_the_report_of_the_append(
        self, group: Harness, commit: bool, knows_offset: bool
    ) -> None:
        group.commit(1)
        group.holds_appends = True
        token = group.ask_txn_commit(5, 9)
        group.core.complete_transaction(9, commit=commit, marker_offset=8 if knows_offset else None)
        assert group.fetch().offset_next == 1
        group.release()
        assert group.committed(token) is ErrorCode.NONE
        assert group.fetch(require_stable=True).offset_next == (5 if commit else 1)

    def test_append_after_the_marker_belongs_to_the_next_transaction(self, group: Harness) -> None:
        group.commit(1)
        group.holds_appends = True
        group.ask_txn_commit(5, 9)
        group.core.complete_transaction(9, commit=True, marker_offset=0)
        group.core.complete_transaction(10, commit=True, marker_offset=8)
        group.release()
        assert group.fetch().offset_next == 1
        assert group.fetch(require_stable=True).error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT
        group.end_transaction(9, commit=False)
        assert group.fetch(require_stable=True).offset_next == 1

    def test_clients_before_kip_447_name_no_member(self, group: Harness) -> None:
        group.stable()
        assert group.committed(group.ask_txn_commit(5, 9)) is ErrorCode.NONE

    def test_allowed_between_join_and_sync(self, group: Harness) -> None:
        joined = group.joined(group.ask_join(group.new_id()))
        assert group.committed(group.ask_txn_commit(5, 9, joined)) is ErrorCode.NONE

    def test_unknown_group(self, group: Harness) -> None:
        joined = Harness().stable()[0]
        assert group.committed(group.ask_txn_commit(5, 9, joined)) is ErrorCode.ILLEGAL_GENERATION
        assert group.committed(group.ask_txn_commit(5, 9, group_id="")) is ErrorCode.INVALID_GROUP_ID

    def test_batch_names_its_producer(self, group: Harness) -> None:
        group.holds_appends = True
        offsets = (OffsetToCommit(topic="t", partition=0, offset_next=1),)
        request = TxnCommitRequest(group_id=GROUP, producer_id=9, producer_epoch=4, offsets=offsets)
        token = group.token()
        effect = group.core.commit_offsets_in_transaction(token, request, group.now_ms)[0]
        assert getattr(effect, "producer_id", None) == 9
        assert getattr(effect, "producer_epoch", None) == 4


class TestDelete:
    """OffsetDelete, DeleteGroups and deleted topics (G8)."""

    def test_group_must_be_empty(self, group: Harness) -> None:
        joined = group.stable()[0]
        group.commit(5, joined)
        assert group.deleted(group.ask_delete_group()) is ErrorCode.NON_EMPTY_GROUP
        group.leave(LeavingMember(member_id=joined.member_id))
        assert group.deleted(group.ask_delete_group()) is ErrorCode.NONE
        assert group.deleted(group.ask_delete_group()) is ErrorCode.GROUP_ID_NOT_FOUND
        assert group.fetch().offset_next == -1
        group.restart()
        assert group.fetch().offset_next == -1
        assert group.core.list_groups() == ()

    def test_commit_on_its_way_is_deleted_too(self, group: Harness) -> None:
        group.commit(1)
        group.holds_appends = True
        group.ask_commit(5, partition=1)
        group.ask_txn_commit(6, 9, partition=2)
        group.ask_delete_group()
        group.release_all()
        group.end_transaction(9, commit=True)
        for _ in range(2):
            assert [group.fetch(partition=p).offset_next for p in range(3)] == [-1, -1, -1]
            group.restart()

    def test_group_is_dead_while_it_is_deleted(self, group: Harness) -> None:
        group.commit(1)
        group.holds_appends = True
        token = group.ask_delete_group()
        assert group.core.describe_group(GROUP).state is GroupState.DEAD
        assert group.joined(group.ask_join()).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert group.commit(2) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        group.release(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert group.deleted(token) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert group.core.describe_group(GROUP).state is GroupState.EMPTY
        assert group.fetch().offset_next == 1

    def test_offsets_of_subscribed_topics_stay(self, group: Harness) -> None:
        joined = group.stable()[0]
        group.commit(5, joined)
        group.commit(6, joined, topic="u")
        response = group.delete_offsets(("t", 0), ("u", 0), ("u", 1))
        assert [result.error_code for result in response.results] == [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            ErrorCode.NONE,
            ErrorCode.NONE,
        ]
        group.restart()
        assert (group.fetch().offset_next, group.fetch(topic="u").offset_next) == (5, -1)

    def test_offset_delete_faults(self, group: Harness) -> None:
        assert group.delete_offsets(("t", 0)).error_code is ErrorCode.GROUP_ID_NOT_FOUND
        group.ask_join(group_id="other", api_version=3, protocol_type="connect")
        assert group.delete_offsets(("t", 0), group_id="other").error_code is ErrorCode.NON_EMPTY_GROUP

    def test_offset_delete_of_a_pending_one(self, group: Harness) -> None:
        group.ask_txn_commit(5, 9)
        assert group.delete_offsets(("t", 0)).results[0].error_code is ErrorCode.NONE
        group.end_transaction(9, commit=True)
        assert group.fetch().offset_next == -1

    def test_deleted_topic(self, group: Harness) -> None:
        group.commit(5)
        group.commit(6, topic="u")
        group.ask_commit(7, group_id="other")
        group.ask_txn_commit(8, 9, partition=1)
        group.delete_topic("t")
        group.end_transaction(9, commit=True)
        group.restart()
        assert group.fetch(topic="u").offset_next == 6
        gone = (group.fetch(), group.fetch(group_id="other"), group.fetch(partition=1))
        assert [fetched.offset_next for fetched in gone] == [-1, -1, -1]


class TestRetention:
    """offsets.retention.minutes."""

    def test_simple_group_expires_after_the_last_commit(self, group: Harness) -> None:
        group.commit(5)
        group.advance(RETENTION_MS - 1)
        group.commit(6, topic="u")
        group.advance(DAY_MS)
        assert (group.fetch().offset_next, group.fetch(topic="u").offset_next) == (-1, 6)
        group.advance(RETENTION_MS)
        assert group.core.list_groups() == ()
        group.restart()
        assert group.core.list_groups() == ()

    def test_group_expires_after_it_became_empty(self, group: Harness) -> None:
        joined = group.stable()[0]
        group.commit(5, joined)
        group.leave(LeavingMember(member_id=joined.member_id))
        group.advance(RETENTION_MS - 1)
        assert group.fetch().offset_next == 5
        group.advance(DAY_MS)
        assert group.fetch().offset_next == -1

    def test_offsets_of_read_topics_do_not_expire(self) -> None:
        group = Harness(GroupSettings(offsets_retention_ms=5_000, offsets_retention_check_interval_ms=1_000))
        joined = group.stable()[0]
        group.commit(5, joined)
        group.commit(6, joined, topic="u")
        group.advance(9_000)
        assert (group.fetch().offset_next, group.fetch(topic="u").offset_next) == (5, -1)

    def test_a_retention_beyond_all_time_means_for_ever(self, group: Harness) -> None:
        assert group.committed(group.ask_commit(5, retention_ms=2**63 - 1)) is ErrorCode.NONE
        for _ in range(2):
            group.advance(2 * RETENTION_MS)
            assert group.fetch(require_stable=True).offset_next == 5
            group.restart()

    def test_client_may_set_a_retention(self, group: Harness) -> None:
        group.ask_commit(5, retention_ms=1_000)
        group.restart()
        group.advance(DAY_MS)
        assert group.fetch().offset_next == -1

    def test_pending_offsets_keep_the_group(self, group: Harness) -> None:
        group.commit(1)
        group.ask_txn_commit(5, 9)
        group.advance(2 * RETENTION_MS)
        assert group.fetch().offset_next == 1
        group.end_transaction(9, commit=True)
        assert group.fetch().offset_next == 5

    def test_open_transaction_keeps_a_group_without_offsets(self, group: Harness) -> None:
        group.ask_txn_commit(5, 9)
        group.advance(2 * RETENTION_MS)
        group.end_transaction(9, commit=True)
        assert group.fetch().offset_next == 5

    def test_pending_member_keeps_the_group(self) -> None:
        group = Harness(GroupSettings(offsets_retention_check_interval_ms=1_000))
        member_id = group.new_id()
        group.advance(1_500)
        assert group.joined(group.ask_join(member_id, protocols=(RANGE,))).error_code is ErrorCode.NONE

    def test_group_that_nobody_joined_is_forgotten(self, group: Harness) -> None:
        group.new_id()
        group.advance(DAY_MS)
        assert group.core.list_groups() == ()

"""Groups of the consumer protocol: joining, moving partitions, leaving, being fenced, coming back after a restart.

Keeps: G2, G5, G9, G11, G12.
"""

from dataclasses import replace

import pytest

from semel.broker.groups.classic.types import JoinResponse, LeavingMember
from semel.broker.groups.consumer.types import EPOCH_LEAVE, EPOCH_LEAVE_STATIC, ConsumerGroupState, MemberState
from semel.broker.groups.offsets.types import FetchOffsetsRequest
from semel.broker.groups.types import GroupSettings, LoadedRecord
from semel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.consumer_harness import REBALANCE_MS, SESSION_MS, ConsumerHarness, of
from tests.unit.broker.groups.harness import GROUP

FIRST_EPOCH = 2  # a group starts at epoch 1, and its first member asks for an assignment


@pytest.fixture
def group() -> ConsumerHarness:
    """A coordinator that knows a topic of four partitions."""
    return ConsumerHarness(t=4)


def test_the_first_member_gets_everything_at_once(group: ConsumerHarness) -> None:
    response = group.client("a", "t").heartbeat()
    assert (response.error_code, response.member_epoch, response.heartbeat_interval_ms) == (
        ErrorCode.NONE,
        FIRST_EPOCH,
        5_000,
    )
    assert response.assignment == of("t", 0, 1, 2, 3)


def test_a_second_member_waits_until_the_first_gave_up_its_share(group: ConsumerHarness) -> None:
    first, second = group.client("a", "t"), group.client("b", "t")
    first.heartbeat()
    assert second.heartbeat().assignment == frozenset()
    answer = group.consumer_heartbeat(replace(first.request(), owned=None))
    described = group.core.describe_consumer_group(GROUP).members[0]
    assert (described.assignment, described.target) == (of("t", 0, 1, 2, 3), of("t", 0, 1)), "what it still has"
    assert (answer.member_epoch, answer.assignment) == (FIRST_EPOCH, of("t", 0, 1)), (
        "asked to give up two, in its old epoch"
    )
    assert second.heartbeat().assignment == frozenset(), "the first has not said that it gave them up"
    first.owned = of("t", 0, 1)
    assert first.heartbeat().member_epoch == FIRST_EPOCH + 1
    assert second.heartbeat().assignment == of("t", 2, 3)


def test_a_member_that_must_give_up_more_stays_in_its_epoch(group: ConsumerHarness) -> None:
    first = group.client("a", "t")
    first.heartbeat()
    group.client("b", "t").heartbeat()
    first.heartbeat()
    for name in "cd":
        group.client(name, "t").heartbeat()
    answer = first.heartbeat()
    assert (answer.member_epoch, answer.assignment) == (FIRST_EPOCH, of("t", 0)), "it gave up, and must again"
    assert first.heartbeat().member_epoch == FIRST_EPOCH + 3


def test_a_heartbeat_without_news_says_nothing_and_writes_nothing(group: ConsumerHarness) -> None:
    client = group.client("a", "t")
    client.heartbeat()
    written = len(group.log)
    answer = client.send(rebalance_timeout_ms=-1, subscribed_names=None, owned=None)
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (ErrorCode.NONE, FIRST_EPOCH, None)
    assert len(group.log) == written


def test_what_a_leaving_member_had_goes_to_the_others(group: ConsumerHarness) -> None:
    clients = [group.client(name, "t") for name in "abc"]
    group.settle(clients)
    assert sorted(len(client.owned) for client in clients) == [1, 1, 2]
    answer = clients[0].leave()
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, EPOCH_LEAVE)
    group.settle(clients[1:])
    assert clients[1].owned | clients[2].owned == of("t", 0, 1, 2, 3)


def test_a_silent_member_is_fenced_when_its_session_ends(group: ConsumerHarness) -> None:
    silent, alive = group.client("a", "t"), group.client("b", "t")
    group.settle([silent, alive])
    group.advance(SESSION_MS - 1)
    alive.heartbeat()
    group.advance(1)
    group.settle([alive])
    assert alive.owned == of("t", 0, 1, 2, 3)
    assert silent.send().error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_give_up_is_fenced_after_its_rebalance_timeout(group: ConsumerHarness) -> None:
    stubborn, waiting = group.client("a", "t"), group.client("b", "t")
    stubborn.heartbeat()
    waiting.heartbeat()
    for _ in range(REBALANCE_MS // 10_000):
        assert stubborn.send(owned=of("t", 0, 1, 2, 3)).error_code is ErrorCode.NONE
        waiting.heartbeat()
        group.advance(10_000)
    assert stubborn.send(owned=of("t", 0, 1, 2, 3)).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert waiting.heartbeat().assignment == of("t", 0, 1, 2, 3)


def test_other_epochs_are_fenced(group: ConsumerHarness) -> None:
    client = group.client("a", "t")
    group.settle([client])
    client.names = frozenset({"t", "u"})
    group.make_topic("u", 1)
    client.heartbeat()
    client.names = frozenset({"t"})
    group.settle([client])
    assert client.epoch == FIRST_EPOCH + 2
    assert client.send(member_epoch=FIRST_EPOCH + 3).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert client.send(member_epoch=FIRST_EPOCH).error_code is ErrorCode.FENCED_MEMBER_EPOCH


def test_the_last_epoch_passes_while_its_answer_may_have_been_lost(group: ConsumerHarness) -> None:
    first, second = group.client("a", "t"), group.client("b", "t")
    first.heartbeat()
    second.heartbeat()
    first.heartbeat()
    group.consumer_heartbeat(first.request())  # the answer with the next epoch is lost
    assert first.epoch == FIRST_EPOCH
    assert first.send(owned=of("t", 0, 1, 2, 3)).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert first.send(owned=None).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert first.send().member_epoch == FIRST_EPOCH + 1


def test_a_member_that_starts_over_keeps_its_place(group: ConsumerHarness) -> None:
    client = group.client("a", "t")
    client.heartbeat()
    again = group.client("a", "t").heartbeat()
    assert (again.member_epoch, again.assignment) == (FIRST_EPOCH, of("t", 0, 1, 2, 3))


def test_strangers_are_told_apart(group: ConsumerHarness) -> None:
    stranger = group.client("a", "t")
    assert stranger.send(member_epoch=1).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert stranger.send(member_epoch=EPOCH_LEAVE).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    group.client("b", "t").heartbeat()
    assert stranger.send(member_epoch=1).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.send(member_epoch=EPOCH_LEAVE).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.send(member_epoch=1, instance_id="i").error_code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("changes", "error_code"),
    [
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"owned": None}, ErrorCode.INVALID_REQUEST),
        ({"owned": of("t", 0)}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_names": None}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": EPOCH_LEAVE_STATIC}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "x" * 40_000}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "best"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_requests_that_make_no_sense(group: ConsumerHarness, changes: dict[str, object], error_code: ErrorCode) -> None:
    answer = group.client("a", "t").send(**changes)
    assert answer.error_code is error_code
    assert answer.error_message
    assert not group.log


def test_an_old_client_is_given_a_member_id(group: ConsumerHarness) -> None:
    answer = group.client("", "t").send(api_version=0)
    assert answer.error_code is ErrorCode.NONE
    assert answer.member_id == "uuid1"


def test_a_full_group_takes_nobody_in() -> None:
    group = ConsumerHarness(GroupSettings(consumer_group_members_max=1), t=2)
    client = group.client("a", "t")
    client.heartbeat()
    assert group.client("b", "t").heartbeat().error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert client.heartbeat().error_code is ErrorCode.NONE


# Static members.


def test_a_static_member_that_leaves_for_a_while_keeps_its_partitions(group: ConsumerHarness) -> None:
    static, other = group.client("a1", "t", instance="i"), group.client("b", "t")
    group.settle([static, other])
    had = static.owned
    assert static.leave().member_epoch == EPOCH_LEAVE_STATIC
    group.settle([other])
    assert len(other.owned) == 2
    back = group.client("a2", "t", instance="i")
    answer = back.heartbeat()
    assert (answer.member_epoch, answer.assignment) == (other.epoch, had)
    assert static.send(member_epoch=1).error_code is ErrorCode.FENCED_INSTANCE_ID
    assert static.send(member_epoch=EPOCH_LEAVE).error_code is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_does_not_come_back_is_fenced(group: ConsumerHarness) -> None:
    static, other = group.client("a", "t", instance="i"), group.client("b", "t")
    group.settle([static, other])
    static.leave()
    for _ in range(SESSION_MS // 5_000):
        group.advance(5_000)
        other.heartbeat()
    group.settle([other])
    assert other.owned == of("t", 0, 1, 2, 3)


def test_an_instance_that_has_not_left_cannot_be_replaced(group: ConsumerHarness) -> None:
    group.client("a", "t", instance="i").heartbeat()
    assert group.client("b", "t", instance="i").heartbeat().error_code is ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_static_member_may_leave_for_good(group: ConsumerHarness) -> None:
    static, other = group.client("a", "t", instance="i"), group.client("b", "t")
    group.settle([static, other])
    assert static.send(member_epoch=EPOCH_LEAVE).error_code is ErrorCode.NONE
    group.settle([other])
    assert other.owned == of("t", 0, 1, 2, 3)


# Topics that come, go and grow; regular expressions.


def test_partitions_that_are_added_are_handed_out(group: ConsumerHarness) -> None:
    client = group.client("a", "t", "u")
    group.settle([client])
    group.make_topic("t", 6)
    group.make_topic("u", 1)
    group.settle([client])
    assert client.owned == of("t", 0, 1, 2, 3, 4, 5) | of("u", 0)
    group.drop_topic("t")
    group.settle([client])
    assert client.owned == of("u", 0)


def test_a_regular_expression_follows_the_topics(group: ConsumerHarness) -> None:
    client = group.client("a", regex="o.ders")
    client.names = None
    group.settle([client])
    assert client.owned == frozenset()
    group.make_topic("orders", 2)
    group.make_topic("orders-more", 2)
    group.settle([client])
    assert client.owned == of("orders", 0, 1), "the whole name must match"
    group.drop_topic("orders")
    group.settle([client])
    assert client.owned == frozenset()


def test_names_and_a_regular_expression_together_and_given_up(group: ConsumerHarness) -> None:
    group.make_topic("u", 1)
    client, other = group.client("a", "t", regex="u"), group.client("b", regex="u")
    group.settle([client, other])
    assert client.owned | other.owned == of("t", 0, 1, 2, 3) | of("u", 0)
    client.regex = ""
    group.settle([client, other])
    assert (client.owned, other.owned) == (of("t", 0, 1, 2, 3), of("u", 0))
    other.leave()
    assert not group.core.describe_consumer_group(GROUP).members[0].subscribed_regex
    group.settle([client])
    assert client.owned == of("t", 0, 1, 2, 3)
    group.compact()
    assert not any(record.key.startswith(b"\x00\x10") for record in group.log if isinstance(record, LoadedRecord))


def test_the_assignor_that_most_members_ask_for(group: ConsumerHarness) -> None:
    group.make_topic("u", 4)
    clients = [group.client(name, "t", "u", assignor="range") for name in "ab"]
    group.settle(clients)
    assert [client.owned for client in clients] == [of("t", 0, 1) | of("u", 0, 1), of("t", 2, 3) | of("u", 2, 3)]
    assert group.core.describe_consumer_group(GROUP).assignor == "range"


# Durability and restarts.


def test_nothing_is_answered_before_it_is_durable(group: ConsumerHarness) -> None:
    group.holds_appends = True
    token = group.ask_heartbeat(group.client("a", "t").request())
    assert token not in group.answers
    assert group.core.describe_consumer_group(GROUP).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    group.release()
    assert group.heartbeat_answer(token).assignment == of("t", 0, 1, 2, 3)


def test_two_members_that_join_at_once_do_not_get_the_same_partitions(group: ConsumerHarness) -> None:
    group.holds_appends = True
    tokens = [group.ask_heartbeat(group.client(name, "t").request()) for name in "ab"]
    group.release_all()
    first, second = (group.heartbeat_answer(token) for token in tokens)
    assert first.assignment == of("t", 0, 1, 2, 3)
    assert second.assignment == frozenset()


def test_a_change_on_its_way_counts_while_others_arrive(group: ConsumerHarness) -> None:
    group.holds_appends = True
    tokens = [group.ask_heartbeat(group.client(name, "t").request()) for name in "ab"]
    group.release()
    tokens.append(group.ask_heartbeat(group.client("c", "t").request()))
    group.release_all()
    assert [group.heartbeat_answer(token).member_epoch for token in tokens] == [
        FIRST_EPOCH,
        FIRST_EPOCH + 1,
        FIRST_EPOCH + 2,
    ]
    assert len(group.core.describe_consumer_group(GROUP).members) == 3


def test_a_change_that_never_became_durable_is_taken_back(group: ConsumerHarness) -> None:
    client = group.client("a", "t")
    client.heartbeat()
    group.holds_appends = True
    tokens = [group.ask_heartbeat(group.client(name, "t").request()) for name in "bc"]
    group.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    group.release_all()
    assert group.heartbeat_answer(tokens[0]).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.heartbeat_answer(tokens[1]).error_code is ErrorCode.NONE
    described = group.core.describe_consumer_group(GROUP)
    assert [member.member_id for member in described.members] == ["a", "c"]
    group.restart()
    assert group.core.describe_consumer_group(GROUP) == described


def test_a_restart_finds_the_group_as_it_was(group: ConsumerHarness) -> None:
    clients = [group.client("a", "t"), group.client("b", "t", instance="i"), group.client("c", regex="t")]
    clients[2].names = None
    group.settle(clients)
    before = group.core.describe_consumer_group(GROUP)
    assert before.state == ConsumerGroupState.STABLE
    group.restart()
    assert group.core.describe_consumer_group(GROUP) == before
    owned = [client.owned for client in clients]
    group.settle(clients)
    assert [client.owned for client in clients] == owned
    group.restart()
    group.advance(SESSION_MS)
    assert group.core.describe_consumer_group(GROUP).state == ConsumerGroupState.EMPTY


def test_a_restart_in_the_middle_of_a_move_still_waits_for_it(group: ConsumerHarness) -> None:
    first, second = group.client("a", "t"), group.client("b", "t")
    first.heartbeat()
    second.heartbeat()
    group.consumer_heartbeat(replace(first.request(), owned=None))
    group.restart()
    assert second.heartbeat().assignment is not None
    assert not second.owned
    for _ in range(REBALANCE_MS // 10_000):
        first.send(owned=of("t", 0, 1, 2, 3))
        second.heartbeat()
        group.advance(10_000)
    assert second.heartbeat().assignment == of("t", 0, 1, 2, 3)


def test_a_coordinator_that_loses_its_partition_says_so(group: ConsumerHarness) -> None:
    group.holds_appends = True
    token = group.ask_heartbeat(group.client("a", "t").request())
    group.unload()
    assert group.heartbeat_answer(token).error_code is ErrorCode.NOT_COORDINATOR


# Offsets.


def test_a_commit_of_a_stale_epoch_is_refused(group: ConsumerHarness) -> None:
    first, second = group.client("a", "t"), group.client("b", "t")
    group.settle([first, second])
    assert (first.owned, second.owned) == (of("t", 0, 1), of("t", 2, 3))
    assert first.commit(5) is ErrorCode.NONE
    assert first.commit(6, epoch=first.epoch + 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert first.commit(7, epoch=FIRST_EPOCH) is ErrorCode.NONE, "it has had this partition since then"
    assert first.commit(8, partition=2, epoch=FIRST_EPOCH) is ErrorCode.STALE_MEMBER_EPOCH, (
        "which is another member's now"
    )
    assert second.commit(9, partition=2, epoch=FIRST_EPOCH) is ErrorCode.STALE_MEMBER_EPOCH, "it got this one later"
    assert group.client("x").commit(1, epoch=2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit(10) is ErrorCode.UNKNOWN_MEMBER_ID, "not by a simple consumer while there are members"
    assert (group.fetch().offset_next, group.fetch(partition=2).offset_next) == (7, -1)


def test_commits_of_old_clients_and_of_nobody(group: ConsumerHarness) -> None:
    client = group.client("a", "t")
    client.heartbeat()
    assert group.committed(group.ask_commit(1, api_version=8)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.committed(client.ask_commit(1, api_version=8)) is ErrorCode.UNSUPPORTED_VERSION
    client.leave()
    assert group.commit(3) is ErrorCode.NONE
    assert group.fetch().offset_next == 3


def test_fetching_offsets_needs_the_current_epoch(group: ConsumerHarness) -> None:
    client = group.client("a", "t")
    client.heartbeat()

    def fault(member_id: str | None, epoch: int) -> ErrorCode:
        request = FetchOffsetsRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch)
        return group.core.error_for_fetch(request)

    assert fault(None, -1) is ErrorCode.NONE
    assert fault("a", FIRST_EPOCH) is ErrorCode.NONE
    assert fault("a", FIRST_EPOCH - 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert fault("x", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_transaction_of_a_fenced_member_is_refused(group: ConsumerHarness) -> None:
    client = group.client("a", "t")
    client.heartbeat()
    live = JoinResponse(generation=FIRST_EPOCH, member_id="a")
    stale = JoinResponse(generation=FIRST_EPOCH - 1, member_id="a")
    stranger = JoinResponse(generation=1, member_id="x")
    assert group.committed(group.ask_txn_commit(1, 7, live)) is ErrorCode.NONE
    assert group.committed(group.ask_txn_commit(2, 7, stale)) is ErrorCode.ILLEGAL_GENERATION
    assert group.committed(group.ask_txn_commit(3, 7, stranger)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.committed(group.ask_txn_commit(4, 7)) is ErrorCode.NONE, "clients from before KIP-447 name nobody"
    group.end_transaction(7, commit=True)
    assert group.fetch().offset_next == 4


# Deletion, expiry, conversion.


def test_only_an_empty_group_is_deleted_and_its_offsets_with_it(group: ConsumerHarness) -> None:
    client = group.client("a", "t")
    client.heartbeat()
    client.commit(5)
    assert group.deleted(group.ask_delete_group()) is ErrorCode.NON_EMPTY_GROUP
    assert group.delete_offsets(("t", 0)).results[0].error_code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    client.leave()
    assert group.deleted(group.ask_delete_group()) is ErrorCode.NONE
    assert group.deleted(group.ask_delete_group()) is ErrorCode.GROUP_ID_NOT_FOUND
    group.restart()
    assert group.fetch().offset_next == -1
    assert not group.core.list_groups()


def test_a_deletion_that_fails_leaves_the_group(group: ConsumerHarness) -> None:
    client = group.client("a", "t")
    client.heartbeat()
    client.commit(5)
    client.leave()
    group.holds_appends = True
    token = group.ask_delete_group()
    group.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert group.deleted(token) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.core.describe_consumer_group(GROUP).state == ConsumerGroupState.EMPTY
    assert group.fetch().offset_next == 5


def test_offsets_of_topics_that_nobody_reads_expire(group: ConsumerHarness) -> None:
    group.make_topic("u", 1)
    client = group.client("a", "t", "u")
    client.heartbeat()
    client.commit(1, "t")
    client.commit(2, "u")
    client.names = frozenset({"t"})
    client.heartbeat()
    week_ms = group.settings.offsets_retention_ms
    for _ in range(week_ms // SESSION_MS + 20):
        client.heartbeat()
        group.advance(SESSION_MS - 1)
    assert (group.fetch(topic="t").offset_next, group.fetch(topic="u").offset_next) == (1, -1)
    client.leave()
    group.advance(week_ms * 2)
    assert group.fetch(topic="t").offset_next == -1
    assert not group.core.list_groups()


def test_an_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets(group: ConsumerHarness) -> None:
    joined = group.stable(1)[0]
    group.commit(7, joined)
    client = group.client("a", "t")
    assert client.heartbeat().error_code is ErrorCode.GROUP_ID_NOT_FOUND, "not while it has members"
    group.leave(LeavingMember(member_id=joined.member_id))
    assert client.heartbeat().error_code is ErrorCode.NONE
    assert [(row.group_type, row.state) for row in group.core.list_groups()] == [("consumer", "Stable")]
    assert group.joined(group.ask_join()).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.heartbeat(joined) is ErrorCode.UNKNOWN_MEMBER_ID
    group.restart()
    assert group.fetch().offset_next == 7
    assert client.heartbeat().member_epoch == FIRST_EPOCH


def test_an_empty_consumer_group_becomes_a_classic_group_and_keeps_its_offsets(group: ConsumerHarness) -> None:
    client = group.client("a", "t")
    client.heartbeat()
    client.commit(7)
    client.leave()
    joined = group.stable(1)[0]
    assert [(row.group_type, row.state) for row in group.core.list_groups()] == [("classic", "Stable")]
    group.restart()
    assert [(row.group_type, row.state) for row in group.core.list_groups()] == [("classic", "Stable")]
    assert group.heartbeat(joined) is ErrorCode.NONE
    assert group.fetch().offset_next == 7
    assert client.send(member_epoch=1).error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_restart_between_two_protocols_keeps_the_offsets(group: ConsumerHarness) -> None:
    client = group.client("a", "t")
    client.heartbeat()
    client.commit(7)
    client.leave()
    group.new_id()
    group.restart()
    assert [(row.group_type, row.state) for row in group.core.list_groups()] == [("classic", "Empty")]
    assert group.fetch().offset_next == 7


def test_after_compaction_a_group_that_changed_its_protocol_twice_is_gone(group: ConsumerHarness) -> None:
    group.leave(LeavingMember(member_id=group.stable(1)[0].member_id))
    client = group.client("a", "t")
    client.heartbeat()
    client.leave()
    assert group.deleted(group.ask_delete_group()) is ErrorCode.NONE
    group.compact()
    assert not group.log


@pytest.mark.parametrize("is_classic_last", [True, False])
def test_the_protocol_of_the_later_record_is_the_group_s(group: ConsumerHarness, is_classic_last: bool) -> None:
    """As when the tombstones between the two were lost with an append that failed."""
    other = ConsumerHarness(t=4)
    other.client("a", "t").heartbeat()
    group.stable(1)
    logs = [other.log, group.log] if is_classic_last else [group.log, other.log]
    group.log = [record for log in logs for record in log]
    group.restart()
    assert [row.group_type for row in group.core.list_groups()] == ["classic" if is_classic_last else "consumer"]


def test_a_conversion_that_fails_leaves_the_classic_group(group: ConsumerHarness) -> None:
    group.commit(7)
    group.holds_appends = True
    token = group.ask_heartbeat(group.client("a", "t").request())
    assert not group.core.list_groups(types=["classic"])
    group.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert group.heartbeat_answer(token).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [row.group_type for row in group.core.list_groups()] == ["classic"]


def test_an_administrator_removes_members(group: ConsumerHarness) -> None:
    clients = [group.client("a", "t"), group.client("b", "t", instance="i"), group.client("c", "t")]
    group.settle(clients)
    answer = group.leave(
        LeavingMember(member_id="a"),
        LeavingMember(group_instance_id="i"),
        LeavingMember(member_id="x"),
        LeavingMember(group_instance_id="j"),
        LeavingMember(member_id="x", group_instance_id="i"),
    )
    unknown, fenced = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
    assert answer.results == (ErrorCode.NONE, ErrorCode.NONE, unknown, unknown, fenced)
    group.settle(clients[2:])
    assert clients[2].owned == of("t", 0, 1, 2, 3)


# Descriptions.


def test_the_states_of_a_group(group: ConsumerHarness) -> None:
    def state() -> str:
        return group.core.describe_consumer_group(GROUP).state

    first, second = group.client("a", "t"), group.client("b", "t")
    first.heartbeat()
    assert state() == ConsumerGroupState.STABLE
    second.heartbeat()
    assert state() == ConsumerGroupState.RECONCILING
    group.settle([first, second])
    assert state() == ConsumerGroupState.STABLE
    second.leave()
    assert state() == ConsumerGroupState.ASSIGNING
    first.leave()
    assert state() == ConsumerGroupState.EMPTY


def test_other_descriptions_say_which_protocol_it_is(group: ConsumerHarness) -> None:
    group.client("a", "t").heartbeat()
    old, new = (group.core.describe_group(GROUP, api_version=version) for version in (5, 6))
    assert (old.state, old.error_code) == ("Dead", ErrorCode.NONE)
    assert new.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert "not a classic group" in (new.error_message or "")
    assert not group.core.list_groups(types=["classic"])
    assert not group.core.list_groups(states=["Empty"])
    assert len(group.core.list_groups(states=["stable"], types=["Consumer"])) == 1
    group.commit(1)
    described = group.core.describe_consumer_group("other")
    assert described.error_message == "Group other not found."


def test_member_states_are_those_of_kafkas_records() -> None:
    assert [(state.name, state.value) for state in MemberState] == [
        ("STABLE", 0),
        ("UNREVOKED_PARTITIONS", 1),
        ("UNRELEASED_PARTITIONS", 2),
    ]

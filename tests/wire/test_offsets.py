"""Offsets of logs and groups, through every error that heals and some that do not."""

from __future__ import annotations

import pytest

from semel.broker.runtime.intercept import After, AnswerError, Delay, DropRequest, DropResponse
from semel.engine.embedded import Cluster
from semel.errors import BrokerError, ConnectionFailure, Outcome
from semel.protocol.error_codes import ErrorCode
from semel.wire.cluster import WireCluster
from semel.wire.offsets import (
    EARLIEST,
    LATEST,
    NO_OFFSET,
    CommittedOffset,
    EpochEnd,
    commit_offsets,
    committed_offsets,
    count_members,
    epoch_ends,
    list_offsets,
)
from semel.wire.produce import send_batches
from semel.wire.topology import Isolation, TopicPartition
from semel.wire.transaction import TransactionClient
from tests.support.groups import Member
from tests.support.topics import produce
from tests.support.waiting import eventually
from tests.wire.conftest import MakeClient
from tests.wire.records import batches_of, partitions_of

FIRST_MS = 1_700_000_000_000


def offsets_of(client: WireCluster, wanted: dict[TopicPartition, int], ms: float | None = None) -> list[int]:
    found = list_offsets(client, wanted, deadline=client.deadline(ms))
    assert found.keys() == wanted.keys()
    return [found[place].offset for place in wanted]


def test_earliest_latest_and_by_time(cluster: Cluster, client: WireCluster, topic: str) -> None:
    places = partitions_of(topic)
    for place in places:
        produce(cluster, topic, place.partition, partition=place.partition)
    assert offsets_of(client, dict.fromkeys(places, LATEST)) == [0, 1, 2, 3, 4, 5]
    assert offsets_of(client, dict.fromkeys(places, EARLIEST)) == [0] * 6
    late = dict.fromkeys(places, FIRST_MS + 3)
    assert offsets_of(client, late) == [NO_OFFSET] * 4 + [3, 3]
    found = list_offsets(client, late, deadline=client.deadline())[places[5]]
    assert (found.timestamp_ms, found.leader_epoch) == (FIRST_MS + 3, 0)
    assert list_offsets(client, {}, deadline=client.deadline()) == {}


def test_the_last_stable_offset_holds_before_an_open_transaction(client: WireCluster, topic: str) -> None:
    place = TopicPartition(topic, 0)
    transaction = TransactionClient(client, topic, timeout_ms=60_000)
    who = transaction.begin(client.deadline())
    transaction.add_partitions([place], client.deadline())
    send_batches(client, batches_of([place], 2, transactional=True), producer=who, deadline=client.deadline())
    assert offsets_of(client, {place: LATEST}) == [0]
    uncommitted = Isolation.READ_UNCOMMITTED
    assert list_offsets(client, {place: LATEST}, deadline=client.deadline(), isolation=uncommitted)[place].offset == 6
    transaction.end(client.deadline(), commit=True)
    eventually(lambda: offsets_of(client, {place: LATEST}) == [7])


HEALING = [
    AnswerError(code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
    AnswerError(code=ErrorCode.LEADER_NOT_AVAILABLE),
    AnswerError(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    DropRequest(),
    DropResponse(),
    DropResponse(then=After.SILENCE),
]


@pytest.mark.parametrize("action", HEALING)
def test_what_heals_is_asked_again(
    cluster: Cluster, client: WireCluster, topic: str, action: AnswerError | DropRequest | DropResponse
) -> None:
    places = partitions_of(topic, 3)
    for place in places:
        produce(cluster, topic, 2, partition=place.partition)
    hook = cluster.intercept("ListOffsets", action)
    assert offsets_of(client, dict.fromkeys(places, LATEST)) == [2] * 3
    assert hook.fired == 1
    hook = cluster.intercept("OffsetForLeaderEpoch", action)
    ends = epoch_ends(client, dict.fromkeys(places, 0), deadline=client.deadline())
    assert ends == dict.fromkeys(places, EpochEnd(leader_epoch=0, offset_end=2))
    assert hook.fired == 1


def test_a_moved_leader_is_looked_up_again(cluster: Cluster, client: WireCluster, topic: str) -> None:
    offsets_of(client, {TopicPartition(topic, 0): LATEST})
    asked = cluster.intercept("Metadata", Delay(ms=0), times=None)
    cluster.intercept("ListOffsets", AnswerError(code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    offsets_of(client, {TopicPartition(topic, 0): LATEST})
    assert asked.fired == 1


def test_what_does_not_heal_is_said_at_once_and_the_client_still_works(
    cluster: Cluster, client: WireCluster, topic: str
) -> None:
    wanted = dict.fromkeys(partitions_of(topic), LATEST)
    cluster.intercept("ListOffsets", AnswerError(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    deadline = client.deadline(60_000)
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        list_offsets(client, wanted, deadline=deadline)
    assert deadline.left_ms > 30_000
    assert offsets_of(client, wanted) == [0] * 6


def test_a_leader_that_stays_silent_is_named_at_the_deadline(
    cluster: Cluster, client_of: MakeClient, topic: str
) -> None:
    client = client_of(cluster.bootstrap, request_timeout_ms="200")
    cluster.intercept("ListOffsets", DropRequest(then=After.SILENCE), times=None)
    with pytest.raises(ConnectionFailure, match=r"broker 127\.0\.0\.1:\d+") as failed:
        offsets_of(client, {TopicPartition(topic, 0): LATEST}, ms=700)
    assert failed.value.outcome is Outcome.DID_NOT_HAPPEN


def test_nothing_has_happened_when_nobody_says_who_leads(cluster: Cluster, client_of: MakeClient, topic: str) -> None:
    client = client_of(cluster.bootstrap, request_timeout_ms="200")
    cluster.intercept("Metadata", DropRequest(then=After.SILENCE), times=None)
    with pytest.raises(ConnectionFailure, match="waiting for an answer") as failed:
        offsets_of(client, {TopicPartition(topic, 0): LATEST}, ms=700)
    assert failed.value.outcome is Outcome.DID_NOT_HAPPEN


def test_a_partition_that_does_not_exist_is_said(client: WireCluster, topic: str) -> None:
    with pytest.raises(BrokerError, match="does not exist"):
        offsets_of(client, {TopicPartition(topic, 9): LATEST})


def test_an_unknown_leader_epoch_has_no_end(client: WireCluster, topic: str) -> None:
    place = TopicPartition(topic, 0)
    assert epoch_ends(client, {place: 7}, deadline=client.deadline())[place].offset_end == -1


def test_offsets_of_a_group_come_back_with_their_notes(client: WireCluster, topic: str) -> None:
    first, second, _ = places = partitions_of(topic, 3)
    offsets = {
        first: CommittedOffset(offset_next=5, leader_epoch=0, metadata='{"micro_batch": 17}'),
        second: CommittedOffset(offset_next=0),
    }
    commit_offsets(client, topic, offsets, deadline=client.deadline())
    assert committed_offsets(client, topic, deadline=client.deadline()) == offsets
    assert committed_offsets(client, topic, places, deadline=client.deadline(), require_stable=False) == offsets
    assert committed_offsets(client, topic, [second], deadline=client.deadline()) == {second: offsets[second]}
    assert committed_offsets(client, f"{topic}-other", deadline=client.deadline()) == {}


COORDINATOR_HEALS = [
    AnswerError(code=ErrorCode.NOT_COORDINATOR),
    AnswerError(code=ErrorCode.COORDINATOR_NOT_AVAILABLE),
    AnswerError(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    DropRequest(),
    DropResponse(),
    DropResponse(then=After.SILENCE),
]


@pytest.mark.parametrize("action", COORDINATOR_HEALS)
def test_a_coordinator_is_asked_again(
    cluster: Cluster, client: WireCluster, topic: str, action: AnswerError | DropRequest | DropResponse
) -> None:
    offsets = {TopicPartition(topic, 0): CommittedOffset(offset_next=3)}
    hooks = [cluster.intercept(api, action) for api in ("OffsetCommit", "OffsetFetch")]
    commit_offsets(client, topic, offsets, deadline=client.deadline())
    assert committed_offsets(client, topic, deadline=client.deadline()) == offsets
    assert [hook.fired for hook in hooks] == [1, 1]


def test_a_lost_coordinator_is_looked_up_again(cluster: Cluster, client: WireCluster, topic: str) -> None:
    committed_offsets(client, topic, deadline=client.deadline())
    asked = cluster.intercept("FindCoordinator", Delay(ms=0), times=None)
    for action in (AnswerError(code=ErrorCode.NOT_COORDINATOR), DropResponse()):
        cluster.intercept("OffsetFetch", action)
        committed_offsets(client, topic, deadline=client.deadline())
    cluster.intercept("OffsetFetch", AnswerError(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    committed_offsets(client, topic, deadline=client.deadline())
    assert asked.fired == 2


def test_a_commit_without_an_answer_may_have_happened(cluster: Cluster, client_of: MakeClient, topic: str) -> None:
    client = client_of(cluster.bootstrap, request_timeout_ms="200")
    offsets = {TopicPartition(topic, 0): CommittedOffset(offset_next=3)}
    committed_offsets(client, topic, deadline=client.deadline())
    hook = cluster.intercept("OffsetCommit", DropResponse(then=After.SILENCE), times=None)
    with pytest.raises(ConnectionFailure) as failed:
        commit_offsets(client, topic, offsets, deadline=client.deadline(1_500))
    assert (failed.value.outcome, hook.fired > 0) == (Outcome.UNKNOWN, True)
    assert committed_offsets(client, topic, deadline=client.deadline()) == offsets


def test_offsets_of_an_open_transaction_are_waited_for(client: WireCluster, topic: str) -> None:
    place = TopicPartition(topic, 0)
    transaction = TransactionClient(client, topic, timeout_ms=60_000)
    transaction.begin(client.deadline())
    transaction.commit_offsets(topic, {place: CommittedOffset(offset_next=9)}, client.deadline())
    with pytest.raises(BrokerError, match="UNSTABLE_OFFSET_COMMIT"):
        committed_offsets(client, topic, [place], deadline=client.deadline(1_000))
    assert committed_offsets(client, topic, [place], deadline=client.deadline(), require_stable=False) == {}
    transaction.end(client.deadline(), commit=True)
    found = committed_offsets(client, topic, [place], deadline=client.deadline())
    assert found[place].offset_next == 9


def test_members_of_a_group_are_counted(cluster: Cluster, client: WireCluster, topic: str) -> None:
    assert count_members(client, topic, deadline=client.deadline()) == 0
    member = Member(cluster, topic)
    try:
        member.enter()
        assert count_members(client, topic, deadline=client.deadline()) == 1
        offsets = {TopicPartition(topic, 0): CommittedOffset(offset_next=1)}
        with pytest.raises(BrokerError, match="UNKNOWN_MEMBER_ID") as refused:
            commit_offsets(client, topic, offsets, deadline=client.deadline())
        assert "group of its own" in refused.value.next_command
    finally:
        member.close()

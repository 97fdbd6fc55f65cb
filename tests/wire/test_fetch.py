"""Fetch: what is read, from whom, and what happens when a leader is slow, gone or has other offsets."""

from __future__ import annotations

import pickle
import time

import pytest

from semel.broker.runtime.intercept import After, AnswerError, Delay, DropRequest, DropResponse, Seen
from semel.engine.embedded import Cluster
from semel.errors import BrokerError, ConnectionFailure, Outcome
from semel.protocol.batch_header import iter_headers
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from semel.wire import fetch as fetching
from semel.wire.cluster import WireCluster
from semel.wire.fetch import OffsetOutOfRangeError, TopicRecreatedError, fetch
from semel.wire.produce import send_batches
from semel.wire.topology import Isolation, TopicPartition
from semel.wire.transaction import TransactionClient
from tests.support.topics import create_topic, produce
from tests.support.waiting import eventually
from tests.support.wire import Wire
from tests.wire.conftest import MakeClient
from tests.wire.records import batches_of, expected, partitions_of, values_in


@pytest.fixture
def filled(cluster: Cluster, topic: str) -> list[TopicPartition]:
    """Four records in each partition."""
    for place in partitions_of(topic):
        produce(cluster, topic, 4, partition=place.partition)
    return partitions_of(topic)


def test_all_leaders_are_read_at_once(client: WireCluster, filled: list[TopicPartition]) -> None:
    fetched = fetch(client, dict.fromkeys(filled, 1), deadline=client.deadline())
    assert fetched.keys() == set(filled)
    for found in fetched.values():
        assert [header.base_offset for _, header in iter_headers(found.records)] == [1, 2, 3]
        assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (4, 4, 0)
        assert found.aborted == ()


def test_nothing_asked_for_is_nothing_read(client: WireCluster) -> None:
    assert fetch(client, {}, deadline=client.deadline()) == {}


def test_the_end_of_the_log_is_an_empty_answer(client: WireCluster, filled: list[TopicPartition]) -> None:
    fetched = fetch(client, {filled[0]: 4}, deadline=client.deadline(), wait_ms_max=1)
    assert len(fetched[filled[0]].records) == 0


def test_limits_reach_the_broker(cluster: Cluster, client: WireCluster, filled: list[TopicPartition]) -> None:
    seen: list[Seen] = []
    hook = cluster.intercept("Fetch", Delay(ms=0))
    hook.on_fire.append(seen.append)
    fetched = fetch(
        client, {filled[0]: 0}, deadline=client.deadline(), partition_bytes_max=1, bytes_max=1, wait_ms_max=7
    )
    assert len(list(iter_headers(fetched[filled[0]].records))) == 1
    asked = seen[0].request
    assert getattr(asked, "max_wait_ms", None) == 7


def test_aborted_transactions_are_listed(client: WireCluster, topic: str) -> None:
    place = TopicPartition(topic, 0)
    transaction = TransactionClient(client, topic, timeout_ms=60_000)
    who = transaction.begin(client.deadline())
    transaction.add_partitions([place], client.deadline())
    send_batches(client, batches_of([place], 2, transactional=True), producer=who, deadline=client.deadline())
    held = fetch(client, {place: 0}, deadline=client.deadline(), wait_ms_max=1)[place]
    assert (len(held.records), held.last_stable_offset, held.high_watermark) == (0, 0, 6)
    seen = fetch(client, {place: 0}, deadline=client.deadline(), isolation=Isolation.READ_UNCOMMITTED)[place]
    assert len(seen.records) > 0
    transaction.end(client.deadline(), commit=False)
    eventually(
        lambda: fetch(client, {place: 0}, deadline=client.deadline(), wait_ms_max=1)[place].last_stable_offset == 7
    )
    assert fetch(client, {place: 0}, deadline=client.deadline())[place].aborted == ((who.producer_id, 0),)


def test_an_offset_that_is_not_there_is_named(client: WireCluster, filled: list[TopicPartition]) -> None:
    with pytest.raises(OffsetOutOfRangeError, match=f"offset 99 of {filled[2]}") as out:
        fetch(client, {filled[1]: 0, filled[2]: 99}, deadline=client.deadline())
    copy = pickle.loads(pickle.dumps(out.value))
    assert (copy.topic, copy.partition, copy.offset, copy.code) == (*filled[2], 99, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert fetch(client, dict.fromkeys(filled, 0), deadline=client.deadline()).keys() == set(filled)


@pytest.mark.parametrize(
    "action",
    [
        AnswerError(code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        AnswerError(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        AnswerError(code=ErrorCode.KAFKA_STORAGE_ERROR),
        DropRequest(),
        DropResponse(),
        DropResponse(then=After.SILENCE),
    ],
)
def test_what_heals_is_asked_again(
    cluster: Cluster,
    client: WireCluster,
    filled: list[TopicPartition],
    action: AnswerError | DropRequest | DropResponse,
) -> None:
    hook = cluster.intercept("Fetch", action)
    assert fetch(client, {filled[0]: 0}, deadline=client.deadline()).keys() == {filled[0]}
    assert hook.fired == 1


def test_what_does_not_heal_is_said(cluster: Cluster, client: WireCluster, filled: list[TopicPartition]) -> None:
    cluster.intercept("Fetch", AnswerError(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        fetch(client, {filled[0]: 0}, deadline=client.deadline())


def test_a_silent_broker_holds_up_nobody_else(
    cluster: Cluster, client_of: MakeClient, filled: list[TopicPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "SLOW_MS", 50)
    client = client_of(cluster.bootstrap)
    deadline = client.deadline(60_000)
    leaders = {place: client.leader(place, deadline) for place in filled}
    cluster.intercept("Fetch", DropRequest(then=After.SILENCE), times=None, where=lambda seen: seen.broker_id == 2)
    fetched = fetch(client, dict.fromkeys(filled, 0), deadline=deadline, wait_ms_max=10)
    assert fetched.keys() == {place for place, leader in leaders.items() if leader != 2}
    assert deadline.left_ms > 40_000  # not held up until the silent one's request times out
    cluster.disarm()
    assert fetch(client, dict.fromkeys(filled, 0), deadline=client.deadline()).keys() == set(filled)


def test_a_dead_broker_holds_up_nobody_else_and_is_read_when_it_is_back(client_of: MakeClient) -> None:
    with Cluster(brokers=3, topics=["t:6:1"]) as cluster:
        places = partitions_of("t")
        for place in places:
            produce(cluster, "t", 1, partition=place.partition)
        client = client_of(cluster.bootstrap)
        leaders = {place: client.leader(place, client.deadline()) for place in places}
        cluster.kill(2)
        fetched = fetch(client, dict.fromkeys(places, 0), deadline=client.deadline())
        assert fetched.keys() == {place for place, leader in leaders.items() if leader != 2}
        gone = next(place for place, leader in leaders.items() if leader == 2)
        with pytest.raises((ConnectionFailure, BrokerError)) as failed:
            fetch(client, {gone: 0}, deadline=client.deadline(300))
        assert failed.value.outcome is Outcome.DID_NOT_HAPPEN
        cluster.restart(2)
        assert fetch(client, {gone: 0}, deadline=client.deadline()).keys() == {gone}


def recreate(cluster: Cluster, topic: str) -> None:
    with Wire.to_broker(cluster) as wire:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5_000)
        assert wire.ask(request, DeleteTopicsResponse).responses[0].error_code == ErrorCode.NONE
    create_topic(cluster, topic, partitions=6)


def test_a_recreated_topic_is_not_read_as_the_old_one(
    cluster: Cluster, client: WireCluster, topic: str, filled: list[TopicPartition]
) -> None:
    topic_id = client.topic(topic, client.deadline()).topic_id
    assert topic_id is not None
    pinned = fetch(client, {filled[0]: 0}, deadline=client.deadline(), topic_ids={topic: topic_id})
    assert len(pinned[filled[0]].records) > 0
    recreate(cluster, topic)
    with pytest.raises(TopicRecreatedError, match=str(topic_id)):
        fetch(client, {filled[0]: 0}, deadline=client.deadline(), topic_ids={topic: topic_id})


def test_a_topic_id_that_a_broker_has_not_heard_of_yet_is_asked_for_again(
    cluster: Cluster, client: WireCluster, topic: str, filled: list[TopicPartition]
) -> None:
    topic_id = client.topic(topic, client.deadline()).topic_id
    assert topic_id is not None
    hook = cluster.intercept("Fetch", AnswerError(code=ErrorCode.UNKNOWN_TOPIC_ID))
    assert fetch(client, {filled[0]: 0}, deadline=client.deadline(), topic_ids={topic: topic_id})
    assert hook.fired == 1


def test_a_log_longer_than_one_answer_is_read_piece_by_piece(client: WireCluster, topic: str) -> None:
    place = TopicPartition(topic, 0)
    transaction = TransactionClient(client, topic, timeout_ms=60_000)
    who = transaction.begin(client.deadline())
    transaction.add_partitions([place], client.deadline())
    batches = batches_of([place], 60, transactional=True, records=2000)
    send_batches(client, batches, producer=who, deadline=client.deadline())
    transaction.end(client.deadline(), commit=True)
    limit = time.monotonic() + 60
    assert values_in(client, place) == expected(60, records=2000)
    assert time.monotonic() < limit

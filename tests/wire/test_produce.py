"""Produce: order, pipelining, retries that never double, fencing, and what is said at the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from semel.broker.runtime.intercept import After, AnswerError, CutMidFrame, Delay, DropRequest, DropResponse, Seen
from semel.engine.embedded import Cluster
from semel.errors import BrokerError, ConnectionFailure, CorruptBatchError, FencedError, Outcome, OutcomeUnknownError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from semel.protocol.messages.produce import ProduceRequest
from semel.wire.cluster import WireCluster
from semel.wire.deadline import Deadline
from semel.wire.produce import Acknowledged, ProducerIdentity, send_batches
from semel.wire.topology import TopicPartition
from semel.wire.transaction import TransactionClient
from tests.support.stored import stored_headers
from tests.support.topics import create_topic
from tests.wire.conftest import MakeClient
from tests.wire.records import CommonBatch, batch_of, batches_of, expected, partitions_of, values_in

Fault = AnswerError | DropRequest | DropResponse | CutMidFrame


@pytest.fixture
def who(client: WireCluster, topic: str) -> ProducerIdentity:
    """An idempotent producer that is in no transaction."""
    begun = TransactionClient(client, topic, timeout_ms=60_000).begin(client.deadline())
    return replace(begun, transactional_id=None)


def new_topic(cluster: Cluster) -> str:
    name = f"n{len(cluster.core.controller.state.topics)}"
    create_topic(cluster, name, partitions=6)
    return name


def send(
    client: WireCluster, who: ProducerIdentity, batches: Iterator[CommonBatch], **more: int
) -> dict[TopicPartition, Acknowledged]:
    return send_batches(client, batches, producer=who, deadline=client.deadline(), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("request_bytes_max", [1, 500, 1 << 20])
def test_every_batch_is_in_its_log_once_and_in_order(
    client: WireCluster, topic: str, who: ProducerIdentity, request_bytes_max: int
) -> None:
    places = partitions_of(topic)
    sent = send_batches(
        client, batches_of(places, 30), producer=who, deadline=client.deadline(), request_bytes_max=request_bytes_max
    )
    wanted = Acknowledged(records=90, batches=30, offset_first=0, sequence_next=90)
    assert sent == dict.fromkeys(places, wanted)
    assert all(values_in(client, place) == expected(30) for place in places)


def test_nothing_to_send(client: WireCluster, who: ProducerIdentity) -> None:
    assert send(client, who, iter(())) == {}


def test_a_second_call_goes_on_with_its_sequences(
    cluster: Cluster, client: WireCluster, topic: str, who: ProducerIdentity
) -> None:
    place = TopicPartition(topic, 0)
    first = send(client, who, batches_of([place], 2))
    sequences = {place: first[place].sequence_next}
    again = send_batches(client, batches_of([place], 2), producer=who, deadline=client.deadline(), sequences=sequences)
    assert again[place] == Acknowledged(records=6, batches=2, offset_first=6, sequence_next=12)
    headers = stored_headers(cluster, topic)
    assert [header.base_sequence for header in headers] == [0, 3, 6, 9]
    assert {(header.producer_id, header.producer_epoch) for header in headers} == {
        (who.producer_id, who.producer_epoch)
    }


def requests_of(message: Message) -> list[int]:
    assert isinstance(message, ProduceRequest)
    return [row.index for topic in message.topic_data for row in topic.partition_data]


def test_one_request_until_the_first_acknowledgement_then_several(
    cluster: Cluster, client: WireCluster, topic: str, who: ProducerIdentity
) -> None:
    place = TopicPartition(topic, 0)
    under_way: list[int] = []
    connection = client.connection(client.leader(place, client.deadline()), client.deadline())
    hook = cluster.intercept("Produce", Delay(ms=20), times=None)
    hook.on_fire.append(lambda _: under_way.append(len(connection.under_way)))
    send_batches(client, batches_of([place], 12), producer=who, deadline=client.deadline(), request_bytes_max=1)
    assert under_way[0] <= 1
    assert 3 <= max(under_way) <= 5
    assert values_in(client, place) == expected(12)


def test_a_request_has_one_batch_of_a_partition_and_stays_below_version_12(
    cluster: Cluster, client: WireCluster, topic: str, who: ProducerIdentity
) -> None:
    seen: list[Seen] = []
    hook = cluster.intercept("Produce", Delay(ms=0), times=None)
    hook.on_fire.append(seen.append)
    send(client, who, batches_of(partitions_of(topic), 5))
    indexes = [requests_of(each.request) for each in seen]
    assert all(len(each) == len(set(each)) for each in indexes)
    assert max(map(len, indexes)) == 2  # both partitions of a leader together
    assert {each.version for each in seen} == {11}


HEALING: list[Fault] = [
    AnswerError(code=ErrorCode.NETWORK_EXCEPTION),
    AnswerError(code=ErrorCode.NOT_ENOUGH_REPLICAS),
    AnswerError(code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    AnswerError(code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
    AnswerError(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    AnswerError(code=ErrorCode.CONCURRENT_TRANSACTIONS),
    AnswerError(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    AnswerError(code=ErrorCode.REQUEST_TIMED_OUT),
    DropRequest(),
    DropResponse(),
    CutMidFrame(after_bytes=6),
    DropResponse(then=After.SILENCE),
]


@pytest.mark.quick(8)
@pytest.mark.parametrize(("action", "at"), [(action, at) for action in HEALING for at in (0, 3)])
def test_a_batch_goes_again_as_it_was_and_is_appended_once(
    cluster: Cluster, client: WireCluster, who: ProducerIdentity, action: Fault, at: int
) -> None:
    places = partitions_of(new_topic(cluster))
    seen = 0

    def is_due(_: Seen) -> bool:
        nonlocal seen
        seen += 1
        return seen > at

    hook = cluster.intercept("Produce", action, where=is_due)
    sent = send_batches(client, batches_of(places, 8), producer=who, deadline=client.deadline(), request_bytes_max=300)
    assert hook.fired == 1
    assert {each.records for each in sent.values()} == {24}
    assert all(values_in(client, place) == expected(8) for place in places)


def test_a_storm_of_faults_doubles_and_loses_nothing(
    cluster: Cluster, client: WireCluster, topic: str, who: ProducerIdentity
) -> None:
    places = partitions_of(topic)
    hooks = []
    for number, action in enumerate(HEALING[:-1] * 2):
        hooks.append(cluster.intercept("Produce", action, times=2, where=_every(number + 3)))
    sent = send_batches(
        client, batches_of(places, 60), producer=who, deadline=client.deadline(60_000), request_bytes_max=400
    )
    assert sum(hook.fired for hook in hooks) > 10
    assert {each.records for each in sent.values()} == {180}
    assert all(values_in(client, place) == expected(60) for place in places)


def _every(number: int) -> _Every:
    return _Every(number)


class _Every:
    def __init__(self, number: int) -> None:
        self._number = number
        self._seen = 0

    def __call__(self, _: Seen) -> bool:
        self._seen += 1
        return self._seen % self._number == 0


def test_a_leader_that_dies_and_comes_back_gets_every_batch_once(client_of: MakeClient) -> None:
    with Cluster(brokers=3, topics=["t:6:1"], flush="every") as cluster:
        client = client_of(cluster.bootstrap, request_timeout_ms="1000")
        who = replace(TransactionClient(client, "p", timeout_ms=60_000).begin(client.deadline()), transactional_id=None)
        places = partitions_of("t")

        def batches() -> Iterator[CommonBatch]:
            for number, each in enumerate(batches_of(places, 40)):
                if number in (60, 150):
                    cluster.kill(1)
                    cluster.restart(1)
                yield each

        send_batches(client, batches(), producer=who, deadline=client.deadline(), request_bytes_max=300)
        assert all(values_in(client, place) == expected(40) for place in places)


def test_a_new_leader_gets_nothing_before_the_old_one_has_answered(
    cluster: Cluster, client: WireCluster, topic: str, who: ProducerIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = TopicPartition(topic, 0)
    old = client.leader(place, client.deadline())
    new = old % 3 + 1
    connection = client.connection(old, client.deadline())
    asked = 0
    open_at_the_old: list[int] = []

    def leader(_partition: TopicPartition, _deadline: Deadline) -> int:
        nonlocal asked
        asked += 1
        return new if asked >= 4 and not open_at_the_old else old

    def note(seen: Seen) -> None:
        if seen.broker_id == new:
            open_at_the_old.append(len(connection.under_way))

    monkeypatch.setattr(client, "leader", leader)
    hook = cluster.intercept("Produce", Delay(ms=30), times=None)
    hook.on_fire.append(note)
    send_batches(client, batches_of([place], 12), producer=who, deadline=client.deadline(), request_bytes_max=1)
    assert set(open_at_the_old) == {0}
    monkeypatch.undo()
    assert values_in(client, place) == expected(12)


def test_a_duplicate_is_an_acknowledgement(
    cluster: Cluster, client: WireCluster, topic: str, who: ProducerIdentity
) -> None:
    place = TopicPartition(topic, 0)
    cluster.intercept("Produce", AnswerError(code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER))
    sent = send(client, who, batches_of([place], 1))
    assert sent[place] == Acknowledged(records=3, batches=1, offset_first=-1, sequence_next=3)


def test_a_gap_is_an_error(client: WireCluster, topic: str, who: ProducerIdentity) -> None:
    place = TopicPartition(topic, 0)
    send(client, who, batches_of([place], 1))
    with pytest.raises(BrokerError, match=f"writing to {place}: OUT_OF_ORDER_SEQUENCE_NUMBER") as refused:
        send_batches(client, batches_of([place], 3), producer=who, deadline=client.deadline(), sequences={place: 10})
    assert refused.value.outcome is Outcome.DID_NOT_HAPPEN


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_fenced_producer_stops_at_once(
    cluster: Cluster, client: WireCluster, topic: str, who: ProducerIdentity, code: ErrorCode
) -> None:
    cluster.intercept("Produce", AnswerError(code=code), times=None)
    deadline = client.deadline(60_000)
    with pytest.raises(FencedError, match=code.name):
        send_batches(client, batches_of(partitions_of(topic), 3), producer=who, deadline=deadline)
    assert deadline.left_ms > 30_000


def test_an_older_owner_is_fenced_by_the_broker(client: WireCluster, topic: str) -> None:
    place = TopicPartition(topic, 0)
    owners = [TransactionClient(client, topic, timeout_ms=60_000) for _ in range(2)]
    old = owners[0].begin(client.deadline())
    owners[0].add_partitions([place], client.deadline())
    send_batches(client, batches_of([place], 1, transactional=True), producer=old, deadline=client.deadline())
    owners[1].begin(client.deadline())
    with pytest.raises(FencedError):
        send_batches(
            client,
            batches_of([place], 1, transactional=True),
            producer=old,
            deadline=client.deadline(),
            sequences={place: 3},
        )


def test_a_partition_that_was_not_added_is_refused(client: WireCluster, topic: str) -> None:
    who = TransactionClient(client, topic, timeout_ms=60_000).begin(client.deadline())
    place = TopicPartition(topic, 0)
    with pytest.raises(BrokerError, match="TRANSACTION_ABORTABLE"):
        send_batches(client, batches_of([place], 1, transactional=True), producer=who, deadline=client.deadline())


def test_a_batch_that_is_too_large_is_named_with_what_to_do(
    cluster: Cluster, client: WireCluster, who: ProducerIdentity
) -> None:
    create_topic(cluster, "small", config={"max.message.bytes": "200"})
    with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE") as refused:
        send(client, who, iter([(TopicPartition("small", 0), batch_of(["x" * 500]))]))
    assert "max.message.bytes" in refused.value.next_command


def test_a_damaged_batch_is_refused_before_it_is_sent(client: WireCluster, topic: str, who: ProducerIdentity) -> None:
    with pytest.raises(CorruptBatchError):
        send(client, who, iter([(TopicPartition(topic, 0), batch_of(["x"])[:-1])]))


@pytest.mark.parametrize("action", [DropRequest(then=After.SILENCE), DropResponse()])
def test_batches_without_an_answer_at_the_deadline_may_have_happened(
    cluster: Cluster, client_of: MakeClient, topic: str, who: ProducerIdentity, action: Fault
) -> None:
    client = client_of(cluster.bootstrap, request_timeout_ms="100")
    cluster.intercept("Produce", action, times=None)
    with pytest.raises(OutcomeUnknownError, match="1 batches were not acknowledged") as unknown:
        send_batches(client, batches_of([TopicPartition(topic, 0)], 1), producer=who, deadline=client.deadline(1_500))
    assert unknown.value.outcome is Outcome.UNKNOWN


def test_a_leader_looked_for_until_the_deadline_leaves_the_outcome_open(
    cluster: Cluster, client_of: MakeClient, topic: str, who: ProducerIdentity
) -> None:
    """The batch was appended, its answer lost, and nobody says who leads now."""
    client = client_of(cluster.bootstrap)
    lost = cluster.intercept("Produce", DropResponse())
    asked = cluster.intercept("Metadata", DropRequest(then=After.SILENCE), times=None, where=lambda _: lost.fired > 0)
    with pytest.raises(OutcomeUnknownError, match="1 batches were not acknowledged"):
        send_batches(client, batches_of([TopicPartition(topic, 0)], 1), producer=who, deadline=client.deadline(500))
    assert asked.fired


def test_a_refusal_until_the_deadline_did_not_happen(
    cluster: Cluster, client_of: MakeClient, topic: str, who: ProducerIdentity
) -> None:
    client = client_of(cluster.bootstrap, retry_backoff_ms="3000", retry_backoff_max_ms="3000")
    hook = cluster.intercept("Produce", AnswerError(code=ErrorCode.NOT_ENOUGH_REPLICAS), times=None)
    with pytest.raises(BrokerError, match="NOT_ENOUGH_REPLICAS") as refused:
        send_batches(client, batches_of([TopicPartition(topic, 0)], 1), producer=who, deadline=client.deadline(5_000))
    assert refused.value.outcome is Outcome.DID_NOT_HAPPEN
    assert hook.fired == 2  # it waits between attempts


def test_an_unreachable_leader_did_not_happen(client_of: MakeClient) -> None:
    with Cluster(brokers=2, topics=["t:2:1"]) as cluster:
        client = client_of(cluster.bootstrap)
        who = replace(TransactionClient(client, "p", timeout_ms=60_000).begin(client.deadline()), transactional_id=None)
        place = next(each for each in partitions_of("t", 2) if client.leader(each, client.deadline()) == 2)
        cluster.kill(2)
        with pytest.raises((ConnectionFailure, BrokerError)) as failed:
            send_batches(client, batches_of([place], 1), producer=who, deadline=client.deadline(3_000))
        assert failed.value.outcome is Outcome.DID_NOT_HAPPEN


def test_an_error_in_the_middle_leaves_no_answers_to_others(
    cluster: Cluster, client: WireCluster, topic: str, who: ProducerIdentity
) -> None:
    places = partitions_of(topic)

    def broken() -> Iterator[CommonBatch]:
        yield from batches_of(places, 4)
        raise RuntimeError("the caller's own error")

    cluster.intercept("Produce", Delay(ms=50), times=None)
    with pytest.raises(RuntimeError, match="own error"):
        send_batches(client, broken(), producer=who, deadline=client.deadline(), request_bytes_max=1)
    cluster.disarm()
    other = replace(who, producer_epoch=who.producer_epoch + 1)
    send(client, other, batches_of(places, 2))
    assert all(values_in(client, place)[-6:] == expected(2) for place in places)

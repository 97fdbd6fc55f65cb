"""Fault hooks: each action as a raw client sees it and as librdkafka lives through it; counting, choosing, removing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer

from semel.broker.runtime.intercept import (
    Action,
    After,
    AnswerError,
    CutMidFrame,
    Delay,
    DropRequest,
    DropResponse,
    Hook,
    Intercepts,
    Seen,
)
from semel.engine.embedded import Cluster
from semel.errors import ConfigError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.metadata import MetadataRequest, MetadataResponse
from semel.protocol.messages.produce import ProduceResponse
from tests.hardening.raw import RawClient, request_frame
from tests.hardening.requests import METADATA_VERSION, PRODUCE_VERSION, check_served, metadata, produce
from tests.support.waiting import eventually, is_readable

FOR_EVER_MS = 3_600_000
WAIT_S_MAX = 30.0
PRODUCE = request_frame(produce("quiet", b"x"), PRODUCE_VERSION)


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(brokers=1, topics=["quiet"]) as cluster:
        yield cluster


@dataclass
class Partition:
    """The one partition, counted from where the test began."""

    cluster: Cluster
    offset_start: int = 0

    @property
    def records(self) -> int:
        log = self.cluster.core.brokers[1].partitions["quiet", 0].log
        return log.log_end_offset - self.offset_start


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    yield running
    running.disarm()


@pytest.fixture
def partition(cluster: Cluster) -> Partition:
    return Partition(cluster, offset_start=Partition(cluster).records)


@pytest.fixture
def client(cluster: Cluster) -> Iterator[RawClient]:
    with RawClient(cluster.bootstrap) as connected:
        yield connected


def fired(hook: Hook) -> threading.Event:
    event = threading.Event()
    hook.on_fire.append(lambda _: event.set())
    return event


def rest_of(client: RawClient) -> bytes:
    """Everything the broker still says, once it knows that we say no more."""
    client.socket.shutdown(socket.SHUT_WR)
    found = bytearray()
    while chunk := client.socket.recv(4096):
        found += chunk
    return bytes(found)


@pytest.mark.parametrize(("action", "records"), [(DropRequest(), 0), (DropResponse(), 1)])
def test_a_dropped_message_cuts_the_connection(
    cluster: Cluster, partition: Partition, client: RawClient, action: Action, records: int
) -> None:
    hook = cluster.intercept("Produce", action)
    client.send(PRODUCE)
    assert client.is_closed_by_peer()
    assert (hook.fired, partition.records) == (1, records)


@pytest.mark.parametrize(
    ("action", "records"), [(DropRequest(then=After.SILENCE), 0), (DropResponse(then=After.SILENCE), 1)]
)
def test_a_dropped_message_can_leave_the_connection_open_and_silent(
    cluster: Cluster, partition: Partition, client: RawClient, action: Action, records: int
) -> None:
    hook = cluster.intercept("Produce", action)
    seen = fired(hook)
    client.send(PRODUCE + request_frame(metadata(), METADATA_VERSION))
    assert seen.wait(WAIT_S_MAX)
    with RawClient(cluster.bootstrap) as other:
        check_served(other)
    assert not is_readable(client.socket, 0)
    assert rest_of(client) == b""
    assert (hook.fired, partition.records) == (1, records)


def test_a_silent_connection_takes_no_more_requests(cluster: Cluster, partition: Partition, client: RawClient) -> None:
    """Each comes alone, after the connection fell silent: the way on which requests are answered at once."""
    seen = fired(cluster.intercept("Produce", DropRequest(then=After.SILENCE)))
    client.send(PRODUCE)
    assert seen.wait(WAIT_S_MAX)
    for _ in range(3):
        client.send(PRODUCE)
        with RawClient(cluster.bootstrap) as other:
            check_served(other)
    assert rest_of(client) == b""
    assert partition.records == 0


def test_a_request_can_be_delayed_before_it_is_carried_out(
    cluster: Cluster, partition: Partition, client: RawClient
) -> None:
    hook = cluster.intercept("Produce", Delay(ms=FOR_EVER_MS))
    seen = fired(hook)
    client.send(PRODUCE)
    assert seen.wait(WAIT_S_MAX)
    with RawClient(cluster.bootstrap) as other:
        check_served(other)
    assert partition.records == 0
    cluster.disarm(hook)
    client.read_response(ProduceResponse, PRODUCE_VERSION)
    assert partition.records == 1


def test_an_answer_can_be_delayed_after_the_request_was_carried_out(
    cluster: Cluster, partition: Partition, client: RawClient
) -> None:
    hook = cluster.intercept("Produce", Delay(ms=FOR_EVER_MS, response=True))
    client.send(PRODUCE)
    eventually(lambda: partition.records == 1, what="the record is written")
    with RawClient(cluster.bootstrap) as other:
        check_served(other)
    assert not is_readable(client.socket, 0)
    cluster.disarm(hook)
    client.read_response(ProduceResponse, PRODUCE_VERSION)


@pytest.mark.parametrize("response", [False, True])
def test_a_delay_ends_by_itself(cluster: Cluster, client: RawClient, response: bool) -> None:
    hook = cluster.intercept("Produce", Delay(ms=1, response=response))
    client.ask(produce("quiet", b"x"), ProduceResponse, PRODUCE_VERSION)
    assert (hook.fired, hook.on_remove) == (1, [])


def test_an_error_is_answered_and_nothing_done(cluster: Cluster, partition: Partition, client: RawClient) -> None:
    hook = cluster.intercept("Produce", AnswerError(code=ErrorCode.NOT_ENOUGH_REPLICAS))
    answer = client.ask(produce("quiet", b"x"), ProduceResponse, PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (hook.fired, partition.records) == (1, 0)
    client.ask(produce("quiet", b"x"), ProduceResponse, PRODUCE_VERSION)
    assert partition.records == 1


@pytest.mark.parametrize("after_bytes", [0, 3, 6])
def test_an_answer_can_break_off(cluster: Cluster, partition: Partition, client: RawClient, after_bytes: int) -> None:
    cluster.intercept("Produce", CutMidFrame(after_bytes=after_bytes))
    client.send(PRODUCE)
    assert len(rest_of(client)) == after_bytes
    assert partition.records == 1


def test_a_hook_fires_as_often_as_told(cluster: Cluster, client: RawClient) -> None:
    error = AnswerError(code=ErrorCode.UNKNOWN_SERVER_ERROR)
    hook = cluster.intercept("Metadata", error, times=2)
    codes = [metadata_code(client) for _ in range(4)]
    assert codes == [error.code, error.code, 0, 0]
    assert (hook.fired, hook.spent) == (2, True)
    assert not cluster.core.intercepts.armed


def metadata_code(client: RawClient) -> int:
    return client.ask(metadata(), MetadataResponse, METADATA_VERSION).topics[0].error_code


def test_a_hook_without_a_limit_fires_until_it_is_removed(cluster: Cluster, client: RawClient) -> None:
    hook = cluster.intercept(3, AnswerError(code=ErrorCode.INVALID_REQUEST), times=None)
    assert [metadata_code(client) for _ in range(5)] == [ErrorCode.INVALID_REQUEST] * 5
    cluster.disarm(hook)
    assert metadata_code(client) == ErrorCode.NONE
    assert hook.fired == 5
    cluster.disarm(hook)


def test_a_hook_chooses_by_api_and_by_what_it_sees(cluster: Cluster, client: RawClient) -> None:
    seen: list[Seen] = []

    def where(request: Seen) -> bool:
        seen.append(request)
        return request.client_id == "somebody else"

    hook = cluster.intercept("Metadata", DropRequest(), where=where)
    client.ask(produce("quiet", b"x"), ProduceResponse, PRODUCE_VERSION)
    assert metadata_code(client) == ErrorCode.NONE
    assert hook.fired == 0
    (request,) = seen
    assert (request.broker_id, request.api_key, request.version, request.client_id) == (1, 3, METADATA_VERSION, "raw")
    assert isinstance(request.request, MetadataRequest)


def test_a_hook_for_every_api(cluster: Cluster, client: RawClient) -> None:
    hook = cluster.intercept(None, DropRequest(), times=None)
    client.send(request_frame(metadata(), METADATA_VERSION))
    assert client.is_closed_by_peer()
    with RawClient(cluster.bootstrap) as another:
        another.send(PRODUCE)
        assert another.is_closed_by_peer()
    assert hook.fired == 2


def test_the_oldest_hook_goes_first(cluster: Cluster, client: RawClient) -> None:
    cluster.intercept("metadata", AnswerError(code=ErrorCode.INVALID_REQUEST))
    cluster.intercept("Metadata", AnswerError(code=ErrorCode.POLICY_VIOLATION))
    codes = [metadata_code(client) for _ in range(3)]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.POLICY_VIOLATION, ErrorCode.NONE]


def test_disarming_all_lets_go_what_is_delayed(cluster: Cluster, client: RawClient) -> None:
    hooks = [cluster.intercept("Metadata", Delay(ms=FOR_EVER_MS)) for _ in range(2)]
    client.send(request_frame(metadata(), METADATA_VERSION))
    eventually(lambda: hooks[0].fired, what="the first request is held")
    cluster.disarm()
    client.read_response(MetadataResponse, METADATA_VERSION)
    assert metadata_code(client) == ErrorCode.NONE
    assert hooks[1].fired == 0


def test_a_hook_removed_before_its_delay_begins_does_not_delay(cluster: Cluster, client: RawClient) -> None:
    hook = cluster.intercept("Metadata", Delay(ms=FOR_EVER_MS, response=True))
    hook.on_fire.append(lambda _: cluster.core.intercepts.remove(hook))
    assert metadata_code(client) == ErrorCode.NONE
    assert hook.fired == 1


def test_a_produce_without_an_answer_has_none_to_lose(
    cluster: Cluster, partition: Partition, client: RawClient
) -> None:
    hook = cluster.intercept("Produce", DropResponse())
    request = produce("quiet", b"x")
    request.acks = 0
    client.send(request_frame(request, PRODUCE_VERSION))
    assert metadata_code(client) == ErrorCode.NONE
    assert (hook.fired, partition.records) == (1, 1)


def test_names_and_counts_that_make_no_sense_are_refused(cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match="no API is called 'Prodduce'"):
        cluster.intercept("Prodduce", DropRequest())
    with pytest.raises(ConfigError, match="times=0"):
        Intercepts().add(0, DropRequest(), times=0)


def write_with_librdkafka(cluster: Cluster, settings: dict[str, object], meanwhile: Callable[[], object]) -> None:
    """Write one record and see it acknowledged; `meanwhile` runs while it is under way."""
    results: list[object] = []
    own: dict[str, object] = {"log_level": 0, "retry.backoff.ms": 10, "reconnect.backoff.ms": 0, "linger.ms": 0}
    producer = Producer({**cluster.client_settings, **own, **settings})
    producer.produce("quiet", b"x", on_delivery=lambda error, _: results.append(error))
    meanwhile()
    assert producer.flush(WAIT_S_MAX) == 0
    assert results == [None]


PLAIN: dict[str, object] = {"enable.idempotence": False}
IDEMPOTENT: dict[str, object] = {"enable.idempotence": True}
IMPATIENT: dict[str, object] = {"request.timeout.ms": 500, "socket.timeout.ms": 500}


@pytest.mark.parametrize(
    ("action", "settings", "records"),
    [
        (DropRequest(), PLAIN, 1),
        (DropResponse(), PLAIN, 2),
        (DropResponse(), IDEMPOTENT, 1),
        (DropRequest(then=After.SILENCE), PLAIN | IMPATIENT, 1),
        (DropResponse(then=After.SILENCE), PLAIN | IMPATIENT, 2),
        (DropResponse(then=After.SILENCE), IDEMPOTENT | IMPATIENT, 1),
        (CutMidFrame(), PLAIN, 2),
        (CutMidFrame(), IDEMPOTENT, 1),
        (AnswerError(code=ErrorCode.NOT_LEADER_OR_FOLLOWER), PLAIN, 1),
        (AnswerError(code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND), IDEMPOTENT, 1),
    ],
)
def test_librdkafka_retries_and_only_idempotence_keeps_it_to_one_record(
    cluster: Cluster, partition: Partition, action: Action, settings: dict[str, object], records: int
) -> None:
    hook = cluster.intercept("Produce", action)
    write_with_librdkafka(cluster, settings, lambda: None)
    assert (hook.fired, partition.records) == (1, records)


@pytest.mark.parametrize("response", [False, True])
def test_librdkafka_waits_for_what_is_delayed(cluster: Cluster, partition: Partition, response: bool) -> None:
    hook = cluster.intercept("Produce", Delay(ms=FOR_EVER_MS, response=response))
    seen = fired(hook)

    def let_go() -> None:
        assert seen.wait(WAIT_S_MAX)
        if response:
            eventually(lambda: partition.records == 1, what="the record is written")
        cluster.disarm(hook)

    write_with_librdkafka(cluster, PLAIN, let_go)
    assert partition.records == 1

"""A connection against brokers that lie, break off, stay silent or are something else."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from semel.broker.runtime.intercept import After, CutMidFrame, DropRequest, DropResponse
from semel.engine.embedded import Cluster
from semel.errors import ConnectionFailure, Outcome, ProtocolError, UnsupportedVersionError
from semel.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from semel.protocol.messages.metadata import MetadataRequest, MetadataResponse
from semel.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from semel.protocol.messages.request_header import RequestHeader
from semel.wire.connection import Connection
from semel.wire.deadline import Deadline
from semel.wire.settings import WireSettings
from semel.wire.topology import BrokerAddress
from semel.world.ports import free_ports
from tests.support.waiting import eventually
from tests.wire.fake_broker import Answer, fake_broker, framed, usual, versions_answer

SILENT_MS = 200


def settings_of(address: str, **options: str) -> WireSettings:
    named = {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
    return WireSettings.from_options({"kafka.bootstrap.servers": address} | named)


def connect(address: str, ms: float = 10_000, **options: str) -> Connection:
    host, port = address.rsplit(":", 1)
    broker = BrokerAddress(id=1, host=host, port=int(port))
    return Connection.open(broker, settings_of(address, **options), Deadline.after_ms(ms))


def ask(connection: Connection, ms: float = 10_000) -> MetadataResponse:
    try:
        return connection.call(MetadataRequest(topics=[]), MetadataResponse, Deadline.after_ms(ms))
    finally:
        connection.close()


@pytest.fixture
def address(cluster: Cluster) -> str:
    return cluster.bootstrap.split(",")[0]


def test_a_question_is_answered_in_the_highest_common_version(address: str) -> None:
    connection = connect(address)
    assert connection.version_of(MetadataRequest) == MetadataRequest.LAST
    assert connection.version_of(MetadataRequest, 4) == 4
    assert len(ask(connection).brokers) == 3


def test_several_requests_under_way_are_answered_in_order(address: str) -> None:
    connection = connect(address)
    sent = [connection.send(MetadataRequest(topics=[]), MetadataResponse, Deadline.after_ms(9_000)) for _ in range(7)]
    assert [len(connection.receive(each, Deadline.after_ms(9_000)).brokers) for each in sent] == [3] * 7
    connection.close()


def test_nothing_listens_there() -> None:
    (port,) = free_ports(1)
    with pytest.raises(ConnectionFailure, match=f"127.0.0.1:{port} cannot be reached") as failed:
        connect(f"127.0.0.1:{port}")
    assert failed.value.outcome is Outcome.DID_NOT_HAPPEN


def test_no_such_host() -> None:
    with pytest.raises(ConnectionFailure, match="cannot be reached"):
        connect("no-such-host.invalid:9092")


@pytest.fixture
def full_port() -> Iterator[str]:
    """A port whose queue of connections is full: connecting gets no answer."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        held = []
        for _ in range(4):
            each = socket.socket()
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
            held.append(each)
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        for each in held:
            each.close()


def test_connecting_ends_at_the_deadline(full_port: str) -> None:
    with pytest.raises(ConnectionFailure, match="no connection within") as failed:
        connect(full_port, ms=SILENT_MS)
    assert failed.value.outcome is Outcome.DID_NOT_HAPPEN


def test_connecting_ends_at_its_own_limit(full_port: str) -> None:
    with pytest.raises(ConnectionFailure, match=f"no connection within {SILENT_MS} ms"):
        connect(full_port, ms=600_000, socket_connection_setup_timeout_ms=str(SILENT_MS))


def test_an_old_broker_answers_in_the_first_version() -> None:
    asked: list[int] = []

    def old(header: RequestHeader, _: memoryview) -> bytes:
        asked.append(header.request_api_version)
        return versions_answer(header, error_code=35 if header.request_api_version else 0)

    with fake_broker(old) as address:
        connection = connect(address)
        assert connection.version_of(MetadataRequest) == 3
        connection.close()
    assert asked == [3, 0]


def test_a_broker_without_a_common_version_is_named() -> None:
    with fake_broker(lambda header, _: versions_answer(header, first=90, last=99)) as address:
        connection = connect(address)
        with pytest.raises(UnsupportedVersionError, match="MetadataRequest"):
            connection.version_of(MetadataRequest)
        connection.close()


def hostile(address: str) -> type[BaseException] | None:
    try:
        ask(connect(address, ms=2_000), 2_000)
    except (ProtocolError, ConnectionFailure) as error:
        return type(error)
    return None


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", ProtocolError),
        (b"\x15\x03\x03\x00\x02\x02\x28", ProtocolError),
        (b"\xff\xff\xff\xff", ProtocolError),
        (b"\x00\x00\x00\x00", ProtocolError),
        (b"\x00\x00\x00\x03abc", ProtocolError),
        (b"\x7f\xff\xff\xff", ProtocolError),
        (b"\x00\x00\x00\x04\x00\x00\x00\x01", ProtocolError),
        (b"\x00\x00\x00\x08" + b"\xff" * 8, ProtocolError),
        (None, ConnectionFailure),
    ],
)
def test_bytes_that_are_no_answer_are_an_error(said: bytes | None, wanted: type[Exception]) -> None:
    with fake_broker(lambda _header, _body: said) as address:
        assert hostile(address) is wanted
    with fake_broker(usual(lambda _header, _body: said)) as address:
        assert hostile(address) is wanted


@pytest.mark.parametrize(
    ("said", "hint"), [(b"HTTP/1.1", "HTTP server"), (b"\x15\x03\x03\x00\x02\x02\x28", "speaks TLS")]
)
def test_a_wrong_port_is_recognised(said: bytes, hint: str) -> None:
    with fake_broker(lambda _header, _body: said) as address, pytest.raises(ProtocolError, match=hint):
        connect(address)


def test_an_answer_to_another_request_ends_the_connection() -> None:
    def crossed(header: RequestHeader, _: memoryview) -> bytes:
        return framed(header.correlation_id + 1, MetadataResponse(), header.request_api_version)

    with fake_broker(usual(crossed)) as address:
        connection = connect(address)
        with pytest.raises(ProtocolError, match="another request"):
            connection.call(MetadataRequest(topics=[]), MetadataResponse, Deadline.after_ms(9_000))
        assert connection.closed


def test_an_answer_with_bytes_too_many_ends_the_connection() -> None:
    def long(header: RequestHeader, _: memoryview) -> bytes:
        said = bytearray(framed(header.correlation_id, MetadataResponse(), header.request_api_version) + b"\0")
        said[3] += 1
        return bytes(said)

    with fake_broker(usual(long)) as address, pytest.raises(ProtocolError, match="too many"):
        ask(connect(address))


def test_an_answer_above_the_limit_is_refused() -> None:
    with fake_broker(
        usual(lambda header, _: framed(header.correlation_id, MetadataResponse(cluster_id="x" * 9000), 2))
    ) as address:
        connection = connect(address, receive_message_max_bytes="5000")
        with pytest.raises(ProtocolError, match="at most 5000"):
            connection.call(MetadataRequest(topics=[]), MetadataResponse, Deadline.after_ms(9_000))


@pytest.mark.parametrize("said", [b"", b"\0", b"\0\0\0\x08\0\0"])
def test_a_silent_broker_is_given_up_at_the_deadline(said: bytes) -> None:
    with fake_broker(usual(lambda _header, _body: said)) as address:
        connection = connect(address)
        with pytest.raises(ConnectionFailure, match="the time is up") as failed:
            connection.call(MetadataRequest(topics=[]), MetadataResponse, Deadline.after_ms(SILENT_MS))
        assert failed.value.outcome is Outcome.UNKNOWN
        assert connection.closed


def test_a_broker_that_never_tells_its_versions_is_given_up_before_anything_was_sent() -> None:
    with fake_broker(lambda _header, _body: b"") as address:
        with pytest.raises(ConnectionFailure, match="the time is up") as failed:
            connect(address, ms=SILENT_MS)
        assert failed.value.outcome is Outcome.DID_NOT_HAPPEN


def test_a_request_that_cannot_be_written_did_not_happen() -> None:
    release = threading.Event()

    def stuck(_header: RequestHeader, _body: memoryview) -> bytes:
        release.wait(20)
        return b""

    with fake_broker(usual(stuck)) as address:
        connection = connect(address)
        records = os.urandom(64 << 20)
        data = TopicProduceData(name="t", partition_data=[PartitionProduceData(records=records)])
        first = connection.send(MetadataRequest(topics=[]), MetadataResponse, Deadline.after_ms(9_000))
        with pytest.raises(ConnectionFailure, match="while sending") as failed:
            connection.send(ProduceRequest(topic_data=[data]), ProduceResponse, Deadline.after_ms(SILENT_MS))
        assert failed.value.outcome is Outcome.DID_NOT_HAPPEN
        assert connection.closed
        assert first.correlation_id
        release.set()


@pytest.mark.parametrize("parts", [1, 3, 1500])
def test_large_requests_arrive_whole(parts: int) -> None:
    records = [os.urandom(5_000) for _ in range(parts)] if parts > 1 else [os.urandom(20 << 20)]
    seen: list[bytes] = []

    def keep(header: RequestHeader, body: memoryview) -> bytes:
        seen.append(bytes(body))
        return framed(header.correlation_id, ProduceResponse(), header.request_api_version)

    rows = [PartitionProduceData(index=number, records=data) for number, data in enumerate(records)]
    with fake_broker(usual(keep)) as address:
        connection = connect(address)
        connection.call(
            ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=rows)]),
            ProduceResponse,
            Deadline.after_ms(20_000),
        )
        connection.close()
    assert all(data in seen[0] for data in records)
    assert len(seen[0]) < sum(map(len, records)) + 9 * len(records) + 100


@pytest.mark.parametrize(
    "action", [DropRequest(), DropResponse(), CutMidFrame(after_bytes=6), DropRequest(then=After.SILENCE)]
)
def test_a_request_without_an_answer_may_have_happened(
    cluster: Cluster, address: str, action: DropRequest | DropResponse | CutMidFrame
) -> None:
    hook = cluster.intercept("EndTxn", action)
    connection = connect(address)
    with pytest.raises(ConnectionFailure) as failed:
        connection.call(EndTxnRequest(transactional_id="x"), EndTxnResponse, Deadline.after_ms(500))
    assert (failed.value.outcome, hook.fired, connection.closed) == (Outcome.UNKNOWN, 1, True)


def test_an_idle_connection_that_the_broker_closed_is_not_usable() -> None:
    closing = threading.Event()

    def once(header: RequestHeader, _: memoryview) -> bytes | None:
        return (
            None if closing.is_set() else framed(header.correlation_id, MetadataResponse(), header.request_api_version)
        )

    answer: Answer = usual(once)
    with fake_broker(answer) as address:
        connection = connect(address)
        assert connection.usable
        closing.set()
        connection.send(MetadataRequest(topics=[]), MetadataResponse, Deadline.after_ms(9_000))
        connection.under_way.clear()
        eventually(lambda: not connection.usable)
        connection.close()

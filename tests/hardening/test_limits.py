"""Limits on connections: how many there may be, and how long nothing may move on one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.engine.embedded import Cluster
from semel.protocol.messages.fetch import FetchResponse
from semel.protocol.messages.metadata import MetadataResponse
from tests.hardening.raw import WAIT_S_MAX, RawClient, request_frame
from tests.hardening.requests import FETCH_VERSION, METADATA_VERSION, MIB, check_served, fetch, fill, metadata
from tests.support.waiting import eventually

CONNECTIONS_MAX = 20
IDLE_MS_MAX = 300
BULK_MIB = 16


@pytest.fixture(scope="module")
def impatient() -> Iterator[Cluster]:
    """A broker that closes idle connections soon."""
    config = {"connections.max.idle.ms": str(IDLE_MS_MAX)}
    with Cluster(brokers=1, topics=["quiet", "bulk"], config=config) as cluster:
        yield cluster


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\1\0half a request"])
def test_a_half_open_connection_is_closed_when_idle_for_too_long(impatient: Cluster, sent: bytes) -> None:
    with RawClient(impatient.bootstrap) as client:
        client.send(sent)
        assert client.is_closed_by_peer()
    with RawClient(impatient.bootstrap) as good:
        check_served(good)


def test_a_connection_whose_request_is_under_way_is_not_idle(impatient: Cluster) -> None:
    with RawClient(impatient.bootstrap) as client:
        request = fetch("quiet", bytes_max=MIB, wait_ms_max=4 * IDLE_MS_MAX)
        assert client.ask(request, FetchResponse, FETCH_VERSION).error_code == 0


def test_a_reader_that_takes_nothing_for_too_long_is_cut_off(impatient: Cluster) -> None:
    server = impatient.core.brokers[1].server
    with RawClient(impatient.bootstrap) as writer:
        fill(writer, "bulk", BULK_MIB)
    with RawClient(impatient.bootstrap, receive_bytes=4096) as reader:
        reader.send(request_frame(fetch("bulk", bytes_max=BULK_MIB * MIB), FETCH_VERSION))
        reader.read(4)
        eventually(lambda: len(server._sessions) == 0, what="the broker gave up on the reader")
        with pytest.raises(ConnectionError):
            reader.read(BULK_MIB * MIB)


def test_a_negative_limit_means_that_idle_connections_stay() -> None:
    config = {"connections.max.idle.ms": "-1"}
    with Cluster(brokers=1, topics=["quiet"], config=config) as cluster, RawClient(cluster.bootstrap) as client:
        check_served(client)
        cluster.core.brokers[1].server.close_idle(-1)
        check_served(client)


def test_a_connection_that_has_asked_nothing_yet_is_as_old_as_itself() -> None:
    with Cluster(brokers=1, topics=["quiet"]) as cluster:
        server = cluster.core.brokers[1].server
        with RawClient(cluster.bootstrap) as client:
            eventually(lambda: len(server._sessions) == 1, what="the connection is accepted")
            server.close_idle(WAIT_S_MAX * 1000)
            check_served(client)


def test_connections_above_the_limit_are_refused_until_one_ends() -> None:
    config = {"max.connections": str(CONNECTIONS_MAX)}
    with Cluster(brokers=1, topics=["quiet"], config=config) as cluster:
        clients = [RawClient(cluster.bootstrap) for _ in range(CONNECTIONS_MAX)]
        for client in clients:
            check_served(client)
        assert not _is_served(cluster.bootstrap)
        check_served(clients[0])
        clients.pop().close()
        eventually(lambda: _is_served(cluster.bootstrap), what="room for another connection")
        for client in clients:
            client.close()


def _is_served(bootstrap: str) -> bool:
    with RawClient(bootstrap) as client:
        try:
            client.ask(metadata(), MetadataResponse, METADATA_VERSION)
        except ConnectionError:
            return False
        return True

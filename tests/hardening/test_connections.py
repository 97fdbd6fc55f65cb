"""Five thousand connections at once: each costs little, before and after authentication, and the others are served.

How long the loop is held is no matter here: a turn of it serves all that have asked since the last, some 40 µs each.
"""

from __future__ import annotations

import ssl

import pytest

from semel.protocol.messages.metadata import MetadataResponse
from tests.hardening.raw import API_VERSIONS_KEY, RawClient, header, request_frame, sized
from tests.hardening.requests import METADATA_VERSION, MIB, check_served, metadata, sign_in
from tests.hardening.served import ServedCluster

CONNECTIONS = 5_000
PEAK_BYTES_MAX = 400 * MIB


def check_cost(cluster: ServedCluster) -> None:
    assert cluster.peak_bytes() < PEAK_BYTES_MAX
    assert cluster.failures() == []


def check_all_asked(clients: list[RawClient], good: RawClient) -> None:
    """All ask at once, and each gets its own answer."""
    for number, client in enumerate(clients):
        client.send(request_frame(metadata(), METADATA_VERSION, number))
    check_served(good)
    for number, client in enumerate(clients):
        answer = client.read_response(MetadataResponse, METADATA_VERSION, number)
        assert [row.name for row in answer.topics] == ["quiet"]


@pytest.mark.full
@pytest.mark.timeout(600)
def test_5000_connections_are_all_served() -> None:
    with ServedCluster() as cluster, RawClient(cluster.bootstrap) as good:
        clients = [RawClient(cluster.bootstrap) for _ in range(CONNECTIONS)]
        check_served(good)
        check_all_asked(clients, good)
        for client in clients:
            client.close()
        check_served(good)
        check_cost(cluster)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_5000_connections_with_tls_are_all_served_before_and_after_they_signed_in() -> None:
    with ServedCluster(secure=True) as cluster:
        context = ssl.create_default_context(cafile=cluster.settings["ssl.ca.location"])
        with RawClient(cluster.bootstrap, context=context) as good:
            sign_in(good)
            clients = []
            for number in range(CONNECTIONS):
                clients.append(RawClient(cluster.bootstrap, context=context))
                if number % 500 == 0:
                    check_served(good)
            for client in clients:
                client.send(sized(header(API_VERSIONS_KEY, 0)))  # the only thing that strangers may ask
            check_served(good)
            for client in clients:
                client.read_frame()
            check_cost(cluster)
            for client in clients:
                sign_in(client)
            check_all_asked(clients, good)
            for client in clients:
                client.close()
            check_served(good)
        check_cost(cluster)

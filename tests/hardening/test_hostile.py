"""Hostile clients of every kind: memory stays below a bound, and a good client is served all the time.

A few hundred requests in the quick tier, thousands in the full one, a million in the soak. A seed that breaks something
is printed as the name of its test.
"""

from __future__ import annotations

import random
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from semel.broker.network.registry import AnyApi
from semel.protocol.message import encode_bytes
from tests.hardening.generated import Extremes, served_apis
from tests.hardening.hostile import HostileClient
from tests.hardening.raw import RawClient, address_of, header, request_frame, sized
from tests.hardening.requests import METADATA_VERSION, MIB, metadata
from tests.hardening.served import ServedCluster

PEAK_BYTES_MAX = 400 * MIB
HOLD_S_MAX = 0.2  # four times the limit: the processors of a busy machine are slower
SOAK_REQUESTS = 1_000_000
CLIENTS = 4


@pytest.fixture(scope="module")
def victim() -> Iterator[ServedCluster]:
    """A cluster that may be changed at will: topics come and go here. New ones are not made by use."""
    with ServedCluster(auto_create_topics_enable="false") as cluster:
        yield cluster


@pytest.fixture
def unharmed(victim: ServedCluster) -> Iterator[RawClient]:
    """A good client before, during and after."""
    with RawClient(victim.bootstrap) as client:
        _check_alive(client)
        yield client
        _check_alive(client)
    assert victim.peak_bytes() < PEAK_BYTES_MAX
    assert victim.failures() == []


def _check_alive(client: RawClient) -> None:
    """Ask what a hostile client cannot have changed: it may have deleted the topics."""
    client.send(request_frame(metadata(), METADATA_VERSION, 77))
    assert struct.unpack_from(">i", client.read_frame())[0] == 77


@pytest.mark.parametrize("api", served_apis(), ids=lambda api: api.name)
def test_every_field_of_every_api_at_its_extremes(victim: ServedCluster, unharmed: RawClient, api: AnyApi) -> None:
    rng = random.Random(api.key)
    drawn = Extremes(rng)
    for version in range(api.first, api.last + 1):
        for _ in range(2):
            request = drawn.message(api.request, version)
            with RawClient(victim.bootstrap) as bad:
                bad.send(request_frame(request, version))
                bad.socket.settimeout(0.02)
                try:
                    bad.socket.recv(1)
                except (TimeoutError, ConnectionError):
                    continue
    _check_alive(unharmed)


@pytest.mark.parametrize("api", served_apis(), ids=lambda api: api.name)
@pytest.mark.quick(6)
def test_every_cut_of_a_request_ends_its_connection_or_is_answered(
    victim: ServedCluster, unharmed: RawClient, api: AnyApi
) -> None:
    body = encode_bytes(Extremes(random.Random(api.key)).message(api.request, api.last), api.last)[:300]
    tags = b"\0" if api.last >= api.request.FLEXIBLE_FROM else b""
    for end in range(0, len(body), max(1, len(body) // 20)):
        with RawClient(victim.bootstrap) as bad:
            bad.send(sized(header(api.key, api.last) + tags + body[:end]))
    _check_alive(unharmed)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.quick(2)
def test_random_requests(victim: ServedCluster, unharmed: RawClient, seed: int) -> None:
    clients = [HostileClient(victim.bootstrap, 100 * seed + number) for number in range(CLIENTS)]
    threads = [threading.Thread(target=client.attack, args=(40,)) for client in clients]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        _check_alive(unharmed)
    for thread in threads:
        thread.join()
    assert [client.sent for client in clients] == [40] * CLIENTS


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
def test_a_million_random_requests() -> None:
    """Run it with `-s` to see how fast it was, and what it cost."""
    served = ServedCluster(auto_create_topics_enable="false", watched=True)
    with served as cluster, RawClient(cluster.bootstrap) as good:
        clients = [HostileClient(cluster.bootstrap, number) for number in range(CLIENTS)]
        share = SOAK_REQUESTS // CLIENTS
        started_s = time.monotonic()
        threads = [threading.Thread(target=client.attack, args=(share,)) for client in clients]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            _check_alive(good)
            assert cluster.peak_bytes() < 2 * PEAK_BYTES_MAX
        hold_s = cluster.longest_hold_s()
        sys.stdout.write(
            f"{SOAK_REQUESTS} requests, {SOAK_REQUESTS / (time.monotonic() - started_s):.0f}/s, "
            f"peak {cluster.peak_bytes() / MIB:.0f} MiB, longest hold {hold_s * 1000:.0f} ms\n"
        )
        assert sum(client.sent for client in clients) == SOAK_REQUESTS
        assert set(cluster.failures()) == set()
        assert hold_s < HOLD_S_MAX


@pytest.fixture(scope="module")
def secured() -> Iterator[ServedCluster]:
    """A cluster with TLS and a user."""
    with ServedCluster(secure=True) as cluster:
        yield cluster


def tls_client(cluster: ServedCluster) -> RawClient:
    return RawClient(cluster.bootstrap, context=ssl.create_default_context(cafile=cluster.settings["ssl.ca.location"]))


@pytest.mark.parametrize("api", served_apis(), ids=lambda api: api.name)
@pytest.mark.quick(4)
def test_nothing_but_authentication_is_answered_before_it(secured: ServedCluster, api: AnyApi) -> None:
    request = Extremes(random.Random(api.key)).message(api.request, api.last)
    with tls_client(secured) as bad:
        bad.send(request_frame(request, api.last))
        if not api.before_authentication:
            assert bad.is_closed_by_peer()


@pytest.mark.parametrize("announced", [512 * 1024 + 1, 100 << 20, -1])
def test_a_long_frame_before_authentication_ends_its_connection(secured: ServedCluster, announced: int) -> None:
    with tls_client(secured) as bad:
        bad.send(struct.pack(">i", announced))
        assert bad.is_closed_by_peer()


def test_bytes_that_are_no_handshake_end_their_connection_only(secured: ServedCluster) -> None:
    for data in (b"\0\0\0\x10no handshake", b"\x16\x03\x01\xff\xff" + bytes(100), b"GET / HTTP/1.1\r\n\r\n"):
        with socket.create_connection(address_of(secured.bootstrap), timeout=30) as bad:
            bad.sendall(data)
    with tls_client(secured) as good:
        good.send(sized(header(18, 0, 5)))
        assert struct.unpack_from(">i", good.read_frame())[0] == 5


def test_slow_writers_hold_up_nobody(victim: ServedCluster, unharmed: RawClient) -> None:
    frame = request_frame(metadata(), METADATA_VERSION)
    slow = [RawClient(victim.bootstrap) for _ in range(100)]
    for at in range(len(frame)):
        for client in slow:
            client.send(frame[at : at + 1])
        _check_alive(unharmed)
    for client in slow:
        client.read_frame()
        client.close()

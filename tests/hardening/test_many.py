"""Many connections, floods, slow readers: each costs a little, and the others are served."""

from __future__ import annotations

import struct
import threading

from semel.protocol.messages.fetch import FetchResponse
from semel.protocol.messages.metadata import MetadataResponse
from tests.hardening.raw import RawClient, request_frame
from tests.hardening.requests import FETCH_VERSION, METADATA_VERSION, MIB, check_served, fetch, fill, metadata
from tests.hardening.served import ServedCluster
from tests.support.waiting import is_writable

CONNECTIONS = 500
SLOW_READERS = 50
BULK_MIB = 48
FLOOD_REQUESTS = 10_000


def test_500_connections_at_once_are_all_served(served: ServedCluster, good: RawClient) -> None:
    clients = [RawClient(served.bootstrap) for _ in range(CONNECTIONS)]
    for number, client in enumerate(clients):
        client.send(request_frame(metadata(), METADATA_VERSION, number))
    check_served(good)
    for number, client in enumerate(clients):
        answer = client.read_response(MetadataResponse, METADATA_VERSION, number)
        assert [row.name for row in answer.topics] == ["quiet"]
        client.close()


def test_ten_thousand_pipelined_requests_are_answered_in_order(served: ServedCluster, good: RawClient) -> None:
    flood = b"".join(request_frame(metadata(), METADATA_VERSION, number) for number in range(FLOOD_REQUESTS))
    with RawClient(served.bootstrap) as client:
        sender = threading.Thread(target=client.send, args=(flood,))
        sender.start()
        for number in range(FLOOD_REQUESTS):
            client.read_response(MetadataResponse, METADATA_VERSION, number)
            if number % 2500 == 0:
                check_served(good)
        sender.join()


def test_a_flood_whose_answers_nobody_reads_is_held_back(served: ServedCluster, good: RawClient) -> None:
    before = served.peak_bytes()
    frame = request_frame(metadata(), METADATA_VERSION)
    with RawClient(served.bootstrap, receive_bytes=4096) as client:
        client.socket.setblocking(False)
        sent_bytes = 0
        while is_writable(client.socket, 2.0):
            sent_bytes += client.socket.send(frame * 10_000)
            assert sent_bytes < 256 * MIB, "the broker takes requests without end"
        check_served(good)
    assert served.peak_bytes() - before < 100 * MIB


def test_slow_readers_cost_a_buffer_each_and_hold_up_nobody(served: ServedCluster, good: RawClient) -> None:
    fill(good, "bulk", BULK_MIB)
    before = served.peak_bytes()
    readers = [RawClient(served.bootstrap, receive_bytes=4096) for _ in range(SLOW_READERS)]
    for reader in readers:
        reader.send(request_frame(fetch("bulk", bytes_max=BULK_MIB * MIB), FETCH_VERSION))
    for reader in readers:
        (announced,) = struct.unpack(">i", reader.read(4))
        assert announced > (BULK_MIB - 2) * MIB
        check_served(good)
    whole = good.ask(fetch("bulk", bytes_max=2 * MIB), FetchResponse, FETCH_VERSION)
    assert whole.responses[0].partitions[0].records
    assert served.peak_bytes() - before < SLOW_READERS * 3 * MIB
    for reader in readers:
        reader.close()

"""B2: bytes that are no Kafka request end their own connection and nothing else."""

from __future__ import annotations

import struct

import pytest

from semel.protocol.message import encode_bytes
from semel.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from semel.protocol.messages.metadata import MetadataResponse
from tests.hardening.raw import RawClient, header, request_frame, sized
from tests.hardening.requests import METADATA_VERSION, check_served, metadata
from tests.hardening.served import ServedCluster

METADATA_KEY = 3
MILLION = 1_000_000
MANY = 100

BAD = {
    "garbage": b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
    "a TLS greeting": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "length of 2 GB": struct.pack(">i", 2**31 - 1) + bytes(100),
    "length just above the limit": struct.pack(">i", 104_857_601),
    "negative length": struct.pack(">i", -1),
    "smallest length": struct.pack(">i", -(2**31)),
    "zero length": struct.pack(">i", 0),
    "half a header": sized(b"\0\3\0"),
    "unknown API key": sized(header(9999, 0)),
    "negative API key": sized(header(-1, 0)),
    "known key, version above": sized(header(METADATA_KEY, 99)),
    "known key, negative version": sized(header(METADATA_KEY, -1)),
    "client id longer than the frame": sized(struct.pack(">hhih", METADATA_KEY, 1, 0, 30_000)),
    "client id that is not UTF-8": sized(struct.pack(">hhih", METADATA_KEY, 1, 0, 2) + b"\xff\xfe"),
    "no body": sized(header(METADATA_KEY, 1)),
    "truncated body": sized(request_frame(metadata(), METADATA_VERSION)[4:-3]),
    "million elements announced": sized(header(METADATA_KEY, 1) + struct.pack(">i", MILLION)),
    "2 billion elements announced": sized(header(METADATA_KEY, 1) + struct.pack(">i", 2**31 - 1)),
    "million elements, compact": sized(header(METADATA_KEY, 9) + b"\0" + b"\xc1\x84\x3d"),
    "million tags in the header": sized(header(METADATA_KEY, 9) + b"\xc0\x84\x3d"),
    "endless varint": sized(header(METADATA_KEY, 9) + b"\xff" * 40),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_bytes_end_their_connection_only(served: ServedCluster, good: RawClient, name: str) -> None:
    with RawClient(served.bootstrap) as bad:
        bad.send(BAD[name])
        assert bad.is_closed_by_peer()
    check_served(good)


def test_bad_bytes_after_good_ones_leave_the_good_answer(served: ServedCluster, good: RawClient) -> None:
    with RawClient(served.bootstrap) as bad:
        bad.send(request_frame(metadata(), METADATA_VERSION, 5) + BAD["negative length"])
        bad.read_response(MetadataResponse, METADATA_VERSION, 5)
        assert bad.is_closed_by_peer()
    check_served(good)


def test_trailing_bytes_are_ignored_as_apache_kafka_does(served: ServedCluster, good: RawClient) -> None:
    with RawClient(served.bootstrap) as client:
        client.send(sized(request_frame(metadata(), METADATA_VERSION, 7)[4:] + bytes(1000)))
        client.read_response(MetadataResponse, METADATA_VERSION, 7)
        check_served(client)


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(served: ServedCluster, good: RawClient) -> None:
    with RawClient(served.bootstrap) as client:
        client.send(sized(header(18, 99, 3) + b"\0" + encode_bytes(ApiVersionsRequest(), 3)))
        answer = client.read_response(ApiVersionsResponse, 0, 3)
        assert answer.error_code == 35
        assert [row.api_key for row in answer.api_keys] == [ApiVersionsRequest.API_KEY], "as Apache Kafka: itself alone"
        check_served(client)


def test_frames_announced_and_never_sent_cost_little(served: ServedCluster, good: RawClient) -> None:
    before = served.peak_bytes()
    clients = [RawClient(served.bootstrap) for _ in range(MANY)]
    for client in clients:
        client.send(struct.pack(">i", 100 << 20))
    check_served(good)
    for client in clients:
        client.close()
    assert served.peak_bytes() - before < 10 << 20, "four bytes used to cost a mebibyte"

"""Requests that the hardening tests send, and what a well-behaved client asks to see that it is served."""

from __future__ import annotations

from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from semel.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from semel.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from semel.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from semel.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from semel.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from semel.protocol.record_batch import DraftRecord, encode_batch
from tests.hardening.raw import RawClient

METADATA_VERSION = 9
FETCH_VERSION = 11
PRODUCE_VERSION = 9
MIB = 1 << 20


def metadata() -> MetadataRequest:
    """Ask about the quiet topic."""
    return MetadataRequest(topics=[MetadataRequestTopic(name="quiet")])


def fetch(topic: str, *, bytes_max: int, wait_ms_max: int = 0) -> FetchRequest:
    """Ask for a topic from its beginning."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=bytes_max)
    return FetchRequest(
        max_wait_ms=wait_ms_max,
        min_bytes=1,
        max_bytes=bytes_max,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def produce(topic: str, value: bytes) -> ProduceRequest:
    """Write one record."""
    batch = encode_batch([DraftRecord(key=None, value=value, timestamp_ms=1_700_000_000_000)])
    data = [PartitionProduceData(index=0, records=batch)]
    return ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def fill(client: RawClient, topic: str, mebibytes: int) -> None:
    """Write records of nearly one MiB each."""
    for _ in range(mebibytes):
        answer = client.ask(produce(topic, bytes(MIB - 4096)), ProduceResponse, PRODUCE_VERSION)
        assert _first_error(answer.responses[0].partition_responses) == ErrorCode.NONE


def _first_error(rows: object) -> int:
    assert isinstance(rows, list)
    code = rows[0].error_code
    assert isinstance(code, int)
    return code


def check_served(client: RawClient) -> None:
    """The well-behaved client asks twice and gets right answers."""
    found = client.ask(metadata(), MetadataResponse, METADATA_VERSION)
    assert [(row.name, row.error_code) for row in found.topics] == [("quiet", ErrorCode.NONE)]
    answer: Message = client.ask(fetch("quiet", bytes_max=MIB), FetchResponse, FETCH_VERSION)
    assert isinstance(answer, FetchResponse)
    assert answer.error_code == ErrorCode.NONE


def sign_in(client: RawClient, user: str = "alice", password: str = "secret") -> None:
    """Authenticate, as the user of a secured cluster here unless another is named."""
    shaken = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse, 1)
    assert shaken.error_code == ErrorCode.NONE
    token = f"\0{user}\0{password}".encode()
    answer = client.ask(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, 2)
    assert answer.error_code == ErrorCode.NONE

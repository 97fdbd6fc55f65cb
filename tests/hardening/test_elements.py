"""How many elements a request may have, and that a long list is worked through in linear time, with pauses.

Each of these took seconds to minutes when every element was compared with every other.
"""

from __future__ import annotations

import pytest

from semel.broker.network.server import ELEMENTS_MAX, PLAIN_REQUEST_BYTES_MAX
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message, encode_bytes
from semel.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from semel.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from semel.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from semel.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from semel.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.hardening.raw import RawClient, header, sized
from tests.hardening.requests import METADATA_VERSION, check_served
from tests.hardening.served import ServedCluster

MANY = ELEMENTS_MAX - 10
NAMES = [f"n{number}" for number in range(MANY)]
METADATA_KEY = 3


def is_refused(cluster: ServedCluster, frame: bytes) -> bool:
    with RawClient(cluster.bootstrap) as bad:
        bad.send(frame)
        return bad.is_closed_by_peer()


def test_a_request_with_too_many_elements_ends_its_connection(served: ServedCluster, good: RawClient) -> None:
    rows = [MetadataRequestTopic(name="quiet") for _ in range(ELEMENTS_MAX + 1)]
    body = encode_bytes(MetadataRequest(topics=rows), METADATA_VERSION)
    assert is_refused(served, sized(header(METADATA_KEY, METADATA_VERSION) + b"\0" + body))
    check_served(good)


def test_tags_are_elements_too(served: ServedCluster, good: RawClient) -> None:
    tags = b"\xc1\x9a\x0c" + b"\x05\x00" * 200_001
    assert is_refused(served, sized(header(METADATA_KEY, METADATA_VERSION) + tags))
    check_served(good)


def test_only_produce_may_be_long(served: ServedCluster, good: RawClient) -> None:
    assert is_refused(served, sized(header(METADATA_KEY, METADATA_VERSION) + bytes(PLAIN_REQUEST_BYTES_MAX)))
    check_served(good)


def test_a_string_is_not_longer_than_two_bytes_of_length_can_say(served: ServedCluster, good: RawClient) -> None:
    name = b"\x81\x80\x02" + b"a" * 0x8000
    assert is_refused(served, sized(header(METADATA_KEY, METADATA_VERSION) + b"\0\x02" + name + b"\0" * 5))
    check_served(good)


CASES: list[tuple[Message, type[Message], int, str, set[int]]] = [
    (
        CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=0) for name in NAMES], timeout_ms=1000),
        CreateTopicsResponse,
        5,
        "topics",
        {ErrorCode.INVALID_PARTITIONS},
    ),
    (
        DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in NAMES], timeout_ms=1000),
        DeleteTopicsResponse,
        6,
        "responses",
        {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    ),
    (
        IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=2, resource_name=name) for name in NAMES]
        ),
        IncrementalAlterConfigsResponse,
        1,
        "responses",
        {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    ),
    (
        DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in NAMES]),
        DescribeUserScramCredentialsResponse,
        0,
        "results",
        {ErrorCode.RESOURCE_NOT_FOUND},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: type(case[0]).__name__)
def test_a_long_list_of_names_is_answered(
    served: ServedCluster, good: RawClient, case: tuple[Message, type[Message], int, str, set[int]]
) -> None:
    request, response, version, rows, codes = case
    found = getattr(good.ask(request, response, version), rows)
    assert len(found) == MANY
    assert {row.error_code for row in found} == codes


def test_many_topics_are_created_while_others_are_served(served: ServedCluster, good: RawClient) -> None:
    names = [f"many-{number}" for number in range(450)]
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    with RawClient(served.bootstrap) as client:
        answer = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000), CreateTopicsResponse, 5)
        assert {row.error_code for row in answer.topics} == {ErrorCode.NONE}
        check_served(good)
        states = [DeleteTopicState(name=name) for name in names]
        gone = client.ask(DeleteTopicsRequest(topics=states, timeout_ms=30_000), DeleteTopicsResponse, 6)
        assert {row.error_code for row in gone.responses} == {ErrorCode.NONE}

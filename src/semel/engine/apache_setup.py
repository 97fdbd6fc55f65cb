"""What is asked of Apache Kafka while it starts, over the wire: is it there, what became of its settings, its topics.

Why: Apache Kafka takes a broker setting that it does not know without a word, and lists it among its settings all the
     same, but without a type. Some that it does know have no type either, and plug-ins bring names of their own; so one
     is refused only if it is nearly a name that has a type: then it is misspelt.
"""

from __future__ import annotations

import difflib
import socket
import struct
from collections.abc import Collection, Sequence

from semel.broker.cluster_settings import TopicSpec
from semel.errors import ConfigError, ConnectionFailure, ProtocolError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import decode_at, encode_bytes
from semel.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from semel.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from semel.protocol.messages.metadata import MetadataRequest, MetadataResponse
from semel.wire.admin import ResourceKind
from semel.wire.cluster import WireCluster

# The first version that can say that no topic is to be created.
METADATA_VERSION = 4
ANSWER_BYTES_MAX = 1 << 24
UNKNOWN_TYPE = 0
NEAR_MIN = 0.9
_HEAD = struct.Struct(">ihhih")
_SIZE = struct.Struct(">i")


def count_brokers(host: str, port: int, *, timeout_s: float) -> int:
    """How many brokers the one at this address knows: one Metadata request over a plain socket."""
    body = encode_bytes(MetadataRequest(topics=[], allow_auto_topic_creation=False), METADATA_VERSION)
    head = _HEAD.pack(len(body) + _HEAD.size - _SIZE.size, MetadataRequest.API_KEY, METADATA_VERSION, 1, -1)
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(head + body)
            size = _SIZE.unpack(_read(connection, _SIZE.size))[0]
            # While a node starts, the port may belong to somebody else.
            if not 4 <= size <= ANSWER_BYTES_MAX:
                raise ProtocolError(f"{host}:{port} does not speak Kafka: an answer of {size} bytes")
            answer = _read(connection, size)
    except OSError as error:
        raise ConnectionFailure(f"{host}:{port} cannot be reached: {error}") from None
    return len(decode_at(MetadataResponse, answer, METADATA_VERSION, 4)[0].brokers)


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionFailure("the connection ended inside an answer")
        data += piece
    return bytes(data)


def refuse_misspelt_settings(client: WireCluster, node_id: int, names: Collection[str]) -> None:
    """Raise ConfigError for the first of these names that is nearly, and not quite, one of the broker's settings."""
    deadline = client.deadline()
    client.broker_ids(deadline)
    resource = DescribeConfigsResource(
        resource_type=ResourceKind.BROKER, resource_name=str(node_id), configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource])
    answer = client.connection(node_id, deadline).call(request, DescribeConfigsResponse, deadline)
    known = {row.name for result in answer.results for row in result.configs if row.config_type != UNKNOWN_TYPE}
    for name in sorted(names):
        near = [] if name in known else difflib.get_close_matches(name, sorted(known), n=1, cutoff=NEAR_MIN)
        if near:
            raise ConfigError(f"Apache Kafka has no broker setting {name}", you_want=near[0])


def create_topics(client: WireCluster, specs: Sequence[TopicSpec]) -> None:
    """Create these; one that is there stays as it is, as on the embedded cluster."""
    wanted = [
        CreatableTopic(name=spec.name, num_partitions=spec.partitions, replication_factor=spec.replication_factor)
        for spec in specs
    ]
    answer = client.call_any(CreateTopicsRequest(topics=wanted), CreateTopicsResponse, client.deadline(), changes=True)
    for topic in answer.topics:
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise ConfigError(f"topic {topic.name} cannot be created: {topic.error_message or topic.error_code}")

"""A cluster has more partitions than it may open files, more clients connect than it can serve, and it lives."""

from __future__ import annotations

import socket
from pathlib import Path

from semel.broker.controller.controller import REPLICAS_MAX
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from semel.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from semel.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from semel.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from semel.protocol.record_batch import DraftRecord, encode_batch
from tests.hardening.raw import RawClient, address_of
from tests.hardening.requests import FETCH_VERSION, MIB, PRODUCE_VERSION, check_served
from tests.hardening.served import ServedCluster
from tests.support.waiting import eventually

FILES_MAX = 64
PARTITIONS = 120


def create(client: RawClient, topic: CreatableTopic) -> tuple[int, str | None]:
    row = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CreateTopicsResponse, 5).topics[0]
    return row.error_code, row.error_message


def produce_everywhere(client: RawClient) -> bool:
    batch = encode_batch([DraftRecord(key=None, value=b"v", timestamp_ms=1_700_000_000_000)])
    rows = [PartitionProduceData(index=index, records=batch) for index in range(PARTITIONS)]
    data = TopicProduceData(name="wide", partition_data=rows)
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    found = client.ask(request, ProduceResponse, PRODUCE_VERSION).responses[0].partition_responses
    assert {row.error_code for row in found} <= {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}
    return all(row.error_code == ErrorCode.NONE for row in found)


def ends(client: RawClient) -> list[int]:
    rows = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=MIB) for index in range(PARTITIONS)]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=MIB, session_epoch=-1, topics=[FetchTopic(topic="wide", partitions=rows)]
    )
    found = client.ask(request, FetchResponse, FETCH_VERSION).responses[0].partitions
    return [row.high_watermark for row in found]


def test_more_partitions_than_descriptors_are_served_and_come_back(tmp_path: Path) -> None:
    with ServedCluster(files_max=FILES_MAX, data=tmp_path) as cluster, RawClient(cluster.bootstrap) as client:
        wide = CreatableTopic(name="wide", num_partitions=PARTITIONS, replication_factor=1)
        assert create(client, wide) == (ErrorCode.NONE, None)
        eventually(lambda: produce_everywhere(client), what="all partitions are open")
        before = ends(client)
        assert min(before) >= 1
        check_served(client)
        assert cluster.descriptors() < FILES_MAX
        cluster.kill()
    with ServedCluster(files_max=FILES_MAX, data=tmp_path) as cluster, RawClient(cluster.bootstrap) as client:
        assert ends(client) == before
        assert produce_everywhere(client)
        cluster.kill()


def test_more_connections_than_descriptors_leave_the_served_ones_alone() -> None:
    with ServedCluster(files_max=FILES_MAX) as cluster, RawClient(cluster.bootstrap) as client:
        check_served(client)
        many = [socket.create_connection(address_of(cluster.bootstrap)) for _ in range(2 * FILES_MAX)]
        check_served(client)
        assert create(client, CreatableTopic(name="new", num_partitions=3, replication_factor=1)) == (0, None)
        for one in many:
            one.close()
        eventually(lambda: _is_served(cluster.bootstrap), what="room for another connection")


def _is_served(bootstrap: str) -> bool:
    try:
        with RawClient(bootstrap) as client:
            check_served(client)
    except ConnectionError:
        return False
    return True


def test_connections_that_never_shake_hands_are_counted() -> None:
    with ServedCluster(secure=True, max_connections="10") as cluster:
        many = [socket.create_connection(address_of(cluster.bootstrap)) for _ in range(30)]
        eventually(lambda: sum(_is_closed(one) for one in many) == 20, what="those above the limit are refused")
        for one in many:
            one.close()


def _is_closed(one: socket.socket) -> bool:
    one.setblocking(False)
    try:
        return one.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_the_number_of_replicas_has_a_limit_by_every_way_in(good: RawClient, served: ServedCluster) -> None:
    refused = ErrorCode.POLICY_VIOLATION
    huge = REPLICAS_MAX + 1
    code, message = create(good, CreatableTopic(name="huge", num_partitions=huge, replication_factor=1))
    assert (code, str(REPLICAS_MAX) in str(message)) == (refused, True)
    # An assignment is two elements of a request: index and brokers. Half as many as a request may have are enough.
    rows = [CreatableReplicaAssignment(partition_index=index, broker_ids=[1]) for index in range(REPLICAS_MAX - 10)]
    explicit = CreatableTopic(name="huge", num_partitions=-1, replication_factor=-1, assignments=rows)
    some = CreatableTopic(name="some", num_partitions=10, replication_factor=1)
    both = CreateTopicsRequest(topics=[some, explicit], timeout_ms=30_000, validate_only=True)
    found = good.ask(both, CreateTopicsResponse, 5).topics
    assert [row.error_code for row in found] == [ErrorCode.NONE, refused]
    have = REPLICAS_MAX - 100  # other tests have made topics here
    grown = CreatePartitionsTopic(
        name="quiet", count=have + 1, assignments=[CreatePartitionsAssignment(broker_ids=[1]) for _ in range(have)]
    )
    more = CreatePartitionsTopic(name="bulk", count=120, assignments=None)
    request = CreatePartitionsRequest(topics=[grown, more], timeout_ms=30_000, validate_only=True)
    first, row = good.ask(request, CreatePartitionsResponse, 2).results
    assert first.error_code == ErrorCode.NONE
    assert (row.error_code, str(REPLICAS_MAX) in str(row.error_message)) == (refused, True)


def test_topics_of_one_request_are_counted_together(good: RawClient, served: ServedCluster) -> None:
    half = REPLICAS_MAX // 2 + 1
    topics = [CreatableTopic(name=name, num_partitions=half, replication_factor=1) for name in ("one", "two")]
    request = CreateTopicsRequest(topics=topics, timeout_ms=30_000, validate_only=True)
    found = good.ask(request, CreateTopicsResponse, 5).topics
    assert [row.error_code for row in found] == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]

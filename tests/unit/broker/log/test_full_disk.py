"""A disk without room: what producers are told, what stays in the log, how it comes back, what the log says of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from semel.engine.embedded import Cluster
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from semel.protocol.messages.produce import ProduceResponse
from semel.world.levers import DiskLevers, disk_levers
from tests.hardening.raw import RawClient, request_frame
from tests.hardening.requests import PRODUCE_VERSION, check_served, produce
from tests.support.waiting import eventually

ROOM_BYTES = 150


# What could not be opened is tried again in each round, and rounds are as frequent as the most frequent work. Elsewhere
# there is none: it would write as well, and be refused.
WITH_ROUNDS = pytest.mark.parametrize("cluster", [{"log.retention.check.interval.ms": "50"}], indirect=True)


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(brokers=1, topics=["tight"], config=getattr(request, "param", {})) as running:
        yield running


@pytest.fixture
def disk(cluster: Cluster) -> DiskLevers:
    return disk_levers(cluster.core.brokers[1].world)


def send(client: RawClient, value: bytes) -> int:
    client.send(request_frame(produce("tight", value), PRODUCE_VERSION))
    answer = client.read_response(ProduceResponse, PRODUCE_VERSION)
    return answer.responses[0].partition_responses[0].error_code


def log_end(cluster: Cluster) -> int:
    return cluster.core.brokers[1].partitions["tight", 0].log.log_end_offset


def test_a_full_disk_refuses_with_the_storage_error_and_recovers(
    cluster: Cluster, disk: DiskLevers, caplog: pytest.LogCaptureFixture
) -> None:
    with RawClient(cluster.bootstrap) as client, caplog.at_level(logging.WARNING, "semel.broker"):
        assert send(client, b"before") == ErrorCode.NONE
        disk.fill(ROOM_BYTES)
        assert send(client, b"x") == ErrorCode.NONE
        assert [send(client, b"y" * 200) for _ in range(5)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 5
        assert (disk.refused_writes, log_end(cluster)) == (5, 2)
        check_served(client)
        disk.make_room()
        assert send(client, b"y" * 200) == ErrorCode.NONE
        assert log_end(cluster) == 3
    lines = [record.getMessage() for record in caplog.records if "tight-0" in record.getMessage()]
    assert len(lines) == 2
    assert "cannot be written" in lines[0]
    assert "No space left" in lines[0]
    assert "can be written again" in lines[1]


def test_what_was_acknowledged_before_the_disk_was_full_survives_a_kill(cluster: Cluster, disk: DiskLevers) -> None:
    with RawClient(cluster.bootstrap) as client:
        assert send(client, b"kept") == ErrorCode.NONE
        disk.fill()
        assert send(client, b"refused") == ErrorCode.KAFKA_STORAGE_ERROR
    cluster.restart(1)
    assert log_end(cluster) == 1
    disk.make_room()
    with RawClient(cluster.bootstrap) as client:
        assert send(client, b"after") == ErrorCode.NONE
    assert log_end(cluster) == 2


@WITH_ROUNDS
def test_a_topic_made_on_a_full_disk_is_served_when_there_is_room(cluster: Cluster, disk: DiskLevers) -> None:
    disk.fill()
    with RawClient(cluster.bootstrap) as client:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name="late", num_partitions=2, replication_factor=1)], timeout_ms=10_000
        )
        client.ask(request, CreateTopicsResponse, 5)
        assert disk.refused_writes > 0
        led = cluster.core.brokers[1].partitions
        assert ("late", 0) not in led
        # A round that tries again at this moment has a folder for as long as it takes to fail.
        left = "no folder without its id is left, which would be dropped later"
        eventually(lambda: not list(cluster.data.glob("broker-1/late-*")), what=left)
        disk.make_room()
        # A round may have failed to open the first of them before there was room, and opened the second after that.
        eventually(lambda: ("late", 0) in led and ("late", 1) in led, what="the partitions are opened")
        answer = client.ask(produce("late", b"x"), ProduceResponse, PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    cluster.restart(1)
    assert cluster.core.brokers[1].partitions["late", 0].log.log_end_offset == 1

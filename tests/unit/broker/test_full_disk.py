"""A disk without room: what producers are told, what stays in the log, how it comes back, what the log says of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from semel.engine.embedded import Cluster
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.produce import ProduceResponse
from semel.world.levers import DiskLevers, disk_levers
from tests.hardening.raw import RawClient, request_frame
from tests.hardening.requests import PRODUCE_VERSION, check_served, produce

ROOM_BYTES = 150


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, topics=["tight"]) as running:
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

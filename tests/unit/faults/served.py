"""A produce request to one broker, for tests of faults: what it answers, and whether it answers at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from semel.engine.embedded import Cluster
from semel.protocol.messages.produce import ProduceResponse
from tests.hardening.raw import RawClient, request_frame
from tests.hardening.requests import PRODUCE_VERSION, produce
from tests.support.waiting import is_readable

TOPIC = "orders"
SILENCE_S = 0.2
FRAME = request_frame(produce(TOPIC, b"value"), PRODUCE_VERSION)


@contextmanager
def connected(cluster: Cluster, broker_id: int) -> Iterator[RawClient]:
    """A client of this broker."""
    node = cluster.core.brokers[broker_id].node
    with RawClient(f"{node.host}:{node.port}") as client:
        yield client


def answered(client: RawClient) -> int:
    """The error code of the answer that comes next."""
    answer = client.read_response(ProduceResponse, PRODUCE_VERSION)
    return answer.responses[0].partition_responses[0].error_code


def produced(client: RawClient) -> int:
    """Send one record; the error code of the answer."""
    client.send(FRAME)
    return answered(client)


def produced_unless_silent(client: RawClient) -> int | None:
    """Send one record; the error code of the answer, or None when none comes for a while."""
    client.send(FRAME)
    is_silent = not is_readable(client.socket, SILENCE_S)
    return None if is_silent else answered(client)


def leader_of(cluster: Cluster) -> int:
    """Who leads the one partition."""
    return cluster.core.state.topics[TOPIC].partitions[0].leader


def log_end(cluster: Cluster, broker_id: int) -> int:
    """How far the one partition goes on this broker."""
    return cluster.core.brokers[broker_id].partitions[TOPIC, 0].log.log_end_offset

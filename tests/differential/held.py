"""Two clusters of two brokers whose transactions can be held between decision and completion.

One broker coordinates, the other leads the partition that is written. On Apache Kafka the leader's JVM is stopped, on
the embedded cluster WriteTxnMarkers is delayed: either way the markers do not arrive, and PrepareCommit lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from semel.broker.runtime.intercept import Delay
from semel.engine.apache import ApacheCluster
from semel.engine.embedded import Cluster
from semel.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from tests.differential.run import GROUP, TRANSACTION, versions_of
from tests.differential.talk import Side, Versions
from tests.support.waiting import eventually
from tests.support.wire import Wire

# One partition each, so that one broker coordinates everything, and one replica, so that it needs nobody.
SETTINGS = {
    f"{name}.{setting}": "1"
    for name, settings in (
        ("offsets.topic", ("num.partitions", "replication.factor")),
        ("transaction.state.log", ("num.partitions", "replication.factor", "min.isr")),
    )
    for setting in settings
}
DELAY_MS = 600_000.0
FIND_COORDINATOR = 4
METADATA = 9


@dataclass(frozen=True, slots=True)
class Held:
    """A cluster with its two roles, and how to keep markers away from the leader."""

    coordinator: Side
    leader: Side
    leader_id: int
    versions: Versions
    hold: Callable[[], None]
    release: Callable[[], None]


def _broker_of(wire: Wire, kind: int) -> int:
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["any"])
    row = wire.ask(request, FindCoordinatorResponse, version=FIND_COORDINATOR).coordinators[0]
    return -1 if row.error_code else row.node_id


def _roles(name: str, bootstrap: str) -> tuple[Side, Side, int]:
    host, port = bootstrap.split(",", maxsplit=1)[0].split(":")
    with Wire(host, int(port)) as wire:
        eventually(lambda: max(_broker_of(wire, GROUP), 0), what=f"a group coordinator on {name}")
        coordinator = eventually(lambda: max(_broker_of(wire, TRANSACTION), 0), what=f"a coordinator on {name}")
        rows = wire.ask(MetadataRequest(topics=[]), MetadataResponse, version=METADATA).brokers
    by_id = {row.node_id: row for row in rows}
    leader = next(number for number in by_id if number != coordinator)
    return _side(name, by_id[coordinator]), _side(name, by_id[leader]), leader


def _side(name: str, row: MetadataResponseBroker) -> Side:
    return Side(name, row.host, row.port)


@contextmanager
def held_apache() -> Iterator[Held]:
    """Apache Kafka with two nodes."""
    with ApacheCluster(brokers=2, config=SETTINGS) as cluster:
        coordinator, leader, leader_id = _roles("apache", cluster.bootstrap)
        yield Held(
            coordinator,
            leader,
            leader_id,
            versions_of(coordinator),
            lambda: cluster.pause_node(leader_id),
            lambda: cluster.resume_node(leader_id),
        )


@contextmanager
def held_embedded() -> Iterator[Held]:
    """The embedded cluster with two brokers."""
    with Cluster(brokers=2, config=SETTINGS) as cluster:
        coordinator, leader, leader_id = _roles("embedded", cluster.bootstrap)

        def hold() -> None:
            cluster.intercept("WriteTxnMarkers", Delay(ms=DELAY_MS), times=None)

        yield Held(coordinator, leader, leader_id, versions_of(coordinator), hold, cluster.disarm)

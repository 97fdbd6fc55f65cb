"""What the tests of the client share: an embedded cluster a module, and clients that are closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from semel.engine.embedded import Cluster
from semel.wire.cluster import WireCluster
from semel.wire.settings import WireSettings
from tests.support.topics import create_topic

MakeClient = Callable[..., WireCluster]


@pytest.fixture(scope="module")
def embedded() -> Iterator[Cluster]:
    """Three brokers."""
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def cluster(embedded: Cluster) -> Iterator[Cluster]:
    """The module's cluster, without hooks before and after."""
    embedded.disarm()
    yield embedded
    embedded.disarm()


@pytest.fixture
def client_of() -> Iterator[MakeClient]:
    """Make a client of an address with some options."""
    made: list[WireCluster] = []

    def make(bootstrap: str, **options: str) -> WireCluster:
        named = {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
        quick = {"kafka.retry.backoff.ms": "10", "kafka.retry.backoff.max.ms": "50"}
        settings = WireSettings.from_options({"kafka.bootstrap.servers": bootstrap} | quick | named)
        made.append(WireCluster(settings))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def client(cluster: Cluster, client_of: MakeClient) -> WireCluster:
    """A client of the module's cluster that gives up on a silent broker soon."""
    return client_of(cluster.bootstrap, request_timeout_ms="1000", default_api_timeout_ms="20000")


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own with six partitions, two on each broker."""
    name = f"t{abs(hash(request.node.nodeid)):x}"
    create_topic(cluster, name, partitions=6)
    return name

"""Fixtures for tests with real clients: JVMs, drivers, and topics of a test's own."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

import semel
from tests.clients.choice import Drivers, Jvms
from tests.clients.drivers.interface import Driver, Endpoint
from tests.support.topics import create_topic

MakeTopic = Callable[..., str]
_numbers = count()


@pytest.fixture(scope="package")
def jvms() -> Iterator[Jvms]:
    started = Jvms()
    yield started
    started.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    """Three brokers that let sessions be short and keep records however old they say they are."""
    with semel.Cluster(brokers=3, config={"group.min.session.timeout.ms": "100", "log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture(scope="module")
def drivers(cluster: semel.Cluster, jvms: Jvms) -> Iterator[Drivers]:
    made = Drivers(Endpoint(bootstrap=cluster.bootstrap), jvms)
    yield made
    made.close()


@pytest.fixture
def driver(drivers: Drivers, request: pytest.FixtureRequest) -> Driver:
    return drivers.get(request.param)


@pytest.fixture
def make_topic(cluster: semel.Cluster) -> MakeTopic:
    """Make topics that no other test uses."""

    def make(partitions: int = 1, **config: str) -> str:
        name = f"topic-{next(_numbers)}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        create_topic(cluster, name, partitions=partitions, config=settings)
        return name

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    """One topic with one partition."""
    return make_topic()

"""One cluster for the tests of a file; each test uses topics and groups of its own name."""

from collections.abc import Iterator

import pytest

from semel.engine.embedded import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three brokers that allow sessions short enough to watch them expire."""
    with Cluster(brokers=3, config={"group.min.session.timeout.ms": "100"}) as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    return str(request.node.name).translate(str.maketrans("[]", "__")).removeprefix("test_")

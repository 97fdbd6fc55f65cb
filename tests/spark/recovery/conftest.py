"""One cluster for all situations; each has topics and a pipeline of its own."""

from collections.abc import Iterator

import pytest

import semel


@pytest.fixture(scope="package")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started

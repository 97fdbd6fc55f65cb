"""One cluster for all tests of the command; each has topics and a pipeline of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.engine.embedded import Cluster
from tests.pipeline.staged import Staged


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture
def staged(cluster: Cluster, tmp_path: Path) -> Staged:
    """A pipeline that has committed twice, with a checkpoint that is level with its output."""
    return Staged.level(cluster, tmp_path / "checkpoint")

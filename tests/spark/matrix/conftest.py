"""One cluster for the matrix; each cell has topics and a pipeline of its own, and leaves no hook behind."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import semel
from tests.spark.matrix.replay import Replay

Make = Callable[..., Replay]


@pytest.fixture(scope="package")
def cluster() -> Iterator[semel.Cluster]:
    config = {"log.retention.ms": "-1", "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}
    with semel.Cluster(brokers=3, config=config) as started:
        yield started


@pytest.fixture
def make(spark: SparkSession, cluster: semel.Cluster) -> Iterator[Make]:
    """Make a pipeline; hooks that a cell armed are gone afterwards."""

    def made(partitioning: str, **more: Any) -> Replay:
        return Replay(spark=spark, bootstrap=cluster.bootstrap, partitioning=partitioning, **more)

    yield made
    cluster.disarm()

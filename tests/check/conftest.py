"""Two clusters for all tests of rules: one with the usual weak settings, one with strict ones."""

from collections.abc import Iterator

import pytest

from semel.drill.damage.records import QUICK
from semel.engine.embedded import Cluster

WEAK = {
    **QUICK,
    "auto.create.topics.enable": "true",
    "offsets.retention.minutes": "60",
    "offsets.topic.replication.factor": "1",
    "producer.id.expiration.ms": "60000",
    "transaction.max.timeout.ms": "600000",
    "transaction.partition.verification.enable": "false",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transactional.id.expiration.ms": "3600000",
}
STRICT = {
    "auto.create.topics.enable": "false",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.replication.factor": "3",
}


@pytest.fixture(scope="package")
def _weak() -> Iterator[Cluster]:
    with Cluster(brokers=3, config=WEAK) as started:
        yield started


@pytest.fixture
def weak(_weak: Cluster) -> Iterator[Cluster]:
    """Three brokers with weak settings; faults that a test arms end with it."""
    yield _weak
    _weak.disarm()


@pytest.fixture(scope="package")
def strict() -> Iterator[Cluster]:
    """Three brokers with the settings that every rule wants."""
    with Cluster(brokers=3, config=STRICT) as started:
        yield started

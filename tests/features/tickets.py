"""Fixtures of the transaction features: a shop that sells tickets, on a cluster of each test's own."""

from collections.abc import Callable, Iterator

import pytest

import semel
from tests.features.producers import Producers, TransactionalProducer

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
}
MakeProducer = Callable[..., TransactionalProducer]


@pytest.fixture
def tickets() -> Iterator[semel.Cluster]:
    """Three brokers, so that partitions and coordinators can lie apart."""
    with semel.Cluster(brokers=3, topics=["status:3", "seats:3"], config=SETTINGS) as started:
        yield started


@pytest.fixture(scope="package")
def libraries() -> Iterator[Producers]:
    started = Producers()
    yield started
    started.close()


@pytest.fixture
def producer_of(tickets: semel.Cluster, libraries: Producers) -> Iterator[MakeProducer]:
    """Make producers that end with the test."""

    def make(library: str, transactional_id: str = "tickets", *, timeout_ms: int = 60_000) -> TransactionalProducer:
        return libraries.make(library, tickets.bootstrap, transactional_id, timeout_ms=timeout_ms)

    yield make
    libraries.close_made()

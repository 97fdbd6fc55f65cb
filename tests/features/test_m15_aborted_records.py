"""M15 Aborted records stay in the log: read_uncommitted sees them, read_committed does not and does not wait for them.

Keeps: P3 under read_committed no record of an aborted transaction is returned.
"""

import pytest

import semel
from tests.clients.choice import NAMES, OLD_JAVA, Jvms, make_driver
from tests.clients.drivers.interface import Endpoint
from tests.features.producers import LIBRARIES
from tests.features.reading import seen, wait_complete
from tests.features.tickets import MakeProducer
from tests.support.topics import produce


@pytest.mark.quick(4)
@pytest.mark.parametrize("reader", [*NAMES, OLD_JAVA])
@pytest.mark.parametrize("library", ["confluent", LIBRARIES[0]])
def test_readers_of_both_levels(
    tickets: semel.Cluster, producer_of: MakeProducer, jvms: Jvms, library: str, reader: str
) -> None:
    producer = producer_of(library)
    producer.init()
    for number in range(4):
        producer.begin()
        producer.send("status", f"{'aborted' if number % 2 else 'committed'} {number}")
        producer.flush()
        produce(tickets, "status", 1)  # a plain record in the middle of the transaction
        producer.abort() if number % 2 else producer.commit()
    wait_complete(tickets)
    driver = make_driver(reader, Endpoint(bootstrap=tickets.bootstrap), jvms)
    plain = b"v" * 100
    everything = [one.value for one in driver.consume("status", {0: 0}, 8)]
    committed = [one.value for one in driver.consume("status", {0: 0}, 6, committed=True)]
    driver.close()
    assert everything == [b"committed 0", plain, b"aborted 1", plain, b"committed 2", plain, b"aborted 3", plain]
    assert committed == [b"committed 0", plain, plain, b"committed 2", plain, plain]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_reader_does_not_wait_behind_an_aborted_transaction(
    tickets: semel.Cluster, producer_of: MakeProducer, library: str
) -> None:
    producer = producer_of(library)
    producer.init()
    producer.begin()
    producer.send("status", "aborted")
    producer.flush()
    produce(tickets, "status", 1)
    assert seen(tickets, "status") == [], "undecided: the plain record waits too"
    producer.abort()
    wait_complete(tickets)
    assert seen(tickets, "status") == ["v" * 100]
    assert seen(tickets, "status", committed=False) == ["aborted", "v" * 100]

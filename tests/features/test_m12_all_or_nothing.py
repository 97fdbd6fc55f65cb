"""M12 A transaction over two topics: all of its records or none, with every client library.

Keeps: T2 a transaction is all or nothing.
"""

import pytest

import semel
from tests.features.producers import LIBRARIES
from tests.features.reading import seen, wait_complete
from tests.features.tickets import MakeProducer
from tests.support.topics import produce

EACH = pytest.mark.parametrize("library", LIBRARIES)


@EACH
def test_commits_and_aborts_over_two_topics(tickets: semel.Cluster, producer_of: MakeProducer, library: str) -> None:
    producer = producer_of(library)
    producer.init()
    for number in range(6):
        producer.begin()
        for partition in range(3):
            producer.send("status", f"order {number} {partition}", partition)
            producer.send("seats", f"seat {number} {partition}", partition)
        producer.flush()
        before = seen(tickets, "status", "seats")
        assert not [value for value in before if f" {number} " in value], "visible before its commit"
        producer.commit() if number % 2 == 0 else producer.abort()
    wait_complete(tickets)
    whole = [f"{what} {number} {part}" for what in ("order", "seat") for number in (0, 2, 4) for part in range(3)]
    assert seen(tickets, "status", "seats") == sorted(whole)
    assert len(seen(tickets, "status", "seats", committed=False)) == 36, "the aborted ones are in the log"


@EACH
def test_a_producer_that_dies_half_way_leaves_nothing(
    tickets: semel.Cluster, producer_of: MakeProducer, library: str
) -> None:
    dying = producer_of(library)
    dying.init()
    dying.begin()
    dying.send("status", "sold")
    dying.flush()
    dying.close()  # the seat was never taken
    producer_of(library).init()
    assert seen(tickets, "status", "seats") == []
    assert seen(tickets, "status", "seats", committed=False) == ["sold"]


def test_without_a_transaction_the_same_death_sells_a_seat_that_is_not_taken(tickets: semel.Cluster) -> None:
    produce(tickets, "status", 1)
    # The producer dies here.
    assert (len(seen(tickets, "status")), len(seen(tickets, "seats"))) == (1, 0)

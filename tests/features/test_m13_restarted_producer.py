"""M13 A restarted producer keeps its producer id, resolves what was open, and repeats nothing.

Keeps: T1 a transactional id has one live producer epoch; B3 a producer id is handed out once.
"""

import pytest

import semel
from tests.features.producers import LIBRARIES
from tests.features.reading import described, seen, wait_complete
from tests.features.tickets import MakeProducer
from tests.support.topics import produce

EACH = pytest.mark.parametrize("library", LIBRARIES)


@EACH
@pytest.mark.parametrize("cluster_restarts", [False, True], ids=["", "cluster restarted too"])
def test_the_work_of_a_dead_producer_is_done_once(
    tickets: semel.Cluster, producer_of: MakeProducer, library: str, cluster_restarts: bool
) -> None:
    first = producer_of(library)
    first.init()
    first.begin()
    first.send("status", "order 1")
    first.flush()
    first.close()  # died before its commit; its work is done again by the next
    _, producer_id, epoch = described(tickets, "tickets")
    if cluster_restarts:
        for broker in (1, 2, 3):
            tickets.restart(broker)
    second = producer_of(library)
    second.init()
    second.begin()
    second.send("status", "order 1")
    second.flush()
    second.commit()
    wait_complete(tickets)
    state, id_after, epoch_after = described(tickets, "tickets")
    assert (state, id_after) == ("CompleteCommit", producer_id)
    assert epoch_after > epoch
    assert seen(tickets, "status") == ["order 1"]
    assert len(seen(tickets, "status", committed=False)) == 2


def test_without_a_transactional_id_the_same_work_is_there_twice(tickets: semel.Cluster) -> None:
    for producer_id in (1, 2):  # a restarted idempotent producer has a new producer id
        produce(tickets, "status", 1, producer_id=producer_id)
    assert len(seen(tickets, "status")) == 2

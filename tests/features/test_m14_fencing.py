"""M14 Two producers with one transactional id: the newer wins, the older can write nothing, also after a long pause.

Keeps: T1 a transactional id has one live producer epoch; T3 a producer epoch once fenced never writes again; B7 an
       older producer epoch writes nothing once a newer one was seen.
"""

import pytest

import semel
from tests.clients.drivers.interface import Refused
from tests.features.producers import LIBRARIES, TransactionalProducer
from tests.features.reading import seen, wait_complete
from tests.features.tickets import MakeProducer

EACH = pytest.mark.parametrize("library", LIBRARIES)


def wake(zombie: TransactionalProducer, *, begins: bool) -> None:
    if begins:
        zombie.begin()
    zombie.send("status", "zombie 1")
    zombie.flush()
    zombie.commit()


@pytest.mark.quick(6)
@EACH
@pytest.mark.parametrize("paused_at", ["before begin", "after begin", "after send", "after commit"])
def test_a_zombie_writes_nothing(
    tickets: semel.Cluster, producer_of: MakeProducer, library: str, paused_at: str
) -> None:
    zombie = producer_of(library)
    zombie.init()
    if paused_at != "before begin":
        zombie.begin()
    if paused_at in ("after send", "after commit"):
        zombie.send("status", "zombie 0")
        zombie.flush()
    if paused_at == "after commit":
        zombie.commit()
    # Here the zombie pauses, for as long as it takes the next owner to do its work.
    owner = producer_of(library)
    owner.init()
    owner.begin()
    owner.send("status", "owner")
    owner.flush()
    owner.commit()
    wait_complete(tickets)
    in_log = seen(tickets, "status", committed=False)
    with pytest.raises(Refused):
        wake(zombie, begins=paused_at in ("before begin", "after commit"))
    wanted = ["owner", "zombie 0"] if paused_at == "after commit" else ["owner"]
    assert seen(tickets, "status") == wanted
    assert seen(tickets, "status", committed=False) == in_log, "not even into the log"


@EACH
def test_with_two_transactional_ids_both_write(tickets: semel.Cluster, producer_of: MakeProducer, library: str) -> None:
    for name in ("one", "two"):
        producer = producer_of(library, name)
        producer.init()
        producer.begin()
        producer.send("status", "order 1")
        producer.flush()
        producer.commit()
        wait_complete(tickets, name)
    assert seen(tickets, "status") == ["order 1", "order 1"]

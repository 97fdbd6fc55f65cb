"""M22 Consume, process, produce: with the offsets in the transaction, results and offsets go together or not at all.

A worker takes requests from one topic, sells a seat for each and remembers how far it came. It dies at every step of
its work; another one goes on from the committed offset.

Keeps: T6 offsets of a transaction become visible with its commit and not before.
"""

from collections import Counter
from collections.abc import Callable

import pytest

import semel
from semel.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.features.producers import LIBRARIES, TransactionalProducer
from tests.features.reading import committed_offset, seen, visible, wait_complete
from tests.features.tickets import MakeProducer
from tests.support.wire import Wire

GROUP = "sellers"
REQUESTS = 12
CHUNK = 3
STEPS = ("begun", "sent", "offset sent", "committed")
EACH = pytest.mark.parametrize("library", LIBRARIES)


class Died(Exception):
    """The worker is gone."""


def ask_for_seats(producer: TransactionalProducer) -> None:
    """Fill the input topic, in a transaction of its own."""
    producer.init()
    producer.begin()
    for number in range(REQUESTS):
        producer.send("status", f"request {number}")
    producer.flush()
    producer.commit()


def commit_outside(cluster: semel.Cluster, offset: int) -> None:
    """Commit an offset without any transaction."""
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(name="status", partitions=[row])])
    with Wire.to_group(cluster, GROUP) as wire:
        answer = wire.ask(request, OffsetCommitResponse, version=8)
    assert answer.topics[0].partitions[0].error_code == 0


def work(
    cluster: semel.Cluster, seller: TransactionalProducer, dies_at: str, send_offset: Callable[[int], None]
) -> None:
    """Sell seats until there are no requests, or die in the second chunk."""
    seller.init()
    chunks = 0
    while True:
        start = max(committed_offset(cluster, GROUP, "status"), 0)
        requests = visible(cluster, "status", offset=start)[:CHUNK]
        if not requests:
            return
        chunks += 1

        def reached(step: str, chunk: int = chunks) -> None:
            if chunk == 2 and step == dies_at:
                seller.close()
                raise Died

        seller.begin()
        reached("begun")
        for request in requests:
            seller.send("seats", request)
        seller.flush()
        reached("sent")
        send_offset(start + len(requests))
        reached("offset sent")
        seller.commit()
        reached("committed")
        wait_complete(cluster)


def sell_all(
    cluster: semel.Cluster, make: Callable[[], TransactionalProducer], dies_at: str, *, inside: bool
) -> tuple[Counter[str], int]:
    """One worker dies, the next finishes; how often each request was served, and how many died."""
    deaths = 0
    for step in (dies_at, "never"):
        seller = make()

        def inside_offset(offset: int, seller: TransactionalProducer = seller) -> None:
            seller.send_offset(GROUP, "status", 0, offset)

        def outside_offset(offset: int) -> None:
            commit_outside(cluster, offset)

        try:
            work(cluster, seller, step, inside_offset if inside else outside_offset)
        except Died:
            deaths += 1
    return Counter(seen(cluster, "seats")), deaths


@pytest.mark.quick(4)
@EACH
@pytest.mark.parametrize("dies_at", STEPS)
def test_every_request_is_served_once(
    tickets: semel.Cluster, producer_of: MakeProducer, library: str, dies_at: str
) -> None:
    ask_for_seats(producer_of("confluent", "asking"))
    wait_complete(tickets, "asking")
    served, deaths = sell_all(tickets, lambda: producer_of(library), dies_at, inside=True)
    assert deaths == 1
    assert served == {f"request {number}": 1 for number in range(REQUESTS)}
    assert committed_offset(tickets, GROUP, "status") == REQUESTS


def test_with_offsets_outside_the_transaction_requests_are_lost(
    tickets: semel.Cluster, producer_of: MakeProducer
) -> None:
    ask_for_seats(producer_of("confluent", "asking"))
    wait_complete(tickets, "asking")
    served, deaths = sell_all(tickets, lambda: producer_of("confluent"), "offset sent", inside=False)
    lost = REQUESTS - len(served)
    assert (deaths, lost) == (1, CHUNK), "the offset was committed, the seats were not"


def test_with_offsets_committed_after_the_transaction_requests_are_served_twice(
    tickets: semel.Cluster, producer_of: MakeProducer
) -> None:
    ask_for_seats(producer_of("confluent", "asking"))
    wait_complete(tickets, "asking")
    for _ in range(2):  # the first worker dies between its commit and its offset; the second starts at the old one
        seller = producer_of("confluent")
        seller.init()
        seller.begin()
        for request in visible(tickets, "status", offset=max(committed_offset(tickets, GROUP, "status"), 0)):
            seller.send("seats", request)
        seller.flush()
        seller.commit()
        wait_complete(tickets)
        seller.close()
    served = Counter(seen(tickets, "seats"))
    assert served == {f"request {number}": 2 for number in range(REQUESTS)}

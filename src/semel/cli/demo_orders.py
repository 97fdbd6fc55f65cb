"""The two ends of `semel demo`: orders go in, and what came out is counted, record by record.

Counts are kept for each order and topic, not as a total: in a total a lost record and a doubled one cancel.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from semel.cli.demo_pipeline import ORDERS, PAYMENTS, SHIPMENTS
from semel.protocol.record_batch import DraftRecord, encode_batch
from semel.wire.cluster import WireCluster
from semel.wire.fetch import fetch
from semel.wire.offsets import LATEST, list_offsets
from semel.wire.produce import ProducerIdentity, send_batches
from semel.wire.settings import WireSettings
from semel.wire.topology import Isolation, TopicPartition
from semel.world.clock import RealClock

PARTITIONS = 4
BATCH_RECORDS = 500
CUSTOMERS = 100
TOPICS = tuple(f"{name}:{PARTITIONS}:1" for name in (ORDERS, PAYMENTS, SHIPMENTS))
# The input needs no idempotence: it is written while nothing is broken yet.
ANONYMOUS = ProducerIdentity(producer_id=-1, producer_epoch=-1)

Effect = tuple[str, int]  # a topic and the order that the record in it belongs to


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """What came out of one run."""

    orders_in: int
    records_out: int
    lost: int
    doubled: int
    unexpected: int
    aborted: int


def connect(bootstrap: str) -> WireCluster:
    """A client of the demo's cluster."""
    return WireCluster(WireSettings.from_options({"kafka.bootstrap.servers": bootstrap}))


def produce_orders(client: WireCluster, orders: int) -> None:
    """Write orders 0 to `orders` - 1; returns when all were acknowledged."""
    send_batches(client, _order_batches(orders), producer=ANONYMOUS, deadline=client.deadline())


def _order_batches(orders: int) -> Iterator[tuple[TopicPartition, bytes]]:
    now_ms = RealClock().wall_ms()
    for turn, first in enumerate(range(0, orders, BATCH_RECORDS)):
        drafts = [_draft(number, now_ms) for number in range(first, min(first + BATCH_RECORDS, orders))]
        yield TopicPartition(ORDERS, turn % PARTITIONS), encode_batch(drafts)


def _draft(number: int, now_ms: int) -> DraftRecord:
    customer = f"customer-{number % CUSTOMERS}"
    value = json.dumps({"id": number, "customer": customer, "cents": 100 + number % 900})
    return DraftRecord(key=customer.encode(), value=value.encode(), timestamp_ms=now_ms)


def count_effects(client: WireCluster, orders: int) -> Count:
    """Read everything that came out and hold it against what had to."""
    seen = Counter(_effects(client, Isolation.READ_COMMITTED))
    # What read_uncommitted finds beyond that was aborted.
    written = sum(1 for _ in _effects(client, Isolation.READ_UNCOMMITTED))
    return judge_effects(seen, orders=orders, written=written)


def judge_effects(seen: Counter[Effect], *, orders: int, written: int) -> Count:
    """Every order must have one payment and one shipment, and there must be nothing else."""
    wanted = {(topic, number) for topic in (PAYMENTS, SHIPMENTS) for number in range(orders)}
    return Count(
        orders_in=orders,
        records_out=seen.total(),
        lost=len(wanted - seen.keys()),
        doubled=sum(times - 1 for effect, times in seen.items() if effect in wanted),
        unexpected=sum(times for effect, times in seen.items() if effect not in wanted),
        aborted=written - seen.total(),
    )


def _effects(client: WireCluster, isolation: Isolation) -> Iterator[Effect]:
    places = [TopicPartition(topic, number) for topic in (PAYMENTS, SHIPMENTS) for number in range(PARTITIONS)]
    ends = list_offsets(client, dict.fromkeys(places, LATEST), deadline=client.deadline(), isolation=isolation)
    for place in places:
        for value in _values(client, place, ends[place].offset, isolation):
            yield place.topic, int(json.loads(value)["id"])


def _values(client: WireCluster, place: TopicPartition, end: int, isolation: Isolation) -> Iterator[bytes]:
    from semel.protocol.columns import decode_columns  # loads compiled code

    offset = 0
    while offset < end:
        answer = fetch(client, {place: offset}, deadline=client.deadline(), isolation=isolation)[place]
        decoded = decode_columns(
            answer.records,
            topic=place.topic,
            partition=place.partition,
            aborted=answer.aborted,
            read_committed=isolation is Isolation.READ_COMMITTED,
            offset_start=offset,
            offset_end=end,
        )
        offset = decoded.offset_next
        yield from (bytes(value or b"") for value in decoded.rows.column("value").to_pylist())

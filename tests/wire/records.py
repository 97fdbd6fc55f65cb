"""Batches to send and what a log then holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from semel.protocol.record_batch import DraftRecord, decode_records, encode_batch, iter_headers
from semel.wire.cluster import WireCluster
from semel.wire.fetch import fetch
from semel.wire.topology import Isolation, TopicPartition

CommonBatch = tuple[TopicPartition, bytearray]


def batch_of(values: Iterable[str], *, transactional: bool = False) -> bytearray:
    """One batch with these values."""
    drafts = [DraftRecord(key=None, value=value.encode(), timestamp_ms=1_700_000_000_000) for value in values]
    return bytearray(encode_batch(drafts, transactional=transactional))


def batches_of(
    partitions: Iterable[TopicPartition], count: int, *, transactional: bool = False, records: int = 3
) -> Iterator[CommonBatch]:
    """`count` batches for each partition, in turn."""
    places = list(partitions)
    for number in range(count):
        for place in places:
            yield place, batch_of((f"{number}.{index}" for index in range(records)), transactional=transactional)


def expected(count: int, records: int = 3) -> list[str]:
    """The values that `batches_of` gives a partition."""
    return [f"{number}.{index}" for number in range(count) for index in range(records)]


def partitions_of(topic: str, count: int = 6) -> list[TopicPartition]:
    """All partitions of a topic."""
    return [TopicPartition(topic, number) for number in range(count)]


def values_in(
    client: WireCluster, place: TopicPartition, isolation: Isolation = Isolation.READ_UNCOMMITTED
) -> list[str]:
    """Every value of a partition from offset 0 on; aborted ones too, markers not."""
    values: list[str] = []
    offset = 0
    while True:
        fetched = fetch(client, {place: offset}, deadline=client.deadline(), isolation=isolation, wait_ms_max=1)
        found = fetched[place]
        end = found.last_stable_offset if isolation is Isolation.READ_COMMITTED else found.high_watermark
        for position, header in iter_headers(found.records):
            offset = header.offset_next
            if not header.is_control:
                decoded = decode_records(found.records, header, position)
                values += [bytes(record.value or b"").decode() for record in decoded]
        if offset >= end:
            return values

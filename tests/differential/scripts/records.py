"""Produce: what is taken, what is refused and how; idempotence."""

from __future__ import annotations

import time
from struct import pack_into

from semel.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from semel.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from semel.protocol.record_batch import Codec, DraftRecord, TimestampType, encode_batch, encode_marker
from semel.protocol.record_batch import Marker as EndMarker
from tests.differential.acts import (
    NAMES_LAST,
    TIME_MS,
    batch,
    fetch,
    make_topic,
    new_producer,
    produce,
    produce_request,
    records,
    topic_id,
)
from tests.differential.talk import Talk

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS
CRC_AT, MAGIC_AT, COUNT_AT, ATTRIBUTES_AT, LENGTH_AT = 17, 16, 57, 21, 8
IDS_FIRST = 13


def acceptance(talk: Talk) -> None:
    """Plain batches, in every version and with every acks; unknown places."""
    topic = make_topic(talk, "plain", 2)
    known = topic_id(talk, topic)
    talk.each_version("one batch", ProduceResponse, produce_request(topic, batch(2), id=known))
    for acks in (-1, 1):
        produce(talk, f"acks {acks}", topic, batch(), acks=acks)
    for acks in (2, -2, 5):
        produce(talk, f"acks {acks}", topic, batch(), acks=acks)
    talk.wire().post(produce_request(topic, batch(), acks=0), version=NAMES_LAST)
    fetch(talk, "after acks 0", topic)
    unknown = talk.name("none")
    for version in talk.common(ProduceResponse):
        for name, request in (
            ("unknown topic", produce_request(unknown, batch(), id=None)),
            ("unknown partition", produce_request(topic, batch(), partition=7, id=known)),
            ("partition below zero", produce_request(topic, batch(), partition=-1, id=known)),
        ):
            talk.ask(name, request, ProduceResponse, version=version)
    rows = [PartitionProduceData(index=at, records=batch()) for at in (0, 9, 1)]
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=rows)])
    talk.ask("some partitions unknown", request, ProduceResponse, version=NAMES_LAST)
    talk.ask("no partitions", ProduceRequest(acks=-1, timeout_ms=10_000), ProduceResponse, version=NAMES_LAST)
    for codec in Codec:
        produce(talk, f"codec {codec.name}", topic, encode_batch(records(3), codec=codec), partition=1)
    fetch(talk, "all that was taken", topic)
    fetch(talk, "every codec", topic, partition=1)


def damage(talk: Talk) -> None:
    """Batches that must not enter the log, in the versions that tell more and more about why."""
    topic = make_topic(talk, "damaged")
    for version in (3, 7, 8, NAMES_LAST):
        for name, data in _damaged().items():
            produce(talk, name, topic, data, version=version)
    produce(talk, "and a good one", topic, batch())
    fetch(talk, "only the good one", topic)


def _damaged() -> dict[str, bytes | None]:
    good = batch(2)
    plain = {
        "empty": b"",
        "two batches": good + good,
        "wrong checksum": _patched(good, ">I", CRC_AT, 1),
        "magic 1": _patched(good, ">b", MAGIC_AT, 1),
        "magic 0": _patched(good, ">b", MAGIC_AT, 0),
        "magic 3": _patched(good, ">b", MAGIC_AT, 3),
        "cut short": good[:-3],
        "header only": good[:61],
        "half a header": good[:30],
        "length too small": _patched(good, ">i", LENGTH_AT, 10),
        "control batch": encode_marker(
            EndMarker.COMMIT, producer_id=5, producer_epoch=0, timestamp_ms=TIME_MS, coordinator_epoch=0
        ),
        "base offset not 0": encode_batch(records(2), base_offset=5),
        "transactional without a producer": batch(transactional=True),
        "no sequence": batch(producer=(7, 0)),
        "gaps in offsets": encode_batch(
            [DraftRecord(key=b"k", value=b"v", timestamp_ms=TIME_MS, offset_delta=delta) for delta in (0, 5)]
        ),
    }
    return dict(plain)


def _patched(data: bytes, layout: str, at: int, value: int) -> bytes:
    changed = bytearray(data)
    pack_into(layout, changed, at, value)
    return bytes(changed)


def limits(talk: Talk) -> None:
    """Sizes, timestamps and keys that a topic's settings refuse."""
    small = make_topic(talk, "small", config={"max.message.bytes": "200"})
    for size in (50, 150, 400):
        drafts = records(1, value=b"x" * size)
        for version in (7, NAMES_LAST):
            produce(talk, f"{size} bytes where 200 are allowed", small, batch(drafts=drafts), version=version)
    segment = make_topic(talk, "segment", config={"segment.bytes": "1048576"})
    produce(talk, "more than a segment", segment, batch(drafts=records(1, value=b"x" * 1_048_000)))
    compacted = make_topic(talk, "compacted", config={"cleanup.policy": "compact"})
    for version in (7, 8, NAMES_LAST):
        produce(talk, "no key on a compacted topic", compacted, batch(drafts=records(1, key=None)), version=version)
    mixed = [*records(2), *records(1, key=None), *records(1), *records(1, key=None)]
    produce(talk, "some without a key on a compacted topic", compacted, batch(drafts=mixed))
    produce(talk, "a null value on a compacted topic", compacted, batch(drafts=records(1, value=None)))
    now_ms = int(time.time() * 1000)
    any_time = make_topic(talk, "any-time")
    for name, at_ms in (("2 hours ahead", now_ms + 2 * HOUR_MS), ("long ago", 1000), ("none", -1), ("below", -5)):
        produce(talk, f"time {name}", any_time, batch(drafts=records(1, at_ms=at_ms)))
    recent = make_topic(talk, "recent", config={"message.timestamp.before.max.ms": str(HOUR_MS)})
    produce(talk, "time too old", recent, batch(drafts=records(1)))
    both = [*records(1, at_ms=now_ms), *records(1), *records(1, at_ms=now_ms), *records(1)]
    produce(talk, "some times too old", recent, batch(drafts=both))
    produce(talk, "time right", recent, batch(drafts=records(1, at_ms=now_ms)))
    odd = make_topic(talk, "odd")
    produce(
        talk, "time type set by the client", odd, encode_batch(records(), timestamp_type=TimestampType.LOG_APPEND_TIME)
    )
    stamped = make_topic(talk, "stamped", config={"message.timestamp.type": "LogAppendTime"})
    produce(talk, "broker's time", stamped, batch(drafts=records(2)))
    produce(talk, "broker's time, far ahead", stamped, batch(drafts=records(2, at_ms=TIME_MS + 10 * YEAR_MS)))
    fetch(talk, "broker's time", stamped)
    for topic in ("__consumer_offsets", "__transaction_state"):
        produce(talk, f"into {topic}", topic, batch())


def idempotence(talk: Talk) -> None:
    """Sequences and epochs: what is a duplicate, a gap, a fenced producer."""
    topic = make_topic(talk, "once")
    who = new_producer(talk)
    produce(talk, "an unknown producer starts at 5", topic, batch(producer=(who[0] + 1000, 0), sequence=5))
    produce(talk, "an unknown producer starts in epoch 3", topic, batch(producer=(who[0] + 2000, 3), sequence=0))
    _sequences(talk, topic, who, [0, 1, 1, 0, 3, 2, 3, 4, 5, 6, 7])
    _sequences(talk, topic, who, [0, 2, 3, 7, 6, 100, 2**31 - 1])
    produce(talk, "overlaps the last", topic, batch(3, producer=who, sequence=7))
    produce(talk, "three at once", topic, batch(3, producer=who, sequence=8))
    produce(talk, "three again", topic, batch(3, producer=who, sequence=8))
    produce(talk, "two of the three", topic, batch(2, producer=who, sequence=8))
    produce(talk, "old producer epoch", topic, batch(producer=(who[0] + 2000, 2), sequence=1))
    newer = (who[0], who[1] + 1)
    produce(talk, "new producer epoch, sequence 4", topic, batch(producer=newer, sequence=4))
    produce(talk, "new producer epoch, sequence 0", topic, batch(producer=newer, sequence=0))
    produce(talk, "epoch before the new one", topic, batch(producer=who, sequence=11))
    produce(talk, "new producer epoch goes on", topic, batch(producer=newer, sequence=1))
    wraps = make_topic(talk, "wraps")
    produce(talk, "near the largest sequence", wraps, batch(4, producer=who, sequence=2**31 - 2))
    produce(talk, "after the wrap", wraps, batch(producer=who, sequence=2))
    for version in talk.common(ProduceResponse)[: NAMES_LAST - 2]:
        produce(talk, "gap", topic, batch(producer=newer, sequence=50), version=version)
        produce(talk, "duplicate", topic, batch(producer=newer, sequence=1), version=version)
    fetch(talk, "all of it", topic)
    rows = [
        TopicRequest(name=topic, partition_indexes=[0, 4]),
        TopicRequest(name=talk.name("no"), partition_indexes=[0]),
    ]
    talk.ask("producers", DescribeProducersRequest(topics=rows), DescribeProducersResponse)


def _sequences(talk: Talk, topic: str, who: tuple[int, int], sequences: list[int]) -> None:
    for sequence in sequences:
        produce(talk, f"sequence {sequence}", topic, batch(producer=who, sequence=sequence))


SCRIPTS = {"acceptance": acceptance, "damage": damage, "limits": limits, "idempotence": idempotence}

"""L5: a compressed batch costs what it weighs, nothing grows beyond the limit, nothing forged is believed.

Each test sends what a hostile producer would; `good` checks before and after that everybody else is served, and how
much memory the cluster ever had.
"""

from __future__ import annotations

import time

import pytest

from semel.broker.log.inspection import COMPACTED_RECORDS_MAX
from semel.protocol.compression import Codec
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from semel.protocol.messages.fetch import FetchResponse
from semel.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from semel.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from semel.protocol.record_batch import NO_TIMESTAMP_MS, DraftRecord, encode_batch, read_header
from tests.hardening.bombs import COMPRESSED, batch_of, record
from tests.hardening.raw import RawClient
from tests.hardening.requests import FETCH_VERSION, MIB, PRODUCE_VERSION, check_served, fetch
from tests.hardening.served import ServedCluster

DAY_MS = 86_400_000
FAR_FUTURE_MS = 4_000_000_000_000
COMPACTED = "compacted"
FORGED = "forged"
GROWTH_BYTES_MAX = 120 * MIB  # one batch may grow to 32 MiB; the rest is what Python does not give back


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def make_topic(client: RawClient, name: str, **config: str) -> None:
    rows = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=rows)
    answer = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CreateTopicsResponse, 5)
    assert answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def send(client: RawClient, topic: str, batch: bytes) -> PartitionProduceResponse:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data])
    return client.ask(request, ProduceResponse, PRODUCE_VERSION).responses[0].partition_responses[0]


@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name)
def test_a_bomb_of_headers_is_refused_and_costs_little(served: ServedCluster, good: RawClient, codec: Codec) -> None:
    make_topic(good, COMPACTED, cleanup_policy="compact")
    before = served.peak_bytes()
    bomb = batch_of(record(0, headers=40 * MIB), 1, codec=codec, base_ms=now_ms())
    if len(bomb) > MIB:  # snappy does not shrink enough for that: it is looked at, and refused for want of a key
        bomb = batch_of(record(0, headers=MIB), 1, codec=codec, base_ms=now_ms())
    with RawClient(served.bootstrap) as bad:
        answer = send(bad, COMPACTED, bomb)
    assert answer.error_code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD)
    assert served.peak_bytes() - before < GROWTH_BYTES_MAX


@pytest.mark.parametrize("forged_ms", [FAR_FUTURE_MS, 1, NO_TIMESTAMP_MS], ids=["too new", "too old", "none"])
@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
def test_a_forged_time_of_the_newest_record_is_put_right(
    served: ServedCluster, good: RawClient, codec: Codec, forged_ms: int
) -> None:
    topic = f"{FORGED}-{codec.name}-{forged_ms}"
    make_topic(good, topic)
    sent_ms = now_ms()
    batch = batch_of(record(0) + record(1, time_delta_ms=5), 2, codec=codec, base_ms=sent_ms, newest_ms=forged_ms)
    answer = send(good, topic, batch)
    assert answer.error_code == ErrorCode.NONE
    found = good.ask(fetch(topic, bytes_max=MIB), FetchResponse, FETCH_VERSION)
    records = found.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert read_header(records).max_timestamp_ms == sent_ms + 5, "as Apache Kafka: the records decide"


def test_records_of_the_far_future_are_refused_by_number(served: ServedCluster, good: RawClient) -> None:
    body = record(0) + record(1, time_delta_ms=2 * DAY_MS) + record(2)
    sent_ms = now_ms()
    batch = batch_of(body, 3, codec=Codec.ZSTD, base_ms=sent_ms, newest_ms=sent_ms + 2 * DAY_MS)
    answer = send(good, "quiet", batch)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [row.batch_index for row in answer.record_errors] == [1]


def test_a_million_bad_records_are_not_all_named(served: ServedCluster, good: RawClient) -> None:
    make_topic(good, COMPACTED, cleanup_policy="compact")
    body = b"".join(record(delta) for delta in range(100_000))
    answer = send(good, COMPACTED, batch_of(body, 100_000, codec=Codec.ZSTD, base_ms=now_ms()))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [row.batch_index for row in answer.record_errors] == list(range(1000))


def test_a_batch_of_more_records_than_compaction_takes_into_memory_is_refused(
    served: ServedCluster, good: RawClient
) -> None:
    make_topic(good, COMPACTED, cleanup_policy="compact")
    body = b"".join(record(delta, key=b"k") for delta in range(COMPACTED_RECORDS_MAX + 1))
    answer = send(good, COMPACTED, batch_of(body, COMPACTED_RECORDS_MAX + 1, codec=Codec.ZSTD, base_ms=now_ms()))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert send(good, "quiet", batch_of(record(0, key=b"k"), 1, base_ms=now_ms())).error_code == ErrorCode.NONE


@pytest.mark.parametrize("damage", ["a record more", "a record less", "a byte more", "a header too many"])
def test_records_that_do_not_fit_their_header_are_refused(served: ServedCluster, good: RawClient, damage: str) -> None:
    make_topic(good, COMPACTED, cleanup_policy="compact")
    body = b"".join(record(delta, key=b"k") for delta in range(3))
    count = {"a record more": 2, "a record less": 4}.get(damage, 3)
    if damage == "a byte more":
        body += b"\0"
    if damage == "a header too many":
        body = body[:-1] + b"\x02"
    answer = send(good, COMPACTED, batch_of(body, count, codec=Codec.GZIP, base_ms=now_ms()))
    assert answer.error_code == ErrorCode.CORRUPT_MESSAGE


def test_a_good_batch_that_shrinks_well_is_taken(served: ServedCluster, good: RawClient) -> None:
    make_topic(good, COMPACTED, cleanup_policy="compact")
    rows = [DraftRecord(key=b"k", value=bytes(MIB // 2), timestamp_ms=now_ms()) for _ in range(40)]
    assert send(good, COMPACTED, encode_batch(rows, codec=Codec.ZSTD)).error_code == ErrorCode.NONE


def test_looking_for_a_time_in_a_bomb_costs_little(served: ServedCluster, good: RawClient) -> None:
    """A batch whose header raises no doubt is stored as it is; asking for a time looks into it."""
    make_topic(good, "timed")
    before = served.peak_bytes()
    sent_ms = now_ms()
    assert (
        send(good, "timed", batch_of(record(0, headers=40 * MIB), 1, codec=Codec.ZSTD, base_ms=sent_ms)).error_code == 0
    )
    many = b"".join(record(delta) for delta in range(50_000))
    assert send(good, "timed", batch_of(many, 50_000, codec=Codec.ZSTD, base_ms=sent_ms + 9)).error_code == 0
    row = ListOffsetsPartition(partition_index=0, timestamp=sent_ms + 5)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="timed", partitions=[row])])
    with RawClient(served.bootstrap) as bad:
        found = bad.ask(request, ListOffsetsResponse, 7).topics[0].partitions[0]
    assert (found.offset, found.timestamp) == (1, sent_ms + 9)
    assert served.peak_bytes() - before < GROWTH_BYTES_MAX
    check_served(good)

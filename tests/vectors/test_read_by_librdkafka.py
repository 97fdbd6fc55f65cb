"""librdkafka reads batches that semel encoded: they are put into a log as they are, and read with confluent-kafka."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Consumer, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

import semel
from semel.protocol.compression import Codec
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import DraftRecord, encode_batch
from tests.support.stored import append_batch
from tests.support.topics import create_topic
from tests.support.waiting import eventually
from tests.vectors.cases import CODECS, HEADERS, LARGE, MANY, MIXED, NULLS, SPANNING, TIMES, Json, unpack

Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
READ_S = 0.5
# Any time will do, the far future too.
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
CASES = {
    "mixed": MIXED,
    "nulls": NULLS,
    "headers": HEADERS,
    "times": TIMES,
    "many": MANY,
    "large": LARGE,
    "spanning": SPANNING,
}

payloads = st.none() | st.binary(max_size=200)
# Names end at the first zero byte in librdkafka.
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
headers = st.lists(st.tuples(names, st.none() | st.binary(max_size=8)), max_size=3)
drafts = st.builds(
    DraftRecord,
    key=payloads,
    value=payloads,
    timestamp_ms=st.integers(0, 2**45),
    headers=headers.map(tuple),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture(scope="module")
def consumer(cluster: semel.Cluster) -> Iterator[Consumer]:
    settings = {"group.id": "not used", "enable.auto.commit": False, "auto.offset.reset": "error", "log_level": 2}
    # An assignment begins after the answer to the last fetch of the one before.
    opened = Consumer({"bootstrap.servers": cluster.bootstrap, "fetch.wait.max.ms": 5, **settings})
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def topic(cluster: semel.Cluster) -> str:
    """One for all: librdkafka takes a second to learn of a new topic."""
    create_topic(cluster, "vectors", config=ANY_TIME)
    return "vectors"


@pytest.fixture(scope="module")
def stamped_topic(cluster: semel.Cluster) -> str:
    create_topic(cluster, "stamped", config={**ANY_TIME, "message.timestamp.type": "LogAppendTime"})
    return "stamped"


def draft(record: Json) -> DraftRecord:
    pairs = tuple((name, unpack(content)) for name, content in record["headers"])
    return DraftRecord(
        key=unpack(record["key"]), value=unpack(record["value"]), timestamp_ms=record["timestamp_ms"], headers=pairs
    )


def append(cluster: semel.Cluster, topic: str, batch: bytes) -> int:
    answer = append_batch(cluster, topic, batch)
    assert answer.error_code == ErrorCode.NONE, answer
    return answer.base_offset


def read(consumer: Consumer, topic: str, offset: int, wanted: int) -> list[Any]:
    consumer.assign([TopicPartition(topic, 0, offset)])
    messages: list[Any] = []

    def enough() -> bool:
        messages.extend(consumer.consume(wanted - len(messages), READ_S))
        return len(messages) >= wanted

    eventually(enough, what=f"{wanted} records")
    assert [message.error() for message in messages] == [None] * wanted
    return messages


def rows(messages: list[Any]) -> list[Row]:
    return [
        (one.offset(), one.timestamp()[1], one.key(), one.value(), [tuple(pair) for pair in one.headers() or ()])
        for one in messages
    ]


def wanted_rows(records: list[DraftRecord], offset: int) -> list[Row]:
    return [
        (offset + number, one.timestamp_ms, one.key, one.value, list(one.headers)) for number, one in enumerate(records)
    ]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", CASES)
def test_each_case_in_each_codec(cluster: semel.Cluster, consumer: Consumer, topic: str, name: str, codec: str) -> None:
    records = [draft(record) for record in CASES[name]]
    offset = append(cluster, topic, encode_batch(records, codec=Codec[codec.upper()]))
    messages = read(consumer, topic, offset, len(records))
    assert rows(messages) == wanted_rows(records, offset)
    assert {one.timestamp()[0] for one in messages} == {TIMESTAMP_CREATE_TIME}


@pytest.mark.parametrize("codec", CODECS)
def test_the_log_s_own_time(cluster: semel.Cluster, consumer: Consumer, stamped_topic: str, codec: str) -> None:
    """The broker stamps the batch; what the records said is not to be seen."""
    records = [draft(record) for record in TIMES]
    answer = append_batch(cluster, stamped_topic, encode_batch(records, codec=Codec[codec.upper()]))
    messages = read(consumer, stamped_topic, answer.base_offset, len(records))
    assert {one.timestamp() for one in messages} == {(TIMESTAMP_LOG_APPEND_TIME, answer.log_append_time_ms)}
    assert [one.key() for one in messages] == [one.key for one in records]


def test_a_batch_whose_sequence_wraps(cluster: semel.Cluster, consumer: Consumer, topic: str) -> None:
    records = [draft(record) for record in MIXED]
    batch = encode_batch(records, producer_id=9_000_000_000, producer_epoch=3, base_sequence=2**31 - 2)
    offset = append(cluster, topic, batch)
    assert rows(read(consumer, topic, offset, len(records))) == wanted_rows(records, offset)


@given(records=st.lists(drafts, min_size=1, max_size=8), codec=st.sampled_from(Codec))
def test_any_batch(
    cluster: semel.Cluster, consumer: Consumer, topic: str, records: list[DraftRecord], codec: Codec
) -> None:
    offset = append(cluster, topic, encode_batch(records, codec=codec))
    assert rows(read(consumer, topic, offset, len(records))) == wanted_rows(records, offset)

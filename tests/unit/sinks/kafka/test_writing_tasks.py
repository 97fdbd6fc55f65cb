"""The tasks' half without Spark: Arrow batches in, records on an embedded cluster, reports back."""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import semel
from semel.broker.runtime.intercept import AnswerError, DropResponse, Seen
from semel.errors import BrokerError, ConfigError, FencedError, SinkError
from semel.protocol.compression import Codec
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.init_producer_id import InitProducerIdRequest
from semel.sinks.base import arrow_schema
from semel.sinks.kafka import arrivals
from semel.sinks.kafka.arrivals import SUMMARY
from semel.sinks.kafka.rows import (
    ENCODED,
    PIECE_BYTES,
    RowWriter,
    encode_rows,
    produce_encoded,
    write_source,
    write_spread,
)
from semel.sinks.kafka.session import KafkaSession
from semel.sinks.kafka.sink import KafkaOutput
from semel.sinks.kafka.stages import ANONYMOUS
from semel.sinks.kafka.targets import Targets
from semel.wire.produce import ProducerIdentity
from tests.spark.sink_jobs import Got, read_all
from tests.support.murmur2 import partition_of
from tests.support.topics import create_topic
from tests.support.waiting import eventually

_names = count()
START_MS = 1_700_000_000_123
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=2, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture
def topic(cluster: semel.Cluster) -> str:
    name = f"tasks-{next(_names)}"
    create_topic(cluster, name, partitions=3)
    return name


@pytest.fixture
def writer(cluster: semel.Cluster, topic: str) -> RowWriter:
    """Without a transaction, so that what is written can be read at once."""
    return RowWriter(
        wire=KafkaOutput(cluster.bootstrap, topic).wire,
        targets=Targets.of({topic: 3}),
        writers=2,
        micro_batch_id=0,
        producer=ANONYMOUS,
        codec=Codec.NONE,
        batch_bytes_max=1_000_000,
        deadline_ms=20_000,
    )


def rows(numbers: range, **more: Any) -> pa.RecordBatch:
    keys = pa.array([b"key %d" % (number % 5) for number in numbers])
    return pa.RecordBatch.from_pydict({"key": keys, "value": pa.array([b"%d" % one for one in numbers]), **more})


def report(found: Iterator[pa.RecordBatch]) -> tuple[dict[int, int], int]:
    """Records per target, and how many rows were encoded."""
    lines = [line for batch in found for line in batch.to_pylist()]
    targets = {line["target"]: line["records"] for line in lines if line["target"] != SUMMARY}
    return targets, sum(line["records"] for line in lines if line["target"] == SUMMARY)


def shuffled(writer: RowWriter, *tasks: list[pa.RecordBatch]) -> list[list[pa.RecordBatch]]:
    """What a shuffle does: rows go to the writer that their first column names."""
    found = [batch for task, batches in enumerate(tasks) for batch in encode_rows(writer, task, batches)]
    lines = pa.Table.from_batches(found, schema=arrow_schema(ENCODED))
    split = [[], []]  # type: list[list[pa.RecordBatch]]
    for batch in lines.to_batches():
        for index in range(batch.num_rows):
            split[batch.column(0)[index].as_py()].append(batch.slice(index, 1))
    return split


def values(found: list[Got]) -> list[int]:
    return sorted(int(one.value or b"-1") for one in found)


@pytest.mark.parametrize("codec", list(Codec))
def test_keyed(cluster: semel.Cluster, topic: str, writer: RowWriter, codec: Codec) -> None:
    writer = pickle.loads(pickle.dumps(replace(writer, codec=codec)))
    parts = shuffled(writer, [rows(range(40))], [rows(range(40, 70)), rows(range(70, 100))])
    reports = [report(produce_encoded(writer, task, part)) for task, part in enumerate(parts)]
    assert sum(encoded for _, encoded in reports) == 100
    assert sum(sum(targets.values()) for targets, _ in reports) == 100
    assert {target % 2 for target in reports[1][0]} <= {1}
    found = read_all(cluster.bootstrap, topic)
    assert values(found) == list(range(100))
    assert all(one.partition == partition_of(one.key or b"", 3) for one in found)


def test_keyed_keeps_the_order_of_a_task(cluster: semel.Cluster, topic: str, writer: RowWriter) -> None:
    writer = replace(writer, batch_bytes_max=200)
    for task, part in enumerate(shuffled(writer, [rows(range(100))])):
        report(produce_encoded(writer, task, part))
    found = sorted(read_all(cluster.bootstrap, topic), key=lambda one: (one.partition, one.offset))
    for partition in range(3):
        stood = [int(one.value or b"-1") for one in found if one.partition == partition]
        assert stood == sorted(stood)


@pytest.mark.parametrize("held_bytes_max", [0, 1 << 20])
@pytest.mark.parametrize("order", [(2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_keyed_keeps_the_order_of_the_tasks(
    monkeypatch: pytest.MonkeyPatch,
    cluster: semel.Cluster,
    writer: RowWriter,
    order: tuple[int, ...],
    held_bytes_max: int,
) -> None:
    """A shuffle may bring the output of the tasks in any order; what comes too early is kept aside."""
    monkeypatch.setattr(arrivals, "HELD_BYTES_MAX", held_bytes_max)
    writer = replace(writer, batch_bytes_max=200)
    encoded = [list(encode_rows(writer, task, [rows(range(task * 50, task * 50 + 50))])) for task in range(3)]
    for part in range(2):
        brought = [batch for task in order for batch in _to(part, encoded[task])]
        report(produce_encoded(writer, part, brought))
    found = sorted(read_all(cluster.bootstrap, *writer.targets.topics), key=lambda one: (one.partition, one.offset))
    assert values(found) == list(range(150))
    for partition in range(3):
        stood = [int(one.value or b"-1") for one in found if one.partition == partition]
        assert stood == sorted(stood)


def _to(part: int, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    ones = [batch.slice(index, 1) for batch in batches for index in range(batch.num_rows)]
    return [one for one in ones if one.column(0)[0].as_py() == part]


def test_a_shuffle_that_changes_the_order_is_noticed(writer: RowWriter) -> None:
    writer = replace(writer, batch_bytes_max=200)
    parts = shuffled(writer, [rows(range(100))])
    backwards = [batch for batch in reversed(parts[0]) if batch.column(1)[0].as_py() != SUMMARY]
    assert len(backwards) > 2
    with pytest.raises(SinkError, match="the shuffle brought batch"):
        list(produce_encoded(writer, 0, backwards))


def large(cluster: semel.Cluster, writer: RowWriter) -> tuple[RowWriter, list[pa.RecordBatch]]:
    """A batch in many pieces, and its writer."""
    name = f"tasks-{next(_names)}"
    create_topic(cluster, name, partitions=1)
    writer = replace(writer, targets=Targets.of({name: 1}), writers=1)
    values = pa.array([bytes([number]) * 1_000 for number in range(50)])
    (encoded, end) = encode_rows(writer, 0, [pa.RecordBatch.from_pydict({"value": values})])
    assert encoded.num_rows == -(-encoded["total"][0].as_py() // PIECE_BYTES) > 20
    return writer, [encoded, end]


@pytest.mark.parametrize("pieces_at_once", [1, 7, 1_000])
@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_a_batch_crosses_the_shuffle_in_pieces(
    cluster: semel.Cluster, writer: RowWriter, pieces_at_once: int, kind: pa.DataType
) -> None:
    writer, (encoded, end) = large(cluster, writer)
    table = pa.Table.from_batches([encoded, end])
    table = table.set_column(5, "piece", table["piece"].cast(kind)).combine_chunks()
    brought = table.to_batches(max_chunksize=pieces_at_once)
    assert report(produce_encoded(writer, 0, brought)) == ({0: 50}, 50)
    found = read_all(cluster.bootstrap, *writer.targets.topics)
    assert [one.value for one in sorted(found, key=lambda one: one.offset)] == [
        bytes([number]) * 1_000 for number in range(50)
    ]


def test_pieces_that_do_not_belong_together_are_noticed(cluster: semel.Cluster, writer: RowWriter) -> None:
    writer, (encoded, end) = large(cluster, writer)
    other = encoded.set_column(3, "number", pa.array([9] * encoded.num_rows, pa.int64()))
    with pytest.raises(SinkError, match="batch 9 of task 0 in the middle of batch 0 of task 0"):
        list(produce_encoded(writer, 0, [encoded.slice(0, 5), other]))
    with pytest.raises(SinkError, match="did not bring all of batch 0"):
        list(produce_encoded(writer, 0, [encoded.slice(0, 5), end]))
    with pytest.raises(SinkError, match="more than all of batch 0"):
        list(produce_encoded(writer, 0, [encoded.slice(0, 5), encoded]))
    assert read_all(cluster.bootstrap, *writer.targets.topics) == []


def test_an_empty_task_reports_nothing(writer: RowWriter) -> None:
    (ends,) = encode_rows(writer, 0, [])
    assert {(line["target"], line["total"], line["piece"]) for line in ends.to_pylist()} == {(SUMMARY, 0, b"")}
    for write in (produce_encoded, write_spread, write_source):
        assert report(write(writer, 0, iter(()))) == ({}, 0)


@pytest.mark.parametrize("micro_batch_id", [0, 1, 2])
def test_spread_each_task_has_a_partition_of_its_own(
    cluster: semel.Cluster, topic: str, writer: RowWriter, micro_batch_id: int
) -> None:
    writer = replace(writer, micro_batch_id=micro_batch_id)
    reports = [report(write_spread(writer, task, [rows(range(task * 10, task * 10 + 10))])) for task in (0, 1)]
    chosen = [(task + 2 * micro_batch_id) % 3 for task in (0, 1)]
    assert reports == [({target: 10}, 10) for target in chosen]
    found = read_all(cluster.bootstrap, topic)
    assert values(found) == list(range(20))
    assert {one.partition for one in found} == set(chosen)


def keyed(writer: RowWriter, task: int, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Both stages, with a shuffle that leaves everything in its place."""
    return produce_encoded(replace(writer, writers=1), task, encode_rows(replace(writer, writers=1), 0, batches))


@pytest.mark.parametrize("write", [write_spread, write_source, keyed])
def test_tasks_say_how_large_their_largest_row_was(writer: RowWriter, write: Any) -> None:
    columns = {"key": pa.array([b"k", None, b"key"]), "value": pa.array([b"12345", b"1" * 40, None])}
    batch = pa.RecordBatch.from_pydict(columns)
    headers = pa.array([None, None, None], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    said = [
        [line["row_bytes_max"] for one in write(writer, task, [batch]) for line in one.to_pylist()]
        for task, batch in enumerate((batch, pa.RecordBatch.from_pydict(columns | {"headers": headers})))
    ]
    assert [max(one) for one in said] == [43, 0]


def test_source_rows_keep_their_partition(cluster: semel.Cluster, topic: str, writer: RowWriter) -> None:
    partitions = pa.array([number % 3 for number in range(30)], pa.int32())
    assert report(write_source(writer, 0, [rows(range(30), partition=partitions)])) == ({0: 10, 1: 10, 2: 10}, 30)
    found = read_all(cluster.bootstrap, topic)
    assert values(found) == list(range(30))
    assert all(int(one.value or b"-1") % 3 == one.partition for one in found)


def test_nulls_headers_and_times(cluster: semel.Cluster, topic: str, writer: RowWriter) -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([None, b""], pa.binary()),
            "value": pa.array([b"", None], pa.binary()),
            "headers": pa.array([[("a", b"1"), ("a", None)], None], HEADERS),
            "timestamp": pa.array([START_MS * 1000 + 999, None], pa.timestamp("us", tz="UTC")),
        }
    )
    report(write_spread(writer, 0, [batch]))
    first, second = sorted(read_all(cluster.bootstrap, topic), key=lambda one: one.offset)
    assert (first.key, first.value, first.timestamp_ms) == (None, b"", START_MS)
    assert first.headers == (("a", b"1"), ("a", None))
    assert (second.key, second.value, second.headers) == (b"", None, ())
    assert second.timestamp_ms > START_MS


def test_several_topics(cluster: semel.Cluster, topic: str, writer: RowWriter) -> None:
    other = f"tasks-{next(_names)}"
    create_topic(cluster, other, partitions=2)
    writer = replace(writer, targets=Targets.of({topic: 3, other: 2}))
    topics = pa.array([topic, other] * 10)
    assert report(write_spread(writer, 1, [rows(range(20), topic=topics)])) == ({1: 10, 4: 10}, 20)
    assert values(read_all(cluster.bootstrap, other)) == list(range(1, 20, 2))


def test_a_record_above_the_limit(cluster: semel.Cluster, writer: RowWriter) -> None:
    name = f"tasks-{next(_names)}"
    create_topic(cluster, name, config={"max.message.bytes": "1000"})
    writer = replace(writer, targets=Targets.of({name: 1}), writers=1)
    big = pa.RecordBatch.from_pydict({"value": [b"x" * 2_000]})
    with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
        list(write_spread(writer, 0, [big]))


# --- with a transaction, as a driver owns it


Open = Callable[[], tuple[KafkaSession, ProducerIdentity]]


@pytest.fixture
def opened(cluster: semel.Cluster, topic: str) -> Open:
    pipeline = f"pipeline-{next(_names)}"

    def open_session() -> tuple[KafkaSession, ProducerIdentity]:
        session = KafkaOutput(cluster.bootstrap, topic).open(pipeline)
        return session, session.own()

    return open_session


def test_rows_of_a_fenced_driver_are_refused(
    cluster: semel.Cluster, topic: str, writer: RowWriter, opened: Open
) -> None:
    older, old = opened()
    older.begin()
    opened()
    with pytest.raises(FencedError):
        list(write_spread(replace(writer, producer=old), 0, [rows(range(3))]))
    with pytest.raises(FencedError):
        older.own()
    assert read_all(cluster.bootstrap, topic, isolation="read_uncommitted") == []


def test_a_driver_that_was_not_told_of_its_own_epoch(cluster: semel.Cluster, opened: Open) -> None:
    """The answer was lost, and whoever replaced the coordinator knows no better than that the epoch is old."""
    session, _ = opened()

    def asks(seen: Seen) -> bool:
        return isinstance(seen.request, InitProducerIdRequest) and seen.request.transactional_id == session.pipeline

    lost = cluster.intercept("InitProducerId", DropResponse(), where=asks)
    fenced = AnswerError(code=ErrorCode.PRODUCER_FENCED)
    refused = cluster.intercept("InitProducerId", fenced, times=None, where=asks)
    with pytest.raises(FencedError, match="or this one did so itself") as raised:
        session.own()
    cluster.disarm()
    assert lost.fired
    assert refused.fired
    assert "start the query again" in (raised.value.because or "")
    opened()


def test_a_driver_that_slept_through_its_timeout_does_not_fence_a_newer_one(cluster: semel.Cluster, topic: str) -> None:
    """The older one's own clock says "timed out", so it would take over again; the coordinator says who did."""
    pipeline = f"pipeline-{next(_names)}"
    older = KafkaOutput(cluster.bootstrap, topic, transaction_timeout_ms=1).open(pipeline)
    older.own()
    older.begin()
    eventually(lambda: older.has_timed_out, what="the limit is over")
    newer = KafkaOutput(cluster.bootstrap, topic).open(pipeline)
    newer.own()
    newer.begin()
    with pytest.raises(FencedError, match="a newer driver has taken over"):
        older.own()
    newer.commit()


def test_a_driver_whose_transaction_timed_out_takes_over_again(cluster: semel.Cluster, topic: str) -> None:
    session = KafkaOutput(cluster.bootstrap, topic, transaction_timeout_ms=1).open(f"pipeline-{next(_names)}")
    first = session.own()
    session.begin()
    eventually(lambda: session.has_timed_out, what="the limit is over")
    session.abort()
    second = session.own()
    assert second.producer_epoch > first.producer_epoch
    assert not session.has_timed_out


def test_a_driver_that_rested_between_micro_batches_has_not_timed_out(cluster: semel.Cluster, topic: str) -> None:
    pipeline = f"pipeline-{next(_names)}"
    older = KafkaOutput(cluster.bootstrap, topic, transaction_timeout_ms=1).open(pipeline)
    older.own()
    KafkaOutput(cluster.bootstrap, topic).open(pipeline).own()
    assert not older.has_timed_out
    with pytest.raises(FencedError):
        older.own()


def test_an_unknown_output_topic(cluster: semel.Cluster) -> None:
    with pytest.raises(ConfigError, match="the output topic 'nowhere' does not exist"):
        KafkaOutput(cluster.bootstrap, "nowhere").open("p")


def test_a_timeout_above_the_brokers_limit(cluster: semel.Cluster, topic: str) -> None:
    session = KafkaOutput(cluster.bootstrap, topic, transaction_timeout_ms=900_001).open(f"pipeline-{next(_names)}")
    with pytest.raises(BrokerError, match="INVALID_TRANSACTION_TIMEOUT") as caught:
        session.own()
    assert "transaction.max.timeout.ms" in caught.value.next_command

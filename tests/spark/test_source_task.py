"""A task reading its ranges, without Spark around it: faults on the way, bounds, joins."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import semel
from semel.broker.runtime.intercept import AnswerError, Delay, DropRequest
from semel.errors import SemelError
from semel.protocol.error_codes import ErrorCode
from semel.spark import task as task_module
from semel.spark.data_loss import DataLossError
from semel.spark.hanging import STANDS_STILL_MS, HangingWatch
from semel.spark.options import SourceOptions
from semel.spark.ranges import OffsetRange
from semel.spark.sizes import RecordSizes
from semel.spark.source import SemelBatchReader, TaskPartition
from semel.spark.task import read_ranges
from semel.spark.view import KafkaView
from semel.wire.topology import TopicPartition
from tests.clients.drivers.confluent import ConfluentDriver
from tests.clients.drivers.interface import Endpoint
from tests.spark.source_topics import fill, new_topic, options, producer, send


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=3, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture(autouse=True)
def _no_faults(cluster: semel.Cluster) -> Iterator[None]:
    yield
    cluster.disarm()


@pytest.fixture
def topic(cluster: semel.Cluster) -> str:
    name = new_topic(cluster)
    fill(cluster, name, 60)
    return name


def parsed(cluster: semel.Cluster, topic: str, **more: str) -> SourceOptions:
    return SourceOptions.parse(options(cluster, topic, **more), streaming=False)


def whole(topic: str, count: int = 20) -> list[OffsetRange]:
    return [OffsetRange(topic, number, 0, count) for number in range(3)]


def offsets(batches: Iterator[pa.RecordBatch]) -> list[tuple[int, int]]:
    rows = [row for one in batches for row in one.to_pylist()]
    return [(row["partition"], row["offset"]) for row in rows]


ALL = sorted((partition, offset) for partition in range(3) for offset in range(20))


def test_several_ranges_of_one_partition_come_in_order(cluster: semel.Cluster, topic: str) -> None:
    ranges = [OffsetRange(topic, 0, 15, 18), OffsetRange(topic, 0, 2, 4), OffsetRange(topic, 1, 0, 1)]
    found = offsets(read_ranges(ranges, {}, parsed(cluster, topic)))
    assert [offset for partition, offset in found if partition == 0] == [2, 3, 15, 16, 17]
    assert [offset for partition, offset in found if partition == 1] == [0]


def test_small_results_are_joined(cluster: semel.Cluster, topic: str) -> None:
    assert len(list(read_ranges(whole(topic), {}, parsed(cluster, topic)))) == 1


def test_large_results_are_cut(cluster: semel.Cluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_module, "YIELD_BYTES_MAX", 500)
    batches = list(read_ranges(whole(topic), {}, parsed(cluster, topic)))
    assert len(batches) > 3
    assert sorted(offsets(iter(batches))) == ALL


def test_a_batch_larger_than_the_fetch_limit_is_read(cluster: semel.Cluster, topic: str) -> None:
    small = parsed(cluster, topic, kafka__max__partition__fetch__bytes="1", kafka__fetch__max__bytes="1")
    assert sorted(offsets(read_ranges(whole(topic), {}, small))) == ALL


@pytest.mark.parametrize(
    "action",
    [
        DropRequest(),
        AnswerError(code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Delay(ms=50),
    ],
)
def test_a_fault_on_the_way_is_healed(
    cluster: semel.Cluster, topic: str, action: DropRequest | AnswerError | Delay
) -> None:
    hook = cluster.intercept("Fetch", action, times=2)
    assert sorted(offsets(read_ranges(whole(topic), {}, parsed(cluster, topic)))) == ALL
    assert hook.fired == 2


def test_a_range_that_brings_nothing_is_an_error(cluster: semel.Cluster, topic: str) -> None:
    short = parsed(cluster, topic, kafka__default__api__timeout__ms="700", kafka__request__timeout__ms="600")
    with pytest.raises(SemelError, match=r"no record came at offset 20 of a range that ends at 25"):
        list(read_ranges([OffsetRange(topic, 0, 18, 25)], {}, short))


def test_records_deleted_after_planning(cluster: semel.Cluster, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    driver = ConfluentDriver(Endpoint(bootstrap=cluster.bootstrap))
    driver.delete_records(topic, 0, 5)
    with pytest.raises(DataLossError, match=f"{topic} partition 0: wanted offset 0, the next is 5"):
        list(read_ranges(whole(topic), {}, parsed(cluster, topic)))
    lossy = parsed(cluster, topic, failOnDataLoss="false")
    assert sorted(offsets(read_ranges(whole(topic), {}, lossy))) == [pair for pair in ALL if pair[0] or pair[1] >= 5]
    assert "DeleteRecords moved the start of the log to 5" in caplog.text


def test_a_range_behind_the_end_of_the_log(cluster: semel.Cluster, topic: str) -> None:
    beyond = [OffsetRange(topic, 0, 50, 60), OffsetRange(topic, 1, 0, 2)]
    with pytest.raises(DataLossError, match="the log was cut: it ends at 20"):
        list(read_ranges(beyond, {}, parsed(cluster, topic)))
    lossy = parsed(cluster, topic, failOnDataLoss="false")
    assert offsets(read_ranges(beyond, {}, lossy)) == [(1, 0), (1, 1)]


def test_a_topic_recreated_after_planning(cluster: semel.Cluster, topic: str) -> None:
    strict, lossy = (
        SemelBatchReader(parsed(cluster, topic, failOnDataLoss=fail)).partitions()[0] for fail in ("true", "false")
    )
    assert isinstance(strict, TaskPartition)
    assert isinstance(lossy, TaskPartition)
    driver = ConfluentDriver(Endpoint(bootstrap=cluster.bootstrap))
    driver.delete(topic)
    driver.create(topic, 3, {})
    fill(cluster, topic, 60)
    with pytest.raises(DataLossError, match="created again"):
        list(strict.read())
    assert list(lossy.read()) == []


def test_a_consumer_that_stops_early(cluster: semel.Cluster, topic: str) -> None:
    """As LIMIT does: the next task of the same worker is not disturbed."""
    given = parsed(cluster, topic, kafka__max__partition__fetch__bytes="1", kafka__fetch__max__bytes="1")
    reader = read_ranges(whole(topic), {}, given)
    next(reader)
    reader.close()  # type: ignore[attr-defined]
    assert sorted(offsets(read_ranges(whole(topic), {}, given))) == ALL


def test_record_sizes_come_from_the_log(cluster: semel.Cluster) -> None:
    topic = new_topic(cluster, partitions=1)
    client = producer(cluster)
    for _ in range(20):
        client.produce(topic, value=b"x" * 3000, partition=0)
    assert client.flush(30) == 0
    given = parsed(cluster, topic)
    found = RecordSizes(given).of([OffsetRange(topic, 0, 0, 20)])
    assert 3000 < found[topic] < 3200


def test_a_dead_leader_holds_up_only_its_own_partitions(tmp_path: Path) -> None:
    config = {"log.retention.ms": "-1"}
    with semel.Cluster(brokers=3, data=tmp_path, config=config) as own:
        topic = new_topic(own)
        fill(own, topic, 60)
        view = KafkaView(parsed(own, topic))
        leaders = {number: info.leader for number, info in view.topics()[topic].partitions.items()}
        own.kill(leaders[1])
        seen = view.look()
        dead = {TopicPartition(topic, number) for number, leader in leaders.items() if leader == leaders[1]}
        assert set(seen.silent) == dead
        assert {place: one.offset for place, one in seen.latest.items()} == {
            TopicPartition(topic, number): 20 for number in range(3) if TopicPartition(topic, number) not in dead
        }
        view.cluster.close()


def test_the_owner_of_a_hanging_transaction_is_named(
    cluster: semel.Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = producer(cluster, transactional_id=f"{topic}-hangs")
    client.init_transactions(30)
    client.begin_transaction()
    send(client, topic, range(60, 63))
    assert client.flush(30) == 0
    given = SourceOptions.parse(options(cluster, topic), streaming=True)
    view = KafkaView(given)
    now = [0.0]
    watch = HangingWatch(given, view, lambda: now[0])
    place = TopicPartition(topic, 0)
    for moment in (0.0, STANDS_STILL_MS):
        now[0] = moment
        watch.look(view.latest([place]))
    client.abort_transaction(30)
    assert f"{topic}-0: an open transaction of producer id" in caplog.text
    assert "at offset 20 while the log ends at 21" in caplog.text

"""How much a task decodes at once: a piece of a fetch, however well its records were compressed."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

import semel
from semel.broker.runtime.intercept import Delay
from semel.spark import task as task_module
from semel.spark.options import SourceOptions
from semel.spark.ranges import OffsetRange
from semel.spark.task import read_ranges
from tests.spark.source_topics import PRODUCE_S_MAX, new_topic, options, producer

BATCHES = 20
RECORD_BYTES = 40_000
ENOUGH = 3 * RECORD_BYTES


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture
def topic(cluster: semel.Cluster) -> str:
    """Batches of one record each, all alike inside: the whole topic is fetched with one request."""
    name = new_topic(cluster, partitions=2)
    client = producer(cluster, compression_type="zstd", batch_num_messages=1)
    for number in range(2 * BATCHES):
        client.produce(name, value=b"x" * RECORD_BYTES, partition=number % 2)
    assert client.flush(PRODUCE_S_MAX) == 0
    return name


@pytest.fixture
def decoded_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What each step had in its hands at once."""
    sizes: list[int] = []
    original = task_module._RangeReader._step

    def step(reader: task_module._RangeReader) -> list[pa.RecordBatch]:
        rows = original(reader)
        sizes.append(sum(one.nbytes for one in rows))
        return rows

    monkeypatch.setattr(task_module._RangeReader, "_step", step)
    return sizes


def test_a_fetch_is_decoded_a_piece_at_a_time(
    cluster: semel.Cluster, topic: str, decoded_bytes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_module, "DECODED_BYTES_ENOUGH", ENOUGH)
    fetches = cluster.intercept("Fetch", Delay(ms=0), times=None, where=lambda seen: seen.client_id == "semel")
    parsed = SourceOptions.parse(options(cluster, topic), streaming=False)
    ranges = [OffsetRange(topic, number, 0, BATCHES) for number in range(2)]
    rows = [row for one in read_ranges(ranges, {}, parsed) for row in one.to_pylist()]
    cluster.disarm(fetches)
    for partition in range(2):
        assert [row["offset"] for row in rows if row["partition"] == partition] == list(range(BATCHES))
    assert fetches.fired == 1
    assert len(decoded_bytes) > 2 * BATCHES * RECORD_BYTES // (ENOUGH + 2 * RECORD_BYTES)
    assert max(decoded_bytes) < ENOUGH + 2 * RECORD_BYTES

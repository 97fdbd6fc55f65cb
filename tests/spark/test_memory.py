"""More than a gigabyte in one micro-batch, with every Python worker held to 512 MB by the kernel.

Executors and driver have JVM heaps of 512 MB each. The full tier has three million records of 360 bytes, a soak ten
million of 110: as many bytes, in more than three times as many rows. What every process held at most is printed:

    make soak PYTEST_ARGS=tests/spark/test_memory.py
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

import semel
from semel.protocol.arrow_types import ArrowArray, buffer_of
from semel.protocol.columns import encode_columns
from semel.protocol.compression import Codec
from semel.sinks.kafka.stages import ANONYMOUS
from semel.wire.cluster import shared_cluster
from semel.wire.produce import Batch, send_batches
from semel.wire.settings import WireSettings
from semel.wire.topology import TopicPartition
from tests.spark.limited_daemon import DATA_BYTES_MAX
from tests.spark.matrix.cells import LOCAL_CLUSTER
from tests.spark.matrix.drivers import SHOWN_CHARACTERS_MAX, Driven, kill_group
from tests.spark.process_memory import MemoryWatch, Process
from tests.spark.sink_jobs import new_topics

AT_ONCE = 200_000
KEYS = 10_000
COPY_S_MAX = 900
FILL_MS_MAX = 300_000
DAEMON = "tests.spark.limited_daemon"
MB_MAX = DATA_BYTES_MAX >> 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


@dataclass(frozen=True, slots=True)
class Load:
    """How much there is to copy."""

    records: int
    value_bytes: int


FEWER, MORE = Load(3_000_000, 350), Load(10_000_000, 100)


@dataclass(frozen=True, slots=True)
class Source:
    """A topic with all the records, and what is in it."""

    topic: str
    load: Load
    content: Row


@pytest.fixture(scope="module")
def source(request: pytest.FixtureRequest, spark: SparkSession, cluster: semel.Cluster) -> Source:
    load: Load = request.param
    (topic,) = new_topics(cluster.bootstrap, 2)
    fill(cluster.bootstrap, topic, load)
    given = content(spark, cluster.bootstrap, topic)
    assert given.records == load.records
    return Source(topic, load, given)


@pytest.fixture
def pipeline(cluster: semel.Cluster, source: Source, tmp_path: Path) -> Driven:
    """Copies them with two executors, each with one task at a time."""
    made = Driven(folder=tmp_path, bootstrap=cluster.bootstrap, numbers=range(0))
    made.source = source.topic
    made.settings = {
        "master": LOCAL_CLUSTER,
        "per_trigger": source.load.records,
        "conf": {"spark.python.daemon.module": DAEMON, "spark.sql.execution.arrow.maxRecordsPerBatch": "50000"},
    }
    return made


Numbers = npt.NDArray[np.int64]
Cells = npt.NDArray[np.uint8]


def text_column(numbers: Numbers, width: int, filler: Cells | None = None) -> ArrowArray:
    """Numbers as ten digits, in cells of one width; what is left of each cell is filled."""
    cells = np.empty((len(numbers), width), dtype=np.uint8)
    for place in range(10):
        cells[:, 9 - place] = numbers // 10**place % 10 + ord("0")
    if filler is not None:
        cells[:, 10:] = filler
    ends = np.arange(len(numbers) + 1, dtype=np.int32) * width
    return pa.Array.from_buffers(pa.binary(), len(numbers), [None, buffer_of(ends), buffer_of(cells)])


def encoded(topic: str, partition: int, load: Load) -> Iterator[tuple[TopicPartition, Batch]]:
    """Every second number, as lz4 batches: values compress to about half, and a key stays in one partition."""
    chance = np.random.default_rng(partition)
    for first in range(partition, load.records, 2 * AT_ONCE):
        numbers = np.arange(first, min(load.records, first + 2 * AT_ONCE), 2)
        filler = chance.integers(ord("a"), ord("q"), (len(numbers), load.value_bytes - 10), dtype=np.uint8)
        keys, values = text_column(numbers % KEYS, 10), text_column(numbers, load.value_bytes, filler)
        for batch in encode_columns(keys, values, timestamps_ms=1, codec=Codec.LZ4):
            yield TopicPartition(topic, partition), batch


def fill(bootstrap: str, topic: str, load: Load) -> None:
    cluster = shared_cluster(WireSettings.from_options({"kafka.bootstrap.servers": bootstrap}))
    for partition in range(2):
        batches = encoded(topic, partition, load)
        send_batches(cluster, batches, producer=ANONYMOUS, deadline=cluster.deadline(FILL_MS_MAX))


def content(spark: SparkSession, bootstrap: str, topic: str) -> Row:
    """How many records, and a sum that changes when one is missing, doubled or another; by Spark's own source."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "kafka.isolation.level": "read_committed"}
    rows = spark.read.format("kafka").options(**options).load()
    total = rows.selectExpr("count(*) records", "sum(cast(xxhash64(key, value) as decimal(38, 0))) digest").first()
    assert total is not None
    return total


def copy(pipeline: Driven, **more: Any) -> MemoryWatch:
    """Run a driver to its end, and look at all its processes."""
    driver = pipeline.start(**more)
    try:
        with MemoryWatch(driver.pid) as watch:
            assert driver.wait(COPY_S_MAX) == 0, pipeline.log()[-SHOWN_CHARACTERS_MAX:]
    finally:
        kill_group(driver)
    return watch


def show(request: pytest.FixtureRequest, title: str, found: list[Process]) -> None:
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        sys.stdout.write(f"\n{title}: {', '.join(str(one.peak_mb) for one in found)} MB")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("source", "partitioning", "computed"),
    [
        pytest.param(FEWER, "keyed", True, id="fewer-keyed-computed", marks=pytest.mark.soak),
        pytest.param(FEWER, "spread", False, id="fewer-spread-bare", marks=pytest.mark.full),
        pytest.param(MORE, "keyed", False, id="more-keyed-bare", marks=pytest.mark.soak),
        pytest.param(MORE, "keyed", True, id="more-keyed-computed", marks=pytest.mark.soak),
        pytest.param(MORE, "spread", False, id="more-spread-bare", marks=pytest.mark.soak),
        pytest.param(MORE, "spread", True, id="more-spread-computed", marks=pytest.mark.soak),
    ],
    indirect=["source"],
)
def test_a_gigabyte_in_one_micro_batch(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    source: Source,
    pipeline: Driven,
    *,
    partitioning: str,
    computed: bool,
) -> None:
    """Bare records go from broker to broker in Python workers; computed rows go through the JVM in between."""
    watch = copy(pipeline, partitioning=partitioning, computed=computed)
    workers, jvms = watch.having(DAEMON), watch.running("java")
    kind = f"{partitioning}, {'computed' if computed else 'bare'}"
    show(request, f"{kind}: Python workers", workers)
    show(request, f"{kind}: JVMs", jvms)
    assert content(spark, pipeline.bootstrap, pipeline.output) == source.content
    assert [path.name for path in (pipeline.folder / "checkpoint" / "commits").glob("[0-9]*")] == ["0"]
    assert {one.data_bytes_max for one in workers} == {DATA_BYTES_MAX}
    assert workers[0].peak_mb < MB_MAX

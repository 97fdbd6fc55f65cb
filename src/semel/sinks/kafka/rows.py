"""What tasks do for the Kafka sink: rows as Arrow columns into encoded batches, and encoded batches to the brokers.

Three ways, all without a Python object per row:
- *keyed*: `encode_rows` in one stage (murmur2 as the Java client, or the `partition` column), a shuffle of the few fat
  batches, `produce_encoded` in the next, where each target partition has one writer;
- *spread*: `write_spread`, each task to a partition of its own;
- *source*: `write_source`, rows keep the partition number they came with, no shuffle; one task per partition.

Keeps: E2 what is reported as written was acknowledged; rows of one task keep their order in each partition,
       and in the keyed way the rows of its tasks in turn.
Why:   memory is bounded whatever the size of a micro-batch: rows are taken, encoded and sent some MiB at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from semel.errors import ConfigError
from semel.protocol.arrow_types import ArrowArray, ArrowColumn, buffer_of
from semel.protocol.columns import NO_PARTITION, EncodedBatches, encode_columns, partition_keys, rows_by_partition
from semel.protocol.compression import Codec
from semel.sinks.base import arrow_schema
from semel.sinks.kafka.arrivals import SUMMARY, Arrivals
from semel.sinks.kafka.targets import Targets
from semel.wire.cluster import WireCluster, shared_cluster
from semel.wire.produce import Batch, ProducerIdentity, send_batches
from semel.wire.settings import WireSettings
from semel.wire.topology import TopicPartition
from semel.world.clock import RealClock

# Rows are encoded so many at a time: a batch's worth for each target that they are split over, within limits. More
# would have to be joined first, and would have left the processor's cache before they are compressed.
CHUNK_BYTES_MIN, CHUNK_BYTES_MAX = 1 << 20, 8 << 20
TARGET_BYTES = 1 << 19
# A batch crosses the shuffle in pieces of rows' size: Spark may count them as it counts rows, without weighing them.
PIECE_BYTES = 2 << 10

# What the stages give.
ENCODED = "writer int, target int, task int, number long, total long, piece binary"
RESULT = "task int, target int, records long, row_bytes_max long"
_ENCODED_SCHEMA, _RESULT_SCHEMA = arrow_schema(ENCODED), arrow_schema(RESULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWriter:
    """All a task needs to know; picklable."""

    wire: WireSettings
    targets: Targets
    writers: int
    micro_batch_id: int
    producer: ProducerIdentity
    codec: Codec
    batch_bytes_max: int
    deadline_ms: int

    @property
    def is_transactional(self) -> bool:
        """Whether batches are part of a transaction."""
        return self.producer.transactional_id is not None


class Chunk(NamedTuple):
    """Some rows, ready to encode."""

    keys: ArrowColumn | None
    values: ArrowColumn
    headers: ArrowColumn | None
    times_ms: npt.NDArray[np.int64]
    topics: ArrowColumn | None
    partitions: ArrowColumn | None

    @property
    def rows(self) -> int:
        """How many rows."""
        return len(self.values)

    @property
    def row_bytes_max(self) -> int:
        """How large the largest row is about; 0 where headers make that hard to say."""
        # Headers are lists of pairs, whose size Arrow does not add up cheaply.
        if self.headers is not None:
            return 0
        columns = [column for column in (self.keys, self.values) if column is not None]
        return sum(_largest(column) for column in columns) or 1


def _largest(column: ArrowColumn) -> int:
    lengths: Any = None if pa.types.is_null(column.type) else pc.call_function("binary_length", [column])
    return 0 if lengths is None else pc.max(lengths).as_py() or 0


def chunks_of(batches: Iterable[pa.RecordBatch], targets: int) -> Iterator[Chunk]:
    """Gather Spark's Arrow batches until encoding is worth it, for rows that are split over so many targets."""
    enough = max(CHUNK_BYTES_MIN, min(CHUNK_BYTES_MAX, TARGET_BYTES * targets))
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
        if size >= enough:
            yield _chunk(waiting)
            waiting, size = [], 0
    if waiting:
        yield _chunk(waiting)


def _chunk(batches: list[pa.RecordBatch]) -> Chunk:
    # Joined once, here: every target that gets rows of this chunk would join them again.
    rows = batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks()
    names = set(rows.schema.names)

    def column(name: str) -> ArrowColumn | None:
        return rows.column(name) if name in names else None

    return Chunk(
        keys=column("key"),
        values=rows.column("value"),
        headers=column("headers"),
        times_ms=_times(column("timestamp"), rows.num_rows),
        topics=column("topic"),
        partitions=column("partition"),
    )


def _times(column: ArrowColumn | None, count: int) -> npt.NDArray[np.int64]:
    """A row's own time; the time of writing where it has none."""
    now_ms = RealClock().wall_ms()
    if column is None:
        return np.full(count, now_ms, dtype=np.int64)
    # Kafka keeps milliseconds, Spark microseconds: the rest is cut off.
    return _filled(column.cast(pa.timestamp("ms", tz="UTC"), safe=False), now_ms)


def _filled(column: ArrowColumn, missing: int) -> npt.NDArray[np.int64]:
    whole: Any = column.cast(pa.int64())
    return np.asarray(whole.fill_null(missing).to_numpy(), dtype=np.int64)


def route(chunk: Chunk, targets: Targets, turn: int) -> npt.NDArray[np.int32]:
    """Choose a target for each row: by its partition column, else by its key, else in turn."""
    topic_of = _topic_indexes(chunk, targets)
    chosen = np.full(chunk.rows, NO_PARTITION, dtype=np.int32)
    for index, count in enumerate(targets.counts):
        mine = slice(None) if len(targets.topics) == 1 else topic_of == index
        by_key = _by_key(chunk, count)
        partition = _explicit(chunk, by_key, count, targets.topics[index], mine)
        # Rows without a key and a partition go to one partition for each chunk, as producers do with sticky partitions.
        partition[partition == NO_PARTITION] = turn % count
        chosen[mine] = partition[mine] + targets.first_of(index)
    return chosen


def _topic_indexes(chunk: Chunk, targets: Targets) -> npt.NDArray[np.int32]:
    if chunk.topics is None:
        if len(targets.topics) > 1:
            raise ConfigError("several output topics need a column named topic")
        return np.zeros(chunk.rows, dtype=np.int32)
    found = pc.index_in(chunk.topics, value_set=pa.array(targets.topics, pa.string()))
    if found.null_count:
        stranger = pc.filter(chunk.topics, pc.is_null(found))[0].as_py()
        raise ConfigError(
            f"a row goes to topic {stranger!r}, which is not an output of this sink",
            you_want=f"topics={[*targets.topics, stranger]!r}" if stranger else "a topic in every row",
        )
    return np.asarray(found.to_numpy(), dtype=np.int32)


def _by_key(chunk: Chunk, count: int) -> npt.NDArray[np.int32]:
    if chunk.keys is None:
        return np.full(chunk.rows, NO_PARTITION, dtype=np.int32)
    return partition_keys(chunk.keys, count)


def _explicit(
    chunk: Chunk, by_key: npt.NDArray[np.int32], count: int, topic: str, mine: slice | npt.NDArray[np.bool_]
) -> npt.NDArray[np.int32]:
    """The partition column where it has a value, checked against the topic."""
    if chunk.partitions is None:
        return by_key
    filled = _filled(chunk.partitions, NO_PARTITION).astype(np.int32)
    given = np.asarray(chunk.partitions.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)
    own = filled[mine]
    wrong = own[given[mine] & ((own < 0) | (own >= count))]
    if len(wrong):
        raise ConfigError(f"a row goes to partition {wrong[0]} of {topic}, which has partitions 0 to {count - 1}")
    return np.where(given, filled, by_key)


def encode(chunk: Chunk, writer: RowWriter, rows: npt.NDArray[np.int64] | None = None) -> EncodedBatches:
    """Encode some rows of a chunk; producer id, epoch and sequence are stamped when they are sent."""
    return encode_columns(
        chunk.keys,
        chunk.values,
        timestamps_ms=chunk.times_ms,
        headers=chunk.headers,
        rows=rows,
        codec=writer.codec,
        batch_bytes_max=writer.batch_bytes_max,
        transactional=writer.is_transactional,
    )


def encode_rows(writer: RowWriter, task: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """First stage of the keyed way: encoded batches, each with the one writer that will send it."""
    number, counted = 0, _Counter()
    for turn, chunk in enumerate(chunks_of(batches, writer.targets.total)):
        counted.add(chunk)
        # Tasks begin at different partitions, so that rows without a key do not all meet at one.
        chosen = route(chunk, writer.targets, task + turn)
        for target, rows in enumerate(rows_by_partition(chosen, writer.targets.total)):
            if len(rows):
                encoded = encode(chunk, writer, rows)
                yield _encoded_rows(encoded, target, writer.writers, task, number)
                # Over all chunks of the task: by task and number the writer puts batches into the order of the rows.
                number += len(encoded)
    # Last of all: a writer that has this row from every task has everything.
    yield _end_rows(writer.writers, task, counted)


def _end_rows(writers: int, task: int, counted: _Counter) -> pa.RecordBatch:
    """One row for each writer: nothing more comes from this task.

    The row for the first writer also says how many rows the task encoded and, as its number, how large the largest was.
    """
    ends = [
        {"writer": one, "target": SUMMARY, "task": task, "number": size, "total": rows, "piece": b""}
        for one, (size, rows) in enumerate([(counted.row_bytes_max, counted.rows)] + [(0, 0)] * (writers - 1))
    ]
    return pa.RecordBatch.from_pylist(ends, schema=_ENCODED_SCHEMA)


def _encoded_rows(encoded: EncodedBatches, target: int, writers: int, task: int, number: int) -> pa.RecordBatch:
    """One row for each piece: which batch it is of, how large that is in total, and the bytes."""
    edges = np.array(encoded.positions, dtype=np.int32)
    starts = [np.arange(start, end, PIECE_BYTES, dtype=np.int32) for start, end in pairwise(edges)]
    pieces = [len(one) for one in starts]
    count, ends = sum(pieces), np.concatenate([*starts, edges[-1:]])
    columns: list[ArrowArray] = [
        # A target always has the same writer, or two would count its sequences.
        pa.array(np.full(count, target % writers, dtype=np.int32)),
        pa.array(np.full(count, target, dtype=np.int32)),
        pa.array(np.full(count, task, dtype=np.int32)),
        pa.array(np.repeat(np.arange(number, number + len(encoded), dtype=np.int64), pieces)),
        pa.array(np.repeat(np.diff(edges).astype(np.int64), pieces)),
        pa.Array.from_buffers(pa.binary(), count, [None, buffer_of(ends), pa.py_buffer(encoded.buffer)]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ENCODED_SCHEMA)


def produce_encoded(writer: RowWriter, task: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Second stage of the keyed way: send what the shuffle brought."""
    arrivals = Arrivals(writer.targets)
    written = _send(writer, arrivals.unpack(batches))
    counted = _Counter(rows=sum(arrivals.encoded.values()), row_bytes_max=arrivals.row_bytes_max)
    yield _results(writer, task, written, counted)


def write_spread(writer: RowWriter, task: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Send rows to a partition of this task's own, another one in each micro-batch."""
    counted = _Counter()

    def encoded() -> Iterator[tuple[TopicPartition, Batch]]:
        for chunk in chunks_of(batches, len(writer.targets.topics)):
            counted.add(chunk)
            topic_of = _topic_indexes(chunk, writer.targets)
            for index, (topic, count) in enumerate(zip(writer.targets.topics, writer.targets.counts, strict=True)):
                rows = None if len(writer.targets.topics) == 1 else np.flatnonzero(topic_of == index)
                # Moves on with every micro-batch, so that few writers fill all partitions in time.
                target = TopicPartition(topic, (task + writer.micro_batch_id * writer.writers) % count)
                if rows is None or len(rows):
                    yield from ((target, batch) for batch in encode(chunk, writer, rows))

    written = _send(writer, encoded())
    yield _results(writer, task, written, counted)


def write_source(writer: RowWriter, task: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Send each row to the partition it names; the driver checks that no other task wrote there."""
    counted = _Counter()
    partitions = list(writer.targets)
    # A single writer has rows of every partition, one of several those of a partition in each topic.
    targets = writer.targets.total if writer.writers == 1 else len(writer.targets.topics)

    def encoded() -> Iterator[tuple[TopicPartition, Batch]]:
        for turn, chunk in enumerate(chunks_of(batches, targets)):
            counted.add(chunk)
            chosen = route(chunk, writer.targets, turn)
            for target in np.unique(chosen).tolist():
                rows = None if (chosen == target).all() else np.flatnonzero(chosen == target)
                yield from ((partitions[target], batch) for batch in encode(chunk, writer, rows))

    written = _send(writer, encoded())
    yield _results(writer, task, written, counted)


@dataclass(slots=True)
class _Counter:
    rows: int = 0
    row_bytes_max: int = 0
    """0 until known."""

    def add(self, chunk: Chunk) -> None:
        self.rows += chunk.rows
        self.row_bytes_max = max(self.row_bytes_max, chunk.row_bytes_max)


def _send(writer: RowWriter, batches: Iterator[tuple[TopicPartition, Batch]]) -> dict[TopicPartition, int]:
    cluster: WireCluster = shared_cluster(writer.wire)
    acknowledged = send_batches(
        cluster, batches, producer=writer.producer, deadline=cluster.deadline(writer.deadline_ms)
    )
    return {partition: row.records for partition, row in acknowledged.items()}


def _results(writer: RowWriter, task: int, written: dict[TopicPartition, int], counted: _Counter) -> pa.RecordBatch:
    numbers = {partition: number for number, partition in enumerate(writer.targets)}
    rows = [
        {"task": task, "target": numbers[target], "records": records, "row_bytes_max": 0}
        for target, records in written.items()
    ]
    rows.append({"task": task, "target": SUMMARY, "records": counted.rows, "row_bytes_max": counted.row_bytes_max})
    return pa.RecordBatch.from_pylist(rows, schema=_RESULT_SCHEMA)

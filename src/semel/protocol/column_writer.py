"""Arrow columns -> record batches: rows as encoded, compressed, checksummed batches, no Python object per record.

Keeps: P2 values go out exactly; rows keep their order; every row is in exactly one batch.
Why:   producer id, epoch and sequence may be left out and set later by `stamp_producer`, because Spark's second stage
       learns them only after a shuffle. A batch that compression would enlarge is sent as it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.errors import ConfigError
from semel.protocol.arrow_input import header_column, input_column, null_column, row_numbers, timestamps_in_ms
from semel.protocol.arrow_types import ArrowArray, ArrowColumn, Bytes, Numbers, buffer_of
from semel.protocol.batch_header import (
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    write_crc,
)
from semel.protocol.compression import Codec, compress
from semel.protocol.kernels.encode import Column, HeaderColumn, encode_rows, measure_rows

BATCH_BYTES_MAX_DEFAULT = 1_000_000
_SEQUENCE_MASK = 0x7FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedBatches:
    """Batches one after another in one writable buffer."""

    buffer: memoryview
    positions: tuple[int, ...]
    """Where each batch starts, and at the end where the last one ends."""
    record_counts: tuple[int, ...]

    def __len__(self) -> int:
        """Count the batches."""
        return len(self.record_counts)

    def __iter__(self) -> Iterator[memoryview]:
        """Give each batch as a writable view."""
        for start, end in zip(self.positions, self.positions[1:], strict=False):
            yield self.buffer[start:end]

    def to_arrow(self) -> ArrowArray:
        """Give one binary cell a batch, without a copy."""
        ends = np.array(self.positions, dtype=np.int64)
        buffers = [None, buffer_of(ends), pa.py_buffer(self.buffer)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers, 0)


class _Producer(NamedTuple):
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool

    def after(self, count: int) -> "_Producer":
        if self.base_sequence == NO_SEQUENCE:
            return self
        return self._replace(base_sequence=(self.base_sequence + count) & _SEQUENCE_MASK)


class _Input(NamedTuple):
    keys: Column
    values: Column
    headers: HeaderColumn
    timestamps_ms: Numbers
    rows: Numbers


def encode_columns(
    keys: ArrowColumn | None,
    values: ArrowColumn,
    *,
    timestamps_ms: ArrowArray | npt.NDArray[np.int64] | int,
    headers: ArrowColumn | None = None,
    rows: npt.NDArray[np.int64] | None = None,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    batch_bytes_max: int = BATCH_BYTES_MAX_DEFAULT,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> EncodedBatches:
    """Encode `rows` (all, if not given) into batches of at most `batch_bytes_max` bytes, before compression.

    A single record above that limit gets a batch of its own. Null keys and values stay null; `headers` is a
    list<struct<key string, value binary>> column, where a null list means no headers.
    """
    if batch_bytes_max <= HEADER_BYTES:
        raise ConfigError(f"batch_bytes_max {batch_bytes_max} leaves no room for a record")
    count = len(values)
    table = _Input(
        null_column(count) if keys is None else input_column(keys, count, "key"),
        input_column(values, count, "value"),
        header_column(headers, count),
        timestamps_in_ms(timestamps_ms, count),
        row_numbers(rows, count),
    )
    producer = _Producer(producer_id, producer_epoch, base_sequence, transactional)
    if len(table.rows) == 0:
        return EncodedBatches(buffer=memoryview(bytearray()), positions=(0,), record_counts=())
    if codec is Codec.NONE:
        return _encode_plain(table, batch_bytes_max, producer)
    return _encode_packed(table, batch_bytes_max, producer, codec, level)


def _encode_plain(table: _Input, batch_bytes_max: int, producer: _Producer) -> EncodedBatches:
    records_bytes = measure_rows(table.keys, table.values, table.headers, table.rows)
    # Two neighbours together always pass the limit, which bounds the number of batches.
    batches_max = min(len(table.rows), 2 + 2 * records_bytes // (batch_bytes_max - HEADER_BYTES))
    target = np.empty(records_bytes + batches_max * HEADER_BYTES, dtype=np.uint8)
    at, first = 0, 0
    positions, counts = [0], []
    while first < len(table.rows):
        following, end, max_ms = encode_rows(*table, first, target, at + HEADER_BYTES, at + batch_bytes_max)
        base_ms = int(table.timestamps_ms[table.rows[first]])
        _finish(target.data[at:end], producer, Codec.NONE, (base_ms, max_ms), following - first)
        counts.append(following - first)
        positions.append(end)
        producer = producer.after(following - first)
        at, first = end, following
    return EncodedBatches(buffer=target.data[:at], positions=tuple(positions), record_counts=tuple(counts))


def _encode_packed(
    table: _Input, batch_bytes_max: int, producer: _Producer, codec: Codec, level: int | None
) -> EncodedBatches:
    scratch: Bytes = np.empty(measure_rows(table.keys, table.values, table.headers, table.rows), dtype=np.uint8)
    result = bytearray()
    first = 0
    positions, counts = [0], []
    while first < len(table.rows):
        following, size, max_ms = encode_rows(*table, first, scratch, 0, batch_bytes_max - HEADER_BYTES)
        packed = compress(codec, scratch[:size].data, level)
        is_smaller = len(packed) < size
        batch = bytearray(HEADER_BYTES)
        batch += packed if is_smaller else scratch[:size].data
        base_ms = int(table.timestamps_ms[table.rows[first]])
        _finish(batch, producer, codec if is_smaller else Codec.NONE, (base_ms, max_ms), following - first)
        result += batch
        counts.append(following - first)
        positions.append(len(result))
        producer = producer.after(following - first)
        first = following
    return EncodedBatches(buffer=memoryview(result), positions=tuple(positions), record_counts=tuple(counts))


def _finish(
    batch: bytearray | memoryview, producer: _Producer, codec: Codec, times_ms: tuple[int, int], count: int
) -> None:
    attributes = codec | (TRANSACTIONAL_BIT * producer.transactional)
    HEADER.pack_into(
        batch,
        0,
        *(0, len(batch) - LOG_OVERHEAD_BYTES, -1, MAGIC, 0, attributes, count - 1),
        *times_ms,
        *(producer.producer_id, producer.producer_epoch, producer.base_sequence, count),
    )
    write_crc(batch)

"""Arrow columns -> record batches: rows as encoded, compressed, checksummed batches, no Python object per record.

Keeps: P2 values go out exactly; rows keep their order; every row is in exactly one batch.
Why:   producer id, epoch and sequence may be left out and set later by `stamp_producer`, because Spark's second stage
       learns them only after a shuffle. A batch that compression would enlarge is sent as it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from crc32c import crc32c as checksum

from semel.errors import ConfigError
from semel.protocol.arrow_input import (
    BinaryInput,
    HeaderInput,
    header_column,
    input_column,
    null_column,
    row_numbers,
    timestamps_in_ms,
)
from semel.protocol.arrow_types import ArrowArray, ArrowColumn, Numbers, address_of, buffer_of, view_of
from semel.protocol.batch_header import (
    CRC,
    CRC_AT,
    CRC_START,
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    set_codec,
)
from semel.protocol.compression import Codec, OutputFullError, compress_into
from semel.protocol.kernels.checksum import IN_KERNELS
from semel.protocol.kernels.encode import (
    BATCH_COLUMNS,
    RECORD_LENGTH_BYTES_MAX,
    Output,
    Rows,
    SizedColumn,
    Stamp,
    encode_batches,
    plan_batches,
)
from semel.protocol.kernels.memory import CHUNK_BYTES, LINE_BYTES
from semel.protocol.kernels.scratch import FULL_BYTES, STATE_BYTES, Scratch

BATCH_BYTES_MAX_DEFAULT = 1_000_000

# Smaller results are still in the cache when they are sent, and larger records would fill it alone.
_CACHED_BYTES_MAX = 1 << 23
_SCRATCH_BODY_BYTES_MAX = 1 << 18
_BODY_BYTES_MAX = 2**31 - 1 - HEADER_BYTES - RECORD_LENGTH_BYTES_MAX


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
        for start, end in pairwise(self.positions):
            yield self.buffer[start:end]

    def to_arrow(self) -> ArrowArray:
        """Give one binary cell a batch, without a copy."""
        ends = np.array(self.positions, dtype=np.int64)
        buffers = [None, buffer_of(ends), pa.py_buffer(self.buffer)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers, 0)


class _Input(NamedTuple):
    keys: BinaryInput
    values: BinaryInput
    headers: HeaderInput
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
    stamp = Stamp(TRANSACTIONAL_BIT * transactional, producer_id, producer_epoch, base_sequence)
    if codec is not Codec.NONE:
        # Sealed last: the checksum covers the compressed bytes and the codec bits.
        return _seal(_pack(_encode_plain(table, batch_bytes_max, stamp, is_sealed=False), codec))
    plain = _encode_plain(table, batch_bytes_max, stamp, is_sealed=IN_KERNELS)
    return plain if IN_KERNELS else _seal(plain)


def _encode_plain(table: _Input, batch_bytes_max: int, stamp: Stamp, *, is_sealed: bool) -> EncodedBatches:
    """Write every batch with a kernel; the checksums may follow later, once compression is done."""
    count = len(table.rows)
    columns = _addresses(table.keys), _addresses(table.values), table.headers.addresses()
    rows = Rows(*columns, address_of(table.timestamps_ms), address_of(table.rows), count)
    # All from Arrow's pool, which keeps freed memory warm: fresh pages cost more than the encoding itself.
    bodies = pa.allocate_buffer(4 * count)
    plan = np.frombuffer(view_of(pa.allocate_buffer(8 * BATCH_COLUMNS * count)), dtype=np.int64)
    plan = plan.reshape(count, BATCH_COLUMNS)
    batches, size, body_bytes_max = plan_batches(rows, batch_bytes_max, bodies.address, plan)
    plan = plan[:batches]
    if body_bytes_max > _BODY_BYTES_MAX:
        raise ConfigError(f"a record of {body_bytes_max} bytes is too large", because="Kafka's batches end below 2 GiB")
    # Short fields are copied in whole chunks, so the last one may write a little behind its end.
    target = pa.allocate_buffer(size + CHUNK_BYTES)
    scratch_bytes = _scratch_bytes(size, body_bytes_max) if is_sealed else 0
    memory = pa.allocate_buffer(scratch_bytes)
    scratch = Scratch(memory.address, memory.address + STATE_BYTES) if scratch_bytes else Scratch(0, 0)
    output = Output(target.address, scratch, is_sealed)
    encode_batches(rows, bodies.address, stamp, output, plan)
    counts = tuple(np.diff(plan[:, 1], prepend=0).tolist())
    return EncodedBatches(buffer=view_of(target)[:size], positions=(0, *plan[:, 0].tolist()), record_counts=counts)


def _scratch_bytes(size: int, body_bytes_max: int) -> int:
    """Return the room that a scratch needs, or zero where none is of use."""
    # See above: a small result is still in the cache when it is sent, and a long record would fill the scratch alone.
    if size < _CACHED_BYTES_MAX or body_bytes_max > _SCRATCH_BODY_BYTES_MAX:
        return 0
    return STATE_BYTES + LINE_BYTES + HEADER_BYTES + FULL_BYTES + RECORD_LENGTH_BYTES_MAX + body_bytes_max + CHUNK_BYTES


def _addresses(column: BinaryInput) -> SizedColumn:
    return SizedColumn(*column.addresses(), len(column.data))


def _seal(encoded: EncodedBatches) -> EncodedBatches:
    buffer = encoded.buffer
    for start, end in pairwise(encoded.positions):
        CRC.pack_into(buffer, start + CRC_AT, checksum(buffer[start + CRC_START : end]))
    return encoded


def _pack(plain: EncodedBatches, codec: Codec) -> EncodedBatches:
    """Compress every batch that gets smaller by it, so that all of them surely fit the room they had."""
    room = view_of(pa.allocate_buffer(len(plain.buffer)))
    positions = [0]
    for batch in plain:
        positions.append(positions[-1] + _pack_batch(batch, room[positions[-1] :], codec))
    return EncodedBatches(buffer=room[: positions[-1]], positions=tuple(positions), record_counts=plain.record_counts)


def _pack_batch(batch: memoryview, target: memoryview, codec: Codec) -> int:
    # One byte less than the batch has: what does not get smaller does not fit.
    smaller = target[HEADER_BYTES : len(batch) - 1]
    try:
        size = HEADER_BYTES + compress_into(codec, batch[HEADER_BYTES:], smaller)
    except OutputFullError:
        # Stays uncompressed, with the codec bits at 0; readers look at each batch's own bits.
        target[: len(batch)] = batch
        return len(batch)
    target[:HEADER_BYTES] = batch[:HEADER_BYTES]
    set_codec(target[:size], codec)
    return size

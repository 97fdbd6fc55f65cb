"""The receiving end of decoding: buffers that the kernel fills, and the Arrow columns made of them without a copy.

Why: buffers come from Arrow's memory pool, which keeps freed memory warm from one fetch to the next; fresh pages cost
     more than the decoding itself. The columns are those of Spark's Kafka source, in its order and types, so that a
     pipeline only changes its format name; a record without headers has null there, as Spark has it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.errors import CorruptBatchError, ProtocolError
from semel.protocol.arrow_types import ArrowArray, Bytes, Numbers, address_of, buffer_of, view_of
from semel.protocol.kernels.check import Cells, Total
from semel.protocol.kernels.decode import Columns as ColumnCells
from semel.protocol.kernels.headers import HeaderCells, fill_headers
from semel.protocol.kernels.memory import CHUNK_BYTES, NEVER, STREAMED_FIELD_BYTES_MIN

# Arrow's binary and string columns have signed offsets of 32 bits.
_COLUMN_BYTES_MAX = 2**31 - 1
# Larger results will not be in the cache anyway when somebody reads them.
_CACHED_BYTES_MAX = 1 << 23
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

_FIELDS: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": _TIMESTAMP,
    "timestampType": pa.int32(),
}
SCHEMA = pa.schema(_FIELDS)
SCHEMA_WITH_HEADERS = SCHEMA.append(pa.field("headers", pa.list_(_HEADER)))


class CellBuffers(NamedTuple):
    """One binary column under construction, with room for so many rows and bytes."""

    data: pa.Buffer
    offsets: pa.Buffer
    valid: Bytes

    @classmethod
    def sized(cls, rows: int, size_bytes: int) -> "CellBuffers":
        """Reserve the room."""
        offsets = _offsets_buffer(rows)
        # Room for one chunk more, since short fields are copied in whole chunks. All rows are valid until one is null.
        return cls(_room(size_bytes + CHUNK_BYTES), offsets, np.full((rows + 7) // 8, 0xFF, dtype=np.uint8))

    def addresses(self) -> Cells:
        """Give the kernel's view of it."""
        return Cells(self.data.address, self.offsets.address, address_of(self.valid))

    def to_arrow(self, kind: pa.DataType, rows: int, size_bytes: int, nulls: int) -> ArrowArray:
        """Wrap what was used of it as a column; validity bits only where something is null."""
        valid = buffer_of(self.valid[: (rows + 7) // 8]) if nulls else None
        buffers = [valid, _used(self.offsets, 4 * (rows + 1)), _used(self.data, size_bytes)]
        return pa.Array.from_buffers(kind, rows, buffers, nulls)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBuffers:
    """Everything `decode_spans` writes to."""

    keys: CellBuffers
    values: CellBuffers
    offsets: pa.Buffer
    timestamps_us: pa.Buffer
    header_places: Numbers | None
    streamed_bytes_min: int

    @classmethod
    def roomy(cls, rows: int, size_bytes: int, include_headers: bool) -> "ColumnBuffers":
        """Reserve room for so many rows, and for keys or values of so many bytes."""
        return cls(
            keys=CellBuffers.sized(rows, size_bytes),
            values=CellBuffers.sized(rows, size_bytes),
            offsets=_room(8 * rows),
            timestamps_us=_room(8 * rows),
            header_places=np.empty(rows, dtype=np.int64) if include_headers else None,
            streamed_bytes_min=STREAMED_FIELD_BYTES_MIN if size_bytes >= _CACHED_BYTES_MAX else NEVER,
        )

    def addresses(self) -> ColumnCells:
        """Give the kernel's view of it."""
        places = 0 if self.header_places is None else address_of(self.header_places)
        columns = self.keys.addresses(), self.values.addresses()
        return ColumnCells(*columns, self.offsets.address, self.timestamps_us.address, places)

    def headers(self, sums: Numbers) -> "HeaderBuffers | None":
        """Copy the headers, if they are wanted; the bytes that were decoded must still be there."""
        return None if self.header_places is None else HeaderBuffers.filled(self.header_places, sums)

    def finished(self, sums: Numbers, headers: "HeaderBuffers | None") -> "Columns":
        """Wrap what was used, as the sums say."""
        rows, key_bytes, value_bytes, key_nulls, value_nulls = sums[: Total.VALUE_NULLS + 1].tolist()
        return Columns(
            rows=rows,
            keys=self.keys.to_arrow(pa.binary(), rows, key_bytes, key_nulls),
            values=self.values.to_arrow(pa.binary(), rows, value_bytes, value_nulls),
            offsets=_used(self.offsets, 8 * rows),
            timestamps_us=_used(self.timestamps_us, 8 * rows),
            headers=headers,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderBuffers:
    """The nested headers column of exact size."""

    sums: Numbers
    lists: pa.Buffer
    names: CellBuffers
    values: CellBuffers

    @classmethod
    def filled(cls, places: Numbers, sums: Numbers) -> "HeaderBuffers":
        """Copy the headers, which start at these addresses."""
        rows, count = int(sums[Total.ROWS]), int(sums[Total.HEADERS])
        names = CellBuffers.sized(count, int(sums[Total.HEADER_NAME_BYTES]))
        values = CellBuffers.sized(count, int(sums[Total.HEADER_VALUE_BYTES]))
        lists = _offsets_buffer(rows)
        fill_headers(address_of(places), rows, HeaderCells(lists.address, names.addresses(), values.addresses()))
        return cls(sums=sums, lists=lists, names=names, values=values)

    def to_arrow(self, rows: int) -> ArrowArray:
        """Wrap it as a column, without a copy; pa.ArrowInvalid when a name is not UTF-8."""
        count, name_bytes, value_bytes, nulls = self.sums[Total.HEADERS : Total.HEADER_VALUE_NULLS + 1].tolist()
        names = self.names.to_arrow(pa.string(), count, name_bytes, 0)
        # Arrow trusts the buffers it is given. Bytes that are no UTF-8 would fail much later, in somebody else's code.
        names.validate(full=True)
        values = self.values.to_arrow(pa.binary(), count, value_bytes, nulls)
        pairs = pa.StructArray.from_arrays([names, values], fields=list(_HEADER))
        ends = np.frombuffer(view_of(self.lists), dtype=np.int32)
        # A record without headers is null and not an empty list, as in Spark's own source.
        present = np.packbits(ends[1:] > ends[:-1], bitorder="little")
        buffers: list[pa.Buffer | None] = [buffer_of(present), self.lists]
        return pa.Array.from_buffers(pa.list_(_HEADER), rows, buffers, children=[pairs])


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What was decoded: the columns that records have, without those that are the same for all."""

    rows: int
    keys: ArrowArray
    values: ArrowArray
    offsets: pa.Buffer
    timestamps_us: pa.Buffer
    headers: HeaderBuffers | None

    def offset_numbers(self) -> Numbers:
        """Return the offsets as numbers."""
        return np.frombuffer(view_of(self.offsets), dtype=np.int64) if self.rows else np.empty(0, dtype=np.int64)


def _room(size_bytes: int) -> pa.ResizableBuffer:
    return pa.allocate_buffer(size_bytes, None, resizable=True)


def _offsets_buffer(rows: int) -> pa.ResizableBuffer:
    buffer = _room(4 * (rows + 1))
    # The kernel writes where each cell ends. Where the first one begins is written
    # here, since new memory holds anything.
    view_of(buffer)[:4] = bytes(4)
    return buffer


def _used(buffer: pa.Buffer, size_bytes: int) -> pa.Buffer:
    """Give back memory that was not used, where it is worth a copy; pages never touched cost nothing."""
    if 2 * size_bytes < buffer.size:
        cast(pa.ResizableBuffer, buffer).resize(size_bytes, shrink_to_fit=True)
    return buffer.slice(0, size_bytes)


def to_record_batch(
    columns: Columns,
    topic: str,
    partition: int,
    timestamp_types: npt.NDArray[np.int32],
    corrupt: Callable[[str, int], CorruptBatchError],
) -> pa.RecordBatch:
    """Wrap the buffers as Arrow columns; `corrupt` makes the error for a header name that is not UTF-8."""
    rows = columns.rows
    arrays: list[ArrowArray] = [
        columns.keys,
        columns.values,
        _repeated(topic, rows),
        pa.array(repeated_number(partition, rows)),
        pa.Array.from_buffers(pa.int64(), rows, [None, columns.offsets], 0),
        pa.Array.from_buffers(_TIMESTAMP, rows, [None, columns.timestamps_us], 0),
        pa.array(timestamp_types),
    ]
    if columns.headers is None:
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    try:
        arrays.append(columns.headers.to_arrow(rows))
    except pa.ArrowInvalid as error:
        raise corrupt(f"a header name is not UTF-8: {error}", int(columns.offset_numbers()[0])) from None
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA_WITH_HEADERS)


def _repeated(text: str, rows: int) -> ArrowArray:
    encoded = text.encode()
    if rows * len(encoded) > _COLUMN_BYTES_MAX:
        raise ProtocolError(f"{rows} records at once are too many for the topic column", next_command="fetch less")
    ends = np.arange(rows + 1, dtype=np.int32)
    ends *= np.int32(len(encoded))
    return pa.Array.from_buffers(pa.string(), rows, [None, buffer_of(ends), pa.py_buffer(encoded * rows)], 0)


def repeated_number(number: int, rows: int) -> npt.NDArray[np.int32]:
    """Give a 32-bit number so many times."""
    numbers = np.frombuffer(view_of(_room(4 * rows)), dtype=np.int32) if rows else np.empty(0, dtype=np.int32)
    numbers[:] = number
    return numbers

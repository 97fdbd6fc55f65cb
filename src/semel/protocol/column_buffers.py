"""The receiving end of decoding: buffers that the kernel fills, and the Arrow columns made of them without a copy.

Why: buffers come from Arrow's memory pool, which keeps freed memory warm from one fetch to the next; fresh pages cost
     more than the decoding itself. The columns are those of Spark's Kafka source, in its order and types, so that a
     pipeline only changes its format name; a record without headers has null there, as Spark has it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.errors import CorruptBatchError, ProtocolError
from semel.protocol.arrow_types import ArrowArray, Numbers, address_of, buffer_of, view_of
from semel.protocol.kernels.check import TOTALS, Total
from semel.protocol.kernels.decode import Cells, HeaderCells

_COLUMN_BYTES_MAX = 2**31 - 1
_NO_CELLS = Cells(0, 0, 0)
_HEADER_TOTALS = (
    Total.ROWS,
    Total.HEADERS,
    Total.HEADER_NAME_BYTES,
    Total.HEADER_VALUE_BYTES,
    Total.HEADER_VALUE_NULLS,
)
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
    """One binary column of exact size; no validity bits where nothing is null."""

    data: pa.Buffer
    offsets: pa.Buffer
    valid: pa.Buffer | None
    rows: int
    nulls: int

    @classmethod
    def sized(cls, rows: int, size_bytes: int, nulls: int) -> "CellBuffers":
        """Reserve the room."""
        offsets = pa.allocate_buffer(4 * (rows + 1))
        view_of(offsets)[:4] = bytes(4)
        valid = buffer_of(np.full((rows + 7) // 8, 0xFF, dtype=np.uint8)) if nulls else None
        return cls(pa.allocate_buffer(size_bytes), offsets, valid, rows, nulls)

    def addresses(self) -> Cells:
        """Give the kernel's view of it."""
        return Cells(self.data.address, self.offsets.address, self.valid.address if self.valid else 0)

    def to_arrow(self, kind: pa.DataType) -> ArrowArray:
        """Wrap it as a column, without a copy."""
        return pa.Array.from_buffers(kind, self.rows, [self.valid, self.offsets, self.data], self.nulls)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderBuffers:
    """The nested headers column of exact size."""

    lists: pa.Buffer
    names: CellBuffers
    values: CellBuffers

    @classmethod
    def sized(cls, totals: Numbers) -> "HeaderBuffers":
        """Reserve the room that the totals ask for."""
        rows, count, name_bytes, value_bytes, nulls = (int(totals[place]) for place in _HEADER_TOTALS)
        lists = pa.allocate_buffer(4 * (rows + 1))
        view_of(lists)[:4] = bytes(4)
        names = CellBuffers.sized(count, name_bytes, 0)
        return cls(lists=lists, names=names, values=CellBuffers.sized(count, value_bytes, nulls))

    def to_arrow(self, rows: int) -> ArrowArray:
        """Wrap it as a column, without a copy; pa.ArrowInvalid when a name is not UTF-8."""
        names = self.names.to_arrow(pa.string())
        names.validate(full=True)
        pairs = pa.StructArray.from_arrays([names, self.values.to_arrow(pa.binary())], fields=list(_HEADER))
        ends = np.frombuffer(view_of(self.lists), dtype=np.int32)
        present = np.packbits(ends[1:] > ends[:-1], bitorder="little")
        buffers: list[pa.Buffer | None] = [buffer_of(present), self.lists]
        return pa.Array.from_buffers(pa.list_(_HEADER), rows, buffers, children=[pairs])


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBuffers:
    """Everything `fill_columns` writes to."""

    rows: int
    keys: CellBuffers
    values: CellBuffers
    offsets: pa.Buffer
    timestamps_us: pa.Buffer
    headers: HeaderBuffers | None
    progress: Numbers

    @classmethod
    def sized(cls, totals: Numbers, include_headers: bool) -> "ColumnBuffers":
        """Reserve the room that the totals ask for."""
        rows, key_bytes, value_bytes, key_nulls, value_nulls = totals[: Total.VALUE_NULLS + 1].tolist()
        return cls(
            rows=rows,
            keys=CellBuffers.sized(rows, key_bytes, key_nulls),
            values=CellBuffers.sized(rows, value_bytes, value_nulls),
            offsets=pa.allocate_buffer(8 * rows),
            timestamps_us=pa.allocate_buffer(8 * rows),
            headers=HeaderBuffers.sized(totals) if include_headers else None,
            progress=np.zeros(TOTALS, dtype=np.int64),
        )

    def arguments(self) -> tuple[Any, ...]:
        """Return what the kernel takes, in its order; valid as long as this object lives."""
        headers = HeaderCells(0, _NO_CELLS, _NO_CELLS)
        if self.headers:
            nested = self.headers.names.addresses(), self.headers.values.addresses()
            headers = HeaderCells(self.headers.lists.address, *nested)
        columns = self.keys.addresses(), self.values.addresses()
        return *columns, self.offsets.address, self.timestamps_us.address, headers, address_of(self.progress)

    def offset_numbers(self) -> Numbers:
        """Return the offsets as numbers."""
        return np.frombuffer(view_of(self.offsets), dtype=np.int64) if self.rows else np.empty(0, dtype=np.int64)


def to_record_batch(
    columns: ColumnBuffers,
    topic: str,
    partition: int,
    timestamp_types: npt.NDArray[np.int32],
    corrupt: Callable[[str, int], CorruptBatchError],
) -> pa.RecordBatch:
    """Wrap the buffers as Arrow columns; `corrupt` makes the error for a header name that is not UTF-8."""
    rows = columns.rows
    arrays: list[ArrowArray] = [
        columns.keys.to_arrow(pa.binary()),
        columns.values.to_arrow(pa.binary()),
        _repeated(topic, rows),
        pa.array(np.full(rows, partition, dtype=np.int32)),
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
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(len(encoded))
    return pa.Array.from_buffers(pa.string(), rows, [None, buffer_of(ends), pa.py_buffer(encoded * rows)], 0)

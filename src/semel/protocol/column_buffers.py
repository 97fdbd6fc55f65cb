"""The growing end of decoding: raw buffers that the kernel fills, and the Arrow columns made of them without a copy.

Why: the columns are those of Spark's Kafka source, in its order and types, so that a pipeline only changes its format
     name; a record without headers has null there, as Spark has it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.errors import CorruptBatchError, ProtocolError
from semel.protocol.arrow_types import ArrowArray, Bytes, Numbers, address_of, buffer_of
from semel.protocol.kernels.decode import STATE_SIZE, Cells, HeaderCells, State

_HEADER_BYTES_MIN = 2
_COLUMN_BYTES_MAX = 2**31 - 1
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
    """One binary column under construction."""

    data: Bytes
    offsets: npt.NDArray[np.int32]
    valid: Bytes

    @classmethod
    def sized(cls, rows_max: int, bytes_max: int) -> "CellBuffers":
        """Reserve room; pages are only used once they are written."""
        offsets = np.empty(rows_max + 1, dtype=np.int32)
        offsets[0] = 0
        valid = np.full((rows_max + 7) // 8, 0xFF, dtype=np.uint8)
        return cls(np.empty(bytes_max, dtype=np.uint8), offsets, valid)

    def addresses(self) -> Cells:
        """Give the kernel's view of it."""
        return Cells(address_of(self.data), address_of(self.offsets), address_of(self.valid))


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBuffers:
    """Everything `decode_spans` writes to."""

    keys: CellBuffers
    values: CellBuffers
    offsets: Numbers
    timestamps_us: Numbers
    header_lists: npt.NDArray[np.int32]
    header_names: CellBuffers
    header_values: CellBuffers
    state: Numbers

    @classmethod
    def sized(cls, rows_max: int, bytes_max: int, include_headers: bool) -> "ColumnBuffers":
        """Reserve room for so many rows and bytes; without headers `header_lists` is empty."""
        headers_max = bytes_max // _HEADER_BYTES_MIN if include_headers else 0
        header_bytes_max = bytes_max if include_headers else 0
        lists = np.empty(rows_max + 1 if include_headers else 0, dtype=np.int32)
        lists[:1] = 0
        return cls(
            keys=CellBuffers.sized(rows_max, bytes_max),
            values=CellBuffers.sized(rows_max, bytes_max),
            offsets=np.empty(rows_max, dtype=np.int64),
            timestamps_us=np.empty(rows_max, dtype=np.int64),
            header_lists=lists,
            header_names=CellBuffers.sized(headers_max, header_bytes_max),
            header_values=CellBuffers.sized(headers_max, header_bytes_max),
            state=np.zeros(STATE_SIZE, dtype=np.int64),
        )

    @property
    def rows(self) -> int:
        """Rows written so far."""
        return int(self.state[State.ROWS])

    def arguments(self) -> tuple[Cells, Cells, int, int, HeaderCells, Numbers]:
        """Return what the kernel takes, in its order; valid as long as this object lives."""
        lists = address_of(self.header_lists) if len(self.header_lists) else 0
        headers = HeaderCells(lists, self.header_names.addresses(), self.header_values.addresses())
        columns = self.keys.addresses(), self.values.addresses()
        return *columns, address_of(self.offsets), address_of(self.timestamps_us), headers, self.state


def to_record_batch(
    columns: ColumnBuffers,
    topic: str,
    partition: int,
    timestamp_types: npt.NDArray[np.int32],
    corrupt: Callable[[str, int], CorruptBatchError],
) -> pa.RecordBatch:
    """Wrap the buffers as Arrow columns; `corrupt` makes the error for a header name that is not UTF-8."""
    rows, state = columns.rows, columns.state
    arrays: list[ArrowArray] = [
        _binary(columns.keys, rows, state[State.KEY_BYTES], state[State.KEY_NULLS], pa.binary()),
        _binary(columns.values, rows, state[State.VALUE_BYTES], state[State.VALUE_NULLS], pa.binary()),
        _repeated(topic, rows),
        pa.array(np.full(rows, partition, dtype=np.int32)),
        pa.array(columns.offsets[:rows]),
        pa.Array.from_buffers(_TIMESTAMP, rows, [None, buffer_of(columns.timestamps_us[:rows])]),
        pa.array(timestamp_types),
    ]
    if len(columns.header_lists) == 0:
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    try:
        arrays.append(_headers(columns))
    except pa.ArrowInvalid as error:
        raise corrupt(f"a header name is not UTF-8: {error}", int(columns.offsets[0])) from None
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA_WITH_HEADERS)


def _binary(cells: CellBuffers, rows: int, used_bytes: int, nulls: int, kind: pa.DataType) -> ArrowArray:
    valid = buffer_of(cells.valid[: (rows + 7) // 8]) if nulls else None
    buffers = [valid, buffer_of(cells.offsets[: rows + 1]), buffer_of(cells.data[: int(used_bytes)])]
    return pa.Array.from_buffers(kind, rows, buffers, int(nulls))


def _repeated(text: str, rows: int) -> ArrowArray:
    encoded = text.encode()
    if rows * len(encoded) > _COLUMN_BYTES_MAX:
        raise ProtocolError(f"{rows} records at once are too many for the topic column", next_command="fetch less")
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(len(encoded))
    return pa.Array.from_buffers(pa.string(), rows, [None, buffer_of(ends), pa.py_buffer(encoded * rows)], 0)


def _headers(columns: ColumnBuffers) -> ArrowArray:
    rows, state = columns.rows, columns.state
    count = int(state[State.HEADERS])
    names = _binary(columns.header_names, count, state[State.HEADER_NAME_BYTES], 0, pa.string())
    names.validate(full=True)
    nulls = state[State.HEADER_VALUE_NULLS]
    values = _binary(columns.header_values, count, state[State.HEADER_VALUE_BYTES], nulls, pa.binary())
    pairs = pa.StructArray.from_arrays([names, values], fields=list(_HEADER))
    ends = columns.header_lists[: rows + 1]
    present = np.packbits(ends[1:] > ends[:-1], bitorder="little")
    buffers: list[pa.Buffer | None] = [buffer_of(present), buffer_of(ends)]
    return pa.Array.from_buffers(pa.list_(_HEADER), rows, buffers, children=[pairs])

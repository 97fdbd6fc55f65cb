"""Arrow columns as kernels want them: plain numpy views of their buffers, whatever the type, slice or chunking.

Keeps: bad input is a ConfigError that names the column; nothing is copied but 32-bit offsets, widened to 64.
"""

from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.errors import ConfigError
from semel.protocol.arrow_types import ArrowArray, ArrowColumn, Bytes, Numbers, address_of, view_of
from semel.protocol.kernels.encode import Column, HeaderColumn

_NO_BYTES: Bytes = np.empty(0, dtype=np.uint8)
_NO_NUMBERS: Numbers = np.empty(0, dtype=np.int64)


class BinaryInput(NamedTuple):
    """One binary column; no validity bits means that all are valid."""

    data: Bytes
    offsets: Numbers
    valid: Bytes
    valid_start: int

    def addresses(self) -> Column:
        """Give the kernel's view of it."""
        return Column(address_of(self.data), address_of(self.offsets), _valid_address(self.valid), self.valid_start)


class HeaderInput(NamedTuple):
    """The nested headers column; no lists means no headers."""

    lists: Numbers
    valid: Bytes
    valid_start: int
    names: BinaryInput
    values: BinaryInput

    def addresses(self) -> HeaderColumn:
        """Give the kernel's view of it."""
        lists = address_of(self.lists) if len(self.lists) else 0
        nested = self.names.addresses(), self.values.addresses()
        return HeaderColumn(lists, _valid_address(self.valid), self.valid_start, *nested)


def _valid_address(valid: Bytes) -> int:
    return address_of(valid) if len(valid) else 0


def input_column(column: ArrowColumn, count: int, name: str) -> BinaryInput:
    """Take a binary or string column of any width; others are refused, since their bytes are a serializer's choice."""
    array = _single(column)
    if len(array) != count:
        raise ConfigError(f"column {name!r} has {len(array)} rows, the values {count}")
    if pa.types.is_null(array.type):
        return null_column(count)
    array = _as_binary(array, name)
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    validity, offsets, data = array.buffers()
    # The validity bits cannot be sliced at a byte, so the kernel gets the bit at which the slice begins.
    return BinaryInput(_bytes(data), _offsets(offsets, array, wide), _bytes(validity), array.offset)


def null_column(count: int) -> BinaryInput:
    """Stand in for a column where every cell is null."""
    return BinaryInput(_NO_BYTES, np.zeros(count + 1, dtype=np.int64), np.zeros(count // 8 + 1, dtype=np.uint8), 0)


def header_column(column: ArrowColumn | None, count: int) -> HeaderInput:
    """Take a list<struct<name string, value binary>> column, or none."""
    # A column of nulls is no headers at all, which is much cheaper to encode.
    if column is None or (column.null_count == len(column) == count):
        return HeaderInput(_NO_NUMBERS, _NO_BYTES, 0, null_column(0), null_column(0))
    array = _single(column)
    wide = pa.types.is_large_list(array.type)
    if not (wide or pa.types.is_list(array.type)) or not pa.types.is_struct(array.type.value_type):
        raise ConfigError(f"headers must be a list of (key, value) structs, not {array.type}")
    if len(array) != count:
        raise ConfigError(f"column 'headers' has {len(array)} rows, the values {count}")
    # `values` and not `flatten()`: the list's offsets count from the beginning of the whole child array.
    pairs = cast("pa.ListArray[Any]", array).values
    names, values = _header_fields(pairs)
    validity, offsets = array.buffers()[:2]
    return HeaderInput(
        _offsets(offsets, array, wide),
        _bytes(validity),
        array.offset,
        input_column(names, len(pairs), "headers.key"),
        input_column(values, len(pairs), "headers.value"),
    )


def _header_fields(pairs: ArrowArray) -> tuple[ArrowArray, ArrowArray]:
    if pairs.type.num_fields != 2:
        raise ConfigError(f"headers must have two fields, key and value, not {pairs.type}")
    structs = cast(pa.StructArray, pairs)
    # By position: Spark calls them key and value, other tools have other names.
    names, values = structs.field(0), structs.field(1)
    if not (pa.types.is_string(names.type) or pa.types.is_large_string(names.type)):
        raise ConfigError(f"header names must be strings, not {names.type}")
    if names.null_count or pairs.null_count:
        raise ConfigError("a header has no name", because="Kafka allows null header values, but not null names")
    return names, values


def timestamps_in_ms(times: ArrowArray | npt.NDArray[np.int64] | int, count: int) -> Numbers:
    """Take one time for all rows, or one a row."""
    if isinstance(times, int):
        return np.full(count, times, dtype=np.int64)
    if isinstance(times, pa.Array):
        if times.null_count:
            raise ConfigError("a timestamp is null")
        # Not safe: Spark's microseconds become milliseconds, which is all that Kafka keeps.
        as_ms = times.cast(pa.timestamp("ms"), safe=False) if pa.types.is_timestamp(times.type) else times
        times = as_ms.cast(pa.int64()).to_numpy()
    if len(times) != count:
        raise ConfigError(f"{len(times)} timestamps for {count} rows")
    return np.ascontiguousarray(times, dtype=np.int64)


def row_numbers(rows: npt.NDArray[np.int64] | None, count: int) -> Numbers:
    """Take the chosen rows, checked, or all of them."""
    if rows is None:
        return np.arange(count, dtype=np.int64)
    chosen = np.ascontiguousarray(rows, dtype=np.int64)
    if len(chosen) and not (int(chosen.min()) >= 0 and int(chosen.max()) < count):
        raise ConfigError(f"row numbers must lie between 0 and {count - 1}")
    return chosen


def _single(column: ArrowColumn) -> ArrowArray:
    if not isinstance(column, pa.ChunkedArray):
        return column
    # One array even where 32-bit offsets would overflow: widen first, which copies offsets only.
    joined: Any = column.chunk(0) if column.num_chunks == 1 else column.cast(_widened(column.type)).combine_chunks()
    return cast(ArrowArray, joined)


def _widened(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary(kind) else kind


def _as_binary(array: ArrowArray, name: str) -> ArrowArray:
    kind = array.type
    if any(test(kind) for test in (pa.types.is_binary, pa.types.is_string)):
        return array
    if pa.types.is_large_binary(kind) or pa.types.is_large_string(kind):
        return array
    if pa.types.is_fixed_size_binary(kind) or str(kind) in ("binary_view", "string_view"):
        # Rare kinds, whose buffers look different: these are copied.
        return array.cast(pa.binary())
    raise ConfigError(f"column {name!r} must be binary or string, not {kind}")


def _offsets(buffer: pa.Buffer | None, array: ArrowArray, wide: bool) -> Numbers:
    if buffer is None or buffer.size == 0:
        return np.zeros(len(array) + 1, dtype=np.int64)
    whole = np.frombuffer(view_of(buffer), dtype=np.dtype("i8" if wide else "i4"))
    # A slice of an array shares its buffers and only begins elsewhere in them.
    return whole[array.offset : array.offset + len(array) + 1].astype(np.int64, copy=False)


def _bytes(buffer: pa.Buffer | None) -> Bytes:
    if buffer is None or buffer.size == 0:
        return _NO_BYTES
    return np.frombuffer(view_of(buffer), dtype=np.uint8)

"""Kernel that writes: rows of Arrow columns as the records of one batch, up to a size limit."""

from typing import Any, NamedTuple

from semel.protocol.kernels.decode import BYTES, BYTES_OUT
from semel.protocol.kernels.jit import helper, kernel, types
from semel.protocol.kernels.memory import copy_bytes, is_valid, poke, varint_size, write_varint

INT64 = types.Array(types.int64, 1, "C", readonly=True)
RECORD_OVERHEAD_BYTES_MAX = 36
HEADER_OVERHEAD_BYTES_MAX = 10


class Column(NamedTuple):
    """One binary input column: bytes, 64-bit offsets from the first row on, validity bits from `valid_start` on."""

    data: Any
    offsets: Any
    valid: Any
    valid_start: int


class HeaderColumn(NamedTuple):
    """The nested headers input column; empty `lists` means no headers at all."""

    lists: Any
    valid: Any
    valid_start: int
    names: Column
    values: Column


_COLUMN = types.NamedTuple((BYTES, INT64, BYTES, types.int64), Column)
_HEADER_COLUMN = types.NamedTuple((INT64, BYTES, types.int64, _COLUMN, _COLUMN), HeaderColumn)


@helper
def _length(column: Any, row: int) -> int:
    """Return the length of a cell, -1 for null."""
    if is_valid(column.valid, column.valid_start + row):
        length: int = column.offsets[row + 1] - column.offsets[row]
        return length
    return -1


@helper
def _field_size(length: int) -> int:
    return varint_size(length) + max(length, 0)


@helper
def _write_field(target: Any, at: int, column: Any, row: int, length: int) -> int:
    at = write_varint(target, at, length)
    if length > 0:
        copy_bytes(target, at, column.data, column.offsets[row], length)
        at += length
    return at


@helper
def _header_range(headers: Any, row: int) -> tuple[int, int]:
    if len(headers.lists) == 0 or not is_valid(headers.valid, headers.valid_start + row):
        return 0, 0
    return headers.lists[row], headers.lists[row + 1]


@helper
def _headers_size(headers: Any, first: int, last: int) -> int:
    size = varint_size(last - first)
    for index in range(first, last):
        size += _field_size(_length(headers.names, index)) + _field_size(_length(headers.values, index))
    return size


@helper
def _write_headers(target: Any, at: int, headers: Any, first: int, last: int) -> int:
    at = write_varint(target, at, last - first)
    for index in range(first, last):
        at = _write_field(target, at, headers.names, index, _length(headers.names, index))
        at = _write_field(target, at, headers.values, index, _length(headers.values, index))
    return at


@kernel(types.int64(_COLUMN, _COLUMN, _HEADER_COLUMN, INT64))
def measure_rows(keys: Any, values: Any, headers: Any, rows: Any) -> int:
    """Return a size that the records of these rows cannot pass."""
    size = 0
    for index in range(len(rows)):
        row = rows[index]
        size += RECORD_OVERHEAD_BYTES_MAX + max(_length(keys, row), 0) + max(_length(values, row), 0)
        header_first, header_last = _header_range(headers, row)
        for header in range(header_first, header_last):
            size += HEADER_OVERHEAD_BYTES_MAX
            size += max(_length(headers.names, header), 0) + max(_length(headers.values, header), 0)
    return size


@kernel(
    types.UniTuple(types.int64, 3)(
        _COLUMN, _COLUMN, _HEADER_COLUMN, INT64, INT64, types.int64, BYTES_OUT, types.int64, types.int64
    )
)
def encode_rows(  # noqa: PLR0917  (kernels take positions only)
    keys: Any,
    values: Any,
    headers: Any,
    timestamps_ms: Any,
    rows: Any,
    first: int,
    target: Any,
    start: int,
    limit: int,
) -> tuple[int, int, int]:
    """Write rows[first:] at `start` until the next would pass `limit`; at least one is written.

    Returns the index of the first row left, the position after the last record and the greatest timestamp.
    """
    at, index = start, first
    base_ms = timestamps_ms[rows[first]]
    max_ms = base_ms
    while index < len(rows):
        row = rows[index]
        key_length, value_length = _length(keys, row), _length(values, row)
        time_ms = timestamps_ms[row]
        header_first, header_last = _header_range(headers, row)
        body = 1 + varint_size(time_ms - base_ms) + varint_size(index - first)
        body += _field_size(key_length) + _field_size(value_length)
        body += 1 if header_first == header_last else _headers_size(headers, header_first, header_last)
        if index > first and at + varint_size(body) + body > limit:
            break
        at = write_varint(target, at, body)
        poke(target, at, 0)
        at = write_varint(target, at + 1, time_ms - base_ms)
        at = write_varint(target, at, index - first)
        at = _write_field(target, at, keys, row, key_length)
        at = _write_field(target, at, values, row, value_length)
        if header_first == header_last:
            poke(target, at, 0)
            at += 1
        else:
            at = _write_headers(target, at, headers, header_first, header_last)
        max_ms = max(max_ms, time_ms)
        index += 1
    return index, at, max_ms

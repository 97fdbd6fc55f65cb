"""Kernel that copies the records of checked batches into columns.

Why: `check_spans` has judged the same spans before, so nothing is checked here, and every buffer has its exact size.
"""

from typing import Any, NamedTuple

from semel.protocol.kernels.check import ADDRESS, TABLE, WINDOW
from semel.protocol.kernels.jit import inlined, kernel, types
from semel.protocol.kernels.memory import (
    copy_bytes,
    load_big16,
    load_big32,
    load_big64,
    load_byte,
    load_item64,
    mark_null,
    store_item32,
    store_item64,
)

_APPEND_TIME_BIT = 8
_ROWS, _KEY_BYTES, _VALUE_BYTES, _HEADERS, _NAME_BYTES, _HVALUE_BYTES = 0, 1, 2, 5, 6, 7


class Cells(NamedTuple):
    """Addresses of one binary column under construction: bytes, Arrow offsets, validity bits preset to one.

    Without nulls there are no validity bits.
    """

    data: int
    offsets: int
    valid: int


class HeaderCells(NamedTuple):
    """Addresses of the nested headers column under construction; zero `lists` means not wanted."""

    lists: int
    names: Cells
    values: Cells


_CELLS = types.NamedUniTuple(ADDRESS, 3, Cells)
_HEADER_CELLS = types.NamedTuple((ADDRESS, _CELLS, _CELLS), HeaderCells)


@inlined
def _next_varint(source: int, at: int) -> tuple[int, int]:
    byte = load_byte(source, at)
    raw, shift = byte & 0x7F, 7
    at += 1
    while byte >= 0x80:
        byte = load_byte(source, at)
        raw |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    return ((raw >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(raw & 1), at


@inlined
def _put_field(cells: Cells, row: int, used: int, source: int, at: int) -> tuple[int, int]:
    """Append a nullable field; return the bytes used in the column and the position after the field."""
    length, at = _next_varint(source, at)
    if length > 0:
        copy_bytes(cells.data, used, source, at, length)
        used += length
        at += length
    elif length < 0:
        mark_null(cells.valid, row)
    store_item32(cells.offsets, row + 1, used)
    return used, at


@inlined
def _put_headers(cells: HeaderCells, row: int, source: int, at: int, sums: int) -> None:
    count, at = _next_varint(source, at)
    for _ in range(count):
        header = load_item64(sums, _HEADERS)
        name_used, at = _put_field(cells.names, header, load_item64(sums, _NAME_BYTES), source, at)
        value_used, at = _put_field(cells.values, header, load_item64(sums, _HVALUE_BYTES), source, at)
        store_item64(sums, _NAME_BYTES, name_used)
        store_item64(sums, _HVALUE_BYTES, value_used)
        store_item64(sums, _HEADERS, header + 1)
    store_item32(cells.lists, row + 1, load_item64(sums, _HEADERS))


@kernel(types.void(ADDRESS, ADDRESS, TABLE, WINDOW, _CELLS, _CELLS, ADDRESS, ADDRESS, _HEADER_CELLS, ADDRESS))
def fill_columns(  # noqa: PLR0917  (kernels take positions only)
    batches: int,
    source: int,
    spans: Any,
    window: tuple[int, int],
    keys: Cells,
    values: Cells,
    offsets: int,
    timestamps_us: int,
    headers: HeaderCells,
    sums: int,
) -> None:
    """Append the records of each span that lie in the window; `sums` carries the progress from call to call."""
    row = load_item64(sums, _ROWS)
    key_used, value_used = load_item64(sums, _KEY_BYTES), load_item64(sums, _VALUE_BYTES)
    for span in range(len(spans)):
        header, at = spans[span, 0], spans[span, 1]
        base_offset = load_big64(batches, header)
        is_append_time = load_big16(batches, header + 21) & _APPEND_TIME_BIT != 0
        time_ms = load_big64(batches, header + 35) if is_append_time else load_big64(batches, header + 27)
        for _ in range(load_big32(batches, header + 57)):
            length, at = _next_varint(source, at)
            record_end = at + length
            time_delta_ms, at = _next_varint(source, at + 1)
            delta, at = _next_varint(source, at)
            offset = base_offset + delta
            if window[0] <= offset < window[1]:
                key_used, at = _put_field(keys, row, key_used, source, at)
                value_used, at = _put_field(values, row, value_used, source, at)
                store_item64(offsets, row, offset)
                store_item64(timestamps_us, row, (time_ms if is_append_time else time_ms + time_delta_ms) * 1000)
                if headers.lists != 0:
                    _put_headers(headers, row, source, at, sums)
                row += 1
            at = record_end
    store_item64(sums, _ROWS, row)
    store_item64(sums, _KEY_BYTES, key_used)
    store_item64(sums, _VALUE_BYTES, value_used)

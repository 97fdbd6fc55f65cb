"""Record headers: checked and added up while records are decoded, copied into columns afterwards.

Why: most records have none, so decoding only notes where each record's headers begin, and the few that are wanted are
     copied by a kernel of their own, into buffers of exactly their size. They have been checked by then.
"""

from typing import NamedTuple

from semel.protocol.kernels.check import ADDRESS, CELLS, Cells, Defect, Total
from semel.protocol.kernels.jit import called, inlined, kernel, types
from semel.protocol.kernels.memory import (
    add_item64,
    copy_bytes,
    load_item64,
    mark_null,
    next_varint,
    read_varint,
    store_item32,
)

_HEADER_BYTES_MIN = 2

# Plain integers: compiled code cannot look inside an enum cheaply.
_HEADERS, _NAME_BYTES = int(Total.HEADERS), int(Total.HEADER_NAME_BYTES)
_VALUE_BYTES, _VALUE_NULLS = int(Total.HEADER_VALUE_BYTES), int(Total.HEADER_VALUE_NULLS)
_FIELD_LENGTH = int(Defect.FIELD_LENGTH)
_HEADER_COUNT = int(Defect.HEADER_COUNT)
_HEADER_NAME = int(Defect.HEADER_NAME)


class HeaderCells(NamedTuple):
    """Addresses of the nested headers column under construction."""

    lists: int
    names: Cells
    values: Cells


_HEADER_CELLS = types.NamedTuple((ADDRESS, CELLS, CELLS), HeaderCells)


@inlined
def read_length(source: int, at: int, end: int) -> tuple[int, int]:
    """Return the length of a nullable field, -1 for null, and where it starts, or a negative Defect."""
    length, start = read_varint(source, at, end)
    if start < 0:
        return 0, start
    if length < -1 or length > end - start:
        return 0, -_FIELD_LENGTH
    return length, start


@called
def skip_headers(source: int, at: int, end: int, keep: bool, sums: int) -> int:
    """Check the headers of one record; return the position after them, or a negative Defect."""
    count, at = read_varint(source, at, end)
    if at < 0:
        return at
    if count < 0 or count > (end - at) // _HEADER_BYTES_MIN:
        return -_HEADER_COUNT
    for _ in range(count):
        name_length, at = read_length(source, at, end)
        if at < 0:
            return at
        if name_length < 0:
            return -_HEADER_NAME
        value_length, at = read_length(source, at + name_length, end)
        if at < 0:
            return at
        at += max(value_length, 0)
        if keep:
            add_item64(sums, _HEADERS, 1)
            add_item64(sums, _NAME_BYTES, name_length)
            add_item64(sums, _VALUE_BYTES, max(value_length, 0))
            # Added up here, so that `fill_headers` gets buffers of exactly the right size and checks nothing any more.
            add_item64(sums, _VALUE_NULLS, value_length < 0)
    return at


@inlined
def _put_field(cells: Cells, row: int, used: int, address: int) -> tuple[int, int]:
    """Append a nullable field; return the bytes used in the column and the address after the field."""
    length, address = next_varint(address)
    if length > 0:
        copy_bytes(cells.data, used, address, 0, length)
        used += length
        address += length
    elif length < 0:
        mark_null(cells.valid, row)
    store_item32(cells.offsets, row + 1, used)
    return used, address


@kernel(types.void(ADDRESS, types.int64, _HEADER_CELLS))
def fill_headers(places: int, rows: int, cells: HeaderCells) -> None:
    """Copy the headers of each record, whose addresses are in `places`."""
    header = name_used = value_used = 0
    for row in range(rows):
        count, address = next_varint(load_item64(places, row))
        for _ in range(count):
            name_used, address = _put_field(cells.names, header, name_used, address)
            value_used, address = _put_field(cells.values, header, value_used, address)
            header += 1
        store_item32(cells.lists, row + 1, header)

"""Kernels that read: the headers of all batches in a buffer, and the records of chosen batches into columns.

Keeps: P1 every length, count and delta is checked against its bounds before a byte is touched; what is wrong comes
       back as a `Fault` with batch and position, never as a crash or a wrong record.
"""

from enum import IntEnum
from typing import Any, NamedTuple

from semel.protocol.kernels.jit import helper, kernel, types
from semel.protocol.kernels.memory import (
    copy_bytes,
    load_big16,
    load_big32,
    load_big64,
    load_byte,
    mark_null,
    read_varint,
    read_varlong,
    store_item32,
    store_item64,
)


class Fault(IntEnum):
    """What is wrong with a batch; the texts are in `columns.py`."""

    NONE = 0
    VARINT_PAST_END = 1
    VARINT_TOO_LONG = 2
    RECORD_LENGTH = 3
    FIELD_LENGTH = 4
    OFFSET_DELTA = 5
    HEADER_COUNT = 6
    HEADER_NAME = 7
    RECORD_TRAILING = 8
    BATCH_TRAILING = 9
    TIMESTAMP_RANGE = 10
    MAGIC = 11
    BATCH_LENGTH = 12
    COUNT = 13
    OFFSET_ORDER = 14


class Cells(NamedTuple):
    """Addresses of one binary column under construction: bytes, Arrow offsets, validity bits preset to one."""

    data: int
    offsets: int
    valid: int


class HeaderCells(NamedTuple):
    """Addresses of the nested headers column under construction; zero `lists`: headers are checked and dropped."""

    lists: int
    names: Cells
    values: Cells


class State(IntEnum):
    """Places in the array that a decode call reads and updates."""

    ROWS = 0
    KEY_BYTES = 1
    VALUE_BYTES = 2
    KEY_NULLS = 3
    VALUE_NULLS = 4
    HEADERS = 5
    HEADER_NAME_BYTES = 6
    HEADER_VALUE_BYTES = 7
    HEADER_VALUE_NULLS = 8
    FAULT = 9
    FAULT_AT = 10


STATE_SIZE = len(State)
SCAN_COLUMNS = 7
SPAN_COLUMNS = 3

_LOG_OVERHEAD_BYTES = 12
_HEADER_BYTES = 61
_RECORD_BYTES_MIN = 7
_TIMESTAMP_MS_MAX = 9_223_372_036_854_775
_APPEND_TIME_BIT = 8
_MAGIC_2 = 2

# Plain integers: compiled code cannot look inside an enum cheaply.
_ROWS, _KEY_BYTES, _VALUE_BYTES, _KEY_NULLS, _VALUE_NULLS = (int(place) for place in list(State)[:5])
_HEADERS, _NAME_BYTES, _HVALUE_BYTES, _HVALUE_NULLS, _FAULT, _FAULT_AT = (int(place) for place in list(State)[5:])
_RECORD_LENGTH = int(Fault.RECORD_LENGTH)
_FIELD_LENGTH = int(Fault.FIELD_LENGTH)
_OFFSET_DELTA = int(Fault.OFFSET_DELTA)
_HEADER_COUNT = int(Fault.HEADER_COUNT)
_HEADER_NAME = int(Fault.HEADER_NAME)
_RECORD_TRAILING = int(Fault.RECORD_TRAILING)
_BATCH_TRAILING = int(Fault.BATCH_TRAILING)
_TIMESTAMP_RANGE = int(Fault.TIMESTAMP_RANGE)
_MAGIC = int(Fault.MAGIC)
_BATCH_LENGTH = int(Fault.BATCH_LENGTH)
_COUNT = int(Fault.COUNT)
_OFFSET_ORDER = int(Fault.OFFSET_ORDER)

ADDRESS = types.int64
TABLE = types.Array(types.int64, 2, "C")
STATE = types.Array(types.int64, 1, "C")
_CELLS = types.NamedUniTuple(ADDRESS, 3, Cells)
_HEADER_CELLS = types.NamedTuple((ADDRESS, _CELLS, _CELLS), HeaderCells)


@kernel(types.UniTuple(types.int64, 3)(ADDRESS, types.int64, TABLE))
def scan_batches(source: int, size: int, table: Any) -> tuple[int, int, int]:  # noqa: PLR0911  (one return a check)
    """Fill one row a whole batch: position, end, base offset, offset_next, attributes, count, CRC.

    Returns the rows filled, the position after the last, and a Fault for the batch there. A full table returns early.
    """
    at, offset_min = 0, -1
    for row in range(len(table)):
        left = size - at
        if left < _LOG_OVERHEAD_BYTES:
            return row, at, 0
        length = load_big32(source, at + 8)
        if length > left - _LOG_OVERHEAD_BYTES:
            return row, at, 0
        if length < _HEADER_BYTES - _LOG_OVERHEAD_BYTES:
            return row, at, _BATCH_LENGTH
        if load_byte(source, at + 16) != _MAGIC_2:
            return row, at, _MAGIC
        base_offset = load_big64(source, at)
        attributes = load_big16(source, at + 21)
        last_delta = load_big32(source, at + 23)
        count = load_big32(source, at + 57)
        if count < 0 or last_delta < 0 or count > last_delta + 1:
            return row, at, _COUNT
        if base_offset < 0 or base_offset < offset_min or base_offset > 0x7FFFFFFFFFFFFFFF - 1 - last_delta:
            return row, at, _OFFSET_ORDER
        offset_min = base_offset + last_delta + 1
        table[row, 0] = at
        at += _LOG_OVERHEAD_BYTES + length
        table[row, 1] = at
        table[row, 2] = base_offset
        table[row, 3] = offset_min
        table[row, 4] = attributes
        table[row, 5] = count
        table[row, 6] = load_big32(source, at - length - _LOG_OVERHEAD_BYTES + 17) & 0xFFFFFFFF
    return len(table), at, 0


@helper
def _put(  # noqa: PLR0917  (kernels take positions only)
    cells: Cells, row: int, used: int, source: int, at: int, length: int
) -> int:
    if length > 0:
        copy_bytes(cells.data, used, source, at, length)
        used += length
    elif length < 0:
        mark_null(cells.valid, row)
    store_item32(cells.offsets, row + 1, used)
    return used


@helper
def _read_field(source: int, at: int, end: int) -> tuple[int, int]:
    """Return the length of a nullable field and where it starts, or a negative Fault in place of the start."""
    length, start = read_varint(source, at, end)
    if start >= 0 and (length < -1 or length > end - start):
        return 0, -_FIELD_LENGTH
    return length, start


@helper
def _read_headers(  # noqa: PLR0917  (kernels take positions only)
    source: int, at: int, end: int, count: int, keep: bool, cells: Any, state: Any
) -> int:
    """Read `count` headers; return the position after them or a negative Fault."""
    if count < 0 or count > end - at:
        return -_HEADER_COUNT
    for _ in range(count):
        name_length, name_at = _read_field(source, at, end)
        if name_at < 0:
            return name_at
        if name_length < 0:
            return -_HEADER_NAME
        value_length, value_at = _read_field(source, name_at + name_length, end)
        if value_at < 0:
            return value_at
        at = value_at + max(value_length, 0)
        if keep:
            row = state[_HEADERS]
            state[_NAME_BYTES] = _put(cells.names, row, state[_NAME_BYTES], source, name_at, name_length)
            state[_HVALUE_BYTES] = _put(cells.values, row, state[_HVALUE_BYTES], source, value_at, value_length)
            state[_HVALUE_NULLS] += value_length < 0
            state[_HEADERS] = row + 1
    return at


@helper
def _fail(state: Any, rows: int, fault: int, at: int) -> None:
    state[_ROWS] = rows
    state[_FAULT] = fault
    state[_FAULT_AT] = at


@kernel(
    types.void(
        *(ADDRESS, ADDRESS, TABLE, types.int64, types.int64),
        *(_CELLS, _CELLS, ADDRESS, ADDRESS, _HEADER_CELLS, STATE),
    )
)
def decode_spans(  # noqa: C901, PLR0911, PLR0912, PLR0917  (one return a check, in the order of the format)
    batches: int,
    source: int,
    spans: Any,
    offset_start: int,
    offset_end: int,
    keys: Cells,
    values: Cells,
    offsets: int,
    timestamps_us: int,
    headers: HeaderCells,
    state: Any,
) -> None:
    """Append the records of each span to the columns.

    A span is the position of a batch header in `batches` and where its records begin and end in `source`, which
    differ when they were compressed. One function, since the order of checks is the format's own order.
    """
    row, key_used, value_used = state[_ROWS], state[_KEY_BYTES], state[_VALUE_BYTES]
    key_nulls, value_nulls = state[_KEY_NULLS], state[_VALUE_NULLS]
    keep_headers = headers.lists != 0
    for span in range(len(spans)):
        header, at, end = spans[span, 0], spans[span, 1], spans[span, 2]
        base_offset = load_big64(batches, header)
        is_append_time = load_big16(batches, header + 21) & _APPEND_TIME_BIT != 0
        last_delta = load_big32(batches, header + 23)
        time_ms = load_big64(batches, header + 35) if is_append_time else load_big64(batches, header + 27)
        delta_min = 0
        if time_ms > _TIMESTAMP_MS_MAX or time_ms < -_TIMESTAMP_MS_MAX:
            return _fail(state, row, _TIMESTAMP_RANGE, header)
        for _ in range(load_big32(batches, header + 57)):
            length, at = read_varint(source, at, end)
            if at < 0:
                return _fail(state, row, -at, header)
            if length < _RECORD_BYTES_MIN - 1 or length > end - at:
                return _fail(state, row, _RECORD_LENGTH, header)
            record_end = at + length
            time_delta_ms, at = read_varlong(source, at + 1, record_end)
            if at < 0:
                return _fail(state, row, -at, header)
            if time_delta_ms > 2 * _TIMESTAMP_MS_MAX or time_delta_ms < -2 * _TIMESTAMP_MS_MAX:
                return _fail(state, row, _TIMESTAMP_RANGE, header)
            record_ms = time_ms if is_append_time else time_ms + time_delta_ms
            if record_ms > _TIMESTAMP_MS_MAX or record_ms < -_TIMESTAMP_MS_MAX:
                return _fail(state, row, _TIMESTAMP_RANGE, header)
            delta, at = read_varint(source, at, record_end)
            if at < 0:
                return _fail(state, row, -at, header)
            if delta < delta_min or delta > last_delta:
                return _fail(state, row, _OFFSET_DELTA, header)
            delta_min = delta + 1
            key_length, key_at = _read_field(source, at, record_end)
            if key_at < 0:
                return _fail(state, row, -key_at, header)
            value_length, value_at = _read_field(source, key_at + max(key_length, 0), record_end)
            if value_at < 0:
                return _fail(state, row, -value_at, header)
            header_count, at = read_varint(source, value_at + max(value_length, 0), record_end)
            if at < 0:
                return _fail(state, row, -at, header)
            offset = base_offset + delta
            keep = offset_start <= offset < offset_end
            if header_count != 0:
                at = _read_headers(source, at, record_end, header_count, keep and keep_headers, headers, state)
                if at < 0:
                    return _fail(state, row, -at, header)
            if at != record_end:
                return _fail(state, row, _RECORD_TRAILING, header)
            if keep:
                key_used = _put(keys, row, key_used, source, key_at, key_length)
                value_used = _put(values, row, value_used, source, value_at, value_length)
                key_nulls += key_length < 0
                value_nulls += value_length < 0
                store_item64(offsets, row, offset)
                store_item64(timestamps_us, row, record_ms * 1000)
                row += 1
                if keep_headers:
                    store_item32(headers.lists, row, state[_HEADERS])
        if at != end:
            return _fail(state, row, _BATCH_TRAILING, header)
    state[_ROWS], state[_KEY_BYTES], state[_VALUE_BYTES] = row, key_used, value_used
    state[_KEY_NULLS], state[_VALUE_NULLS] = key_nulls, value_nulls
    return None

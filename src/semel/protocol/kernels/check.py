"""Kernels that judge before anything is copied: the headers of all batches in a buffer, and every record of some.

Keeps: P1 every length, count and delta is checked against its bounds before a byte is touched; what is wrong comes
       back as a `Fault` with batch and position, never as a crash or a wrong record.
"""

from enum import IntEnum
from typing import Any

from semel.protocol.kernels.jit import inlined, kernel, types
from semel.protocol.kernels.memory import (
    add_item64,
    load_big16,
    load_big32,
    load_big64,
    load_byte,
    read_varint,
    read_varlong,
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


class Total(IntEnum):
    """Places in the array of sums: what `check_spans` adds up, and how far `fill_columns` has come."""

    ROWS = 0
    KEY_BYTES = 1
    VALUE_BYTES = 2
    KEY_NULLS = 3
    VALUE_NULLS = 4
    HEADERS = 5
    HEADER_NAME_BYTES = 6
    HEADER_VALUE_BYTES = 7
    HEADER_VALUE_NULLS = 8
    FAULT_AT = 9


TOTALS = len(Total)
SCAN_COLUMNS = 7
SPAN_COLUMNS = 3

_LOG_OVERHEAD_BYTES = 12
_HEADER_BYTES = 61
_RECORD_BYTES_MIN = 6
_HEADER_BYTES_MIN = 2
_TIMESTAMP_MS_MAX = 9_223_372_036_854_775
_APPEND_TIME_BIT = 8
_MAGIC_2 = 2

# Plain integers: compiled code cannot look inside an enum cheaply.
_ROWS, _KEY_BYTES, _VALUE_BYTES, _KEY_NULLS, _VALUE_NULLS = (int(place) for place in list(Total)[:5])
_HEADERS, _NAME_BYTES, _HVALUE_BYTES, _HVALUE_NULLS, _FAULT_AT = (int(place) for place in list(Total)[5:])
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
WINDOW = types.UniTuple(types.int64, 2)


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


@inlined
def _skip_field(source: int, at: int, end: int) -> tuple[int, int]:
    """Return the length of a nullable field, -1 for null, and the position after it, or a negative Fault."""
    length, start = read_varint(source, at, end)
    if start < 0:
        return 0, start
    if length < -1 or length > end - start:
        return 0, -_FIELD_LENGTH
    return length, start + max(length, 0)


@inlined
def _skip_headers(source: int, at: int, end: int, keep: bool, sums: int) -> int:
    """Check the headers of one record; return the position after them, or a negative Fault."""
    count, at = read_varint(source, at, end)
    if at < 0:
        return at
    if count < 0 or count > (end - at) // _HEADER_BYTES_MIN:
        return -_HEADER_COUNT
    for _ in range(count):
        name_length, at = _skip_field(source, at, end)
        if at < 0:
            return at
        if name_length < 0:
            return -_HEADER_NAME
        value_length, at = _skip_field(source, at, end)
        if at < 0:
            return at
        if keep:
            add_item64(sums, _HEADERS, 1)
            add_item64(sums, _NAME_BYTES, name_length)
            add_item64(sums, _HVALUE_BYTES, max(value_length, 0))
            add_item64(sums, _HVALUE_NULLS, value_length < 0)
    return at


@inlined
def _time_fault(time_ms: int, delta_ms: int) -> bool:
    """Whether time + delta leaves the range of 64-bit microseconds; nothing here can overflow."""
    if abs(time_ms) > _TIMESTAMP_MS_MAX or abs(delta_ms) > 2 * _TIMESTAMP_MS_MAX:
        return True
    return abs(time_ms + delta_ms) > _TIMESTAMP_MS_MAX


@inlined
def _check_batch(  # noqa: C901, PLR0911, PLR0917  (one return a check, in the order of the format)
    batches: int, header: int, source: int, at: int, end: int, window: tuple[int, int], sums: int
) -> int:
    """Check every record of one batch and add up those in the window; return a Fault."""
    base_offset, last_delta = load_big64(batches, header), load_big32(batches, header + 23)
    is_append_time = load_big16(batches, header + 21) & _APPEND_TIME_BIT != 0
    time_ms = load_big64(batches, header + 35) if is_append_time else load_big64(batches, header + 27)
    rows = key_bytes = value_bytes = key_nulls = value_nulls = delta_min = 0
    for _ in range(load_big32(batches, header + 57)):
        length, at = read_varint(source, at, end)
        if at < 0:
            return -at
        if length < _RECORD_BYTES_MIN or length > end - at:
            return _RECORD_LENGTH
        record_end = at + length
        time_delta_ms, at = read_varlong(source, at + 1, record_end)
        if at < 0:
            return -at
        if _time_fault(time_ms, 0 if is_append_time else time_delta_ms):
            return _TIMESTAMP_RANGE
        delta, at = read_varint(source, at, record_end)
        if at < 0:
            return -at
        if delta < delta_min or delta > last_delta:
            return _OFFSET_DELTA
        delta_min = delta + 1
        key_length, at = _skip_field(source, at, record_end)
        if at < 0:
            return -at
        value_length, at = _skip_field(source, at, record_end)
        if at < 0:
            return -at
        keep = window[0] <= base_offset + delta < window[1]
        at = _skip_headers(source, at, record_end, keep, sums)
        if at < 0:
            return -at
        if at != record_end:
            return _RECORD_TRAILING
        if keep:
            rows += 1
            key_bytes += max(key_length, 0)
            value_bytes += max(value_length, 0)
            key_nulls += key_length < 0
            value_nulls += value_length < 0
    add_item64(sums, _ROWS, rows)
    add_item64(sums, _KEY_BYTES, key_bytes)
    add_item64(sums, _VALUE_BYTES, value_bytes)
    add_item64(sums, _KEY_NULLS, key_nulls)
    add_item64(sums, _VALUE_NULLS, value_nulls)
    return 0 if at == end else _BATCH_TRAILING


@kernel(types.int64(ADDRESS, ADDRESS, TABLE, WINDOW, ADDRESS))
def check_spans(batches: int, source: int, spans: Any, window: tuple[int, int], sums: int) -> int:
    """Check each span and add up the sizes of its records with window[0] <= offset < window[1]; return a Fault.

    A span is the position of a batch header in `batches` and where its records begin and end in `source`, which
    differ when they were compressed. At a fault its header position is left in the sums.
    """
    for span in range(len(spans)):
        fault = _check_batch(batches, spans[span, 0], source, spans[span, 1], spans[span, 2], window, sums)
        if fault != 0:
            store_item64(sums, _FAULT_AT, spans[span, 0])
            return fault
    return 0

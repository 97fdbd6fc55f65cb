"""Kernel that writes: rows of Arrow columns as whole batches, headers included, all but the checksum."""

from typing import Any, NamedTuple

from semel.protocol.kernels.check import ADDRESS, TABLE
from semel.protocol.kernels.jit import inlined, kernel, types
from semel.protocol.kernels.memory import (
    copy_bytes,
    is_valid,
    load_item64,
    store_big16,
    store_big32,
    store_big64,
    store_byte,
    varint_size,
    write_varint,
)

RECORD_OVERHEAD_BYTES_MAX = 36
HEADER_OVERHEAD_BYTES_MAX = 10
BATCH_COLUMNS = 2

_HEADER_BYTES = 61
_LOG_OVERHEAD_BYTES = 12
_SEQUENCE_MASK = 0x7FFFFFFF


class Column(NamedTuple):
    """Addresses of one input column: bytes, 64-bit offsets of its rows, validity bits from `valid_start` on."""

    data: int
    offsets: int
    valid: int
    valid_start: int


class HeaderColumn(NamedTuple):
    """Addresses of the nested headers column; zero `lists` means no headers at all."""

    lists: int
    valid: int
    valid_start: int
    names: Column
    values: Column


class Stamp(NamedTuple):
    """What the header of every batch says about its producer; a negative sequence is none."""

    attributes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


_COLUMN = types.NamedUniTuple(ADDRESS, 4, Column)
_HEADER_COLUMN = types.NamedTuple((ADDRESS, ADDRESS, types.int64, _COLUMN, _COLUMN), HeaderColumn)
_STAMP = types.NamedUniTuple(types.int64, 4, Stamp)


@inlined
def _length(column: Column, row: int) -> int:
    """Return the length of a cell, -1 for null."""
    if is_valid(column.valid, column.valid_start + row):
        length: int = load_item64(column.offsets, row + 1) - load_item64(column.offsets, row)
        return length
    return -1


@inlined
def _field_size(length: int) -> int:
    return varint_size(length) + max(length, 0)


@inlined
def _write_field(target: int, at: int, column: Column, row: int, length: int) -> int:
    at = write_varint(target, at, length)
    if length > 0:
        copy_bytes(target, at, column.data, load_item64(column.offsets, row), length)
        at += length
    return at


@inlined
def _header_range(headers: HeaderColumn, row: int) -> tuple[int, int]:
    if headers.lists == 0 or not is_valid(headers.valid, headers.valid_start + row):
        return 0, 0
    return load_item64(headers.lists, row), load_item64(headers.lists, row + 1)


@inlined
def _headers_size(headers: HeaderColumn, first: int, last: int) -> int:
    size = varint_size(last - first)
    for index in range(first, last):
        size += _field_size(_length(headers.names, index)) + _field_size(_length(headers.values, index))
    return size


@inlined
def _write_headers(target: int, at: int, headers: HeaderColumn, first: int, last: int) -> int:
    at = write_varint(target, at, last - first)
    for index in range(first, last):
        at = _write_field(target, at, headers.names, index, _length(headers.names, index))
        at = _write_field(target, at, headers.values, index, _length(headers.values, index))
    return at


@inlined
def _write_header(  # noqa: PLR0917  (kernels take positions only)
    target: int, at: int, end: int, count: int, times_ms: tuple[int, int], stamp: Stamp
) -> None:
    store_big64(target, at, 0)
    store_big32(target, at + 8, end - at - _LOG_OVERHEAD_BYTES)
    store_big32(target, at + 12, -1)
    store_byte(target, at + 16, 2)
    store_big32(target, at + 17, 0)
    store_big16(target, at + 21, stamp.attributes)
    store_big32(target, at + 23, count - 1)
    store_big64(target, at + 27, times_ms[0])
    store_big64(target, at + 35, times_ms[1])
    store_big64(target, at + 43, stamp.producer_id)
    store_big16(target, at + 51, stamp.producer_epoch)
    store_big32(target, at + 53, stamp.base_sequence)
    store_big32(target, at + 57, count)


@kernel(types.int64(_COLUMN, _COLUMN, _HEADER_COLUMN, ADDRESS, types.int64))
def measure_rows(keys: Column, values: Column, headers: HeaderColumn, rows: int, count: int) -> int:
    """Return a size that the records of these rows cannot pass."""
    size = 0
    for index in range(count):
        row = load_item64(rows, index)
        size += RECORD_OVERHEAD_BYTES_MAX + max(_length(keys, row), 0) + max(_length(values, row), 0)
        header_first, header_last = _header_range(headers, row)
        for header in range(header_first, header_last):
            size += HEADER_OVERHEAD_BYTES_MAX
            size += max(_length(headers.names, header), 0) + max(_length(headers.values, header), 0)
    return size


@inlined
def _write_record(  # noqa: PLR0917  (kernels take positions only)
    keys: Column,
    values: Column,
    headers: HeaderColumn,
    row: int,
    deltas: tuple[int, int],
    target: int,
    at: int,
    limit: int,
) -> int:
    """Write one record unless it would pass `limit`; return the position after it, or zero."""
    key_length, value_length = _length(keys, row), _length(values, row)
    header_first, header_last = _header_range(headers, row)
    body = 1 + varint_size(deltas[0]) + varint_size(deltas[1]) + _field_size(key_length) + _field_size(value_length)
    body += 1 if header_first == header_last else _headers_size(headers, header_first, header_last)
    if at + varint_size(body) + body > limit and deltas[1] > 0:
        return 0
    at = write_varint(target, at, body)
    store_byte(target, at, 0)
    at = write_varint(target, at + 1, deltas[0])
    at = write_varint(target, at, deltas[1])
    at = _write_field(target, at, keys, row, key_length)
    at = _write_field(target, at, values, row, value_length)
    if header_first != header_last:
        return _write_headers(target, at, headers, header_first, header_last)
    store_byte(target, at, 0)
    return at + 1


@kernel(
    types.int64(
        *(_COLUMN, _COLUMN, _HEADER_COLUMN, ADDRESS, ADDRESS, types.int64),
        *(types.int64, _STAMP, ADDRESS, TABLE),
    )
)
def encode_batches(  # noqa: PLR0917  (kernels take positions only)
    keys: Column,
    values: Column,
    headers: HeaderColumn,
    timestamps_ms: int,
    rows: int,
    count: int,
    batch_bytes_max: int,
    stamp: Stamp,
    target: int,
    table: Any,
) -> int:
    """Write all rows as batches one after another; each holds at least one record, whatever the limit.

    Fills the end position and record count of each batch in `table` and returns how many there are.
    """
    at, index, batches, sequence = 0, 0, 0, stamp.base_sequence
    while index < count:
        start, first = at, index
        at += _HEADER_BYTES
        base_ms = load_item64(timestamps_ms, load_item64(rows, first))
        max_ms = base_ms
        while index < count:
            row = load_item64(rows, index)
            time_ms = load_item64(timestamps_ms, row)
            deltas = (time_ms - base_ms, index - first)
            after = _write_record(keys, values, headers, row, deltas, target, at, start + batch_bytes_max)
            if after == 0:
                break
            at = after
            max_ms = max(max_ms, time_ms)
            index += 1
        stamped = Stamp(stamp.attributes, stamp.producer_id, stamp.producer_epoch, sequence)
        _write_header(target, start, at, index - first, (base_ms, max_ms), stamped)
        if sequence >= 0:
            sequence = (sequence + index - first) & _SEQUENCE_MASK
        table[batches, 0] = at
        table[batches, 1] = index - first
        batches += 1
    return batches

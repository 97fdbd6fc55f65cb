"""Kernels that write rows of Arrow columns as whole batches: one divides them and adds up sizes, one writes."""

from typing import Any, NamedTuple

from semel.protocol.kernels.check import ADDRESS, TABLE
from semel.protocol.kernels.checksum import crc32c
from semel.protocol.kernels.jit import inlined, kernel, types
from semel.protocol.kernels.memory import (
    SHORT_BYTES_MAX,
    copy_bytes,
    copy_short,
    finish_streams,
    is_valid,
    load_item32,
    load_item64,
    store_big16,
    store_big32,
    store_big64,
    store_byte,
    store_item32,
    varint_size,
    write_varint,
)
from semel.protocol.kernels.scratch import SCRATCH, Scratch, Work, begin, clear, finish

RECORD_LENGTH_BYTES_MAX = 5
BATCH_COLUMNS = 3

_HEADER_BYTES = 61
_LOG_OVERHEAD_BYTES = 12
_CRC_AT, _CRC_START = 17, 21
# After 2^31 - 1 a producer's sequence goes on with 0.
_SEQUENCE_MASK = 0x7FFFFFFF


class Column(NamedTuple):
    """Addresses of one input column: bytes, 64-bit offsets of its rows, validity bits from `valid_start` on."""

    data: int
    offsets: int
    valid: int
    valid_start: int


class SizedColumn(NamedTuple):
    """A column with so many readable bytes: cells that end well before may be copied in whole chunks."""

    data: int
    offsets: int
    valid: int
    valid_start: int
    readable: int


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


class Rows(NamedTuple):
    """The input: columns, the times of all their rows, and the numbers of those to encode."""

    keys: SizedColumn
    values: SizedColumn
    headers: HeaderColumn
    timestamps_ms: int
    numbers: int
    numbers_count: int


class Output(NamedTuple):
    """Where batches go: to `target`, over the scratch area if there is one; whether checksums are computed here."""

    target: int
    scratch: Scratch
    is_sealed: bool


_COLUMN = types.NamedUniTuple(ADDRESS, 4, Column)
_SIZED_COLUMN = types.NamedUniTuple(ADDRESS, 5, SizedColumn)
_HEADER_COLUMN = types.NamedTuple((ADDRESS, ADDRESS, types.int64, _COLUMN, _COLUMN), HeaderColumn)
_ROWS = types.NamedTuple((_SIZED_COLUMN, _SIZED_COLUMN, _HEADER_COLUMN, ADDRESS, ADDRESS, types.int64), Rows)
_OUTPUT = types.NamedTuple((ADDRESS, SCRATCH, types.boolean), Output)
_STAMP = types.NamedUniTuple(types.int64, 4, Stamp)


@inlined
def _length(column: Column | SizedColumn, row: int) -> int:
    """Return the length of a cell, -1 for null."""
    if is_valid(column.valid, column.valid_start + row):
        length: int = load_item64(column.offsets, row + 1) - load_item64(column.offsets, row)
        return length
    return -1


@inlined
def _field_size(length: int) -> int:
    return varint_size(length) + max(length, 0)


@inlined
def _write_field(target: int, at: int, column: Column, row: int) -> int:
    length = _length(column, row)
    at = write_varint(target, at, length)
    if length > 0:
        copy_bytes(target, at, column.data, load_item64(column.offsets, row), length)
        at += length
    return at


@inlined
def _write_cell(target: int, at: int, column: SizedColumn, row: int) -> int:
    length = _length(column, row)
    at = write_varint(target, at, length)
    if length > 0:
        start = load_item64(column.offsets, row)
        if length <= SHORT_BYTES_MAX and start + SHORT_BYTES_MAX <= column.readable:
            copy_short(target + at, column.data + start, length)
        else:
            copy_bytes(target, at, column.data, start, length)
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
        at = _write_field(target, at, headers.names, index)
        at = _write_field(target, at, headers.values, index)
    return at


@inlined
def _write_header(target: int, size: int, count: int, times_ms: tuple[int, int], stamp: Stamp) -> None:
    store_big64(target, 0, 0)
    store_big32(target, 8, size - _LOG_OVERHEAD_BYTES)
    # Base offset 0 and leader epoch -1 are what a broker expects from a producer; it puts in its own.
    store_big32(target, 12, -1)
    store_byte(target, 16, 2)
    # The checksum covers all that comes behind it, so it is put in last.
    store_big32(target, 17, 0)
    store_big16(target, 21, stamp.attributes)
    store_big32(target, 23, count - 1)
    store_big64(target, 27, times_ms[0])
    store_big64(target, 35, times_ms[1])
    store_big64(target, 43, stamp.producer_id)
    store_big16(target, 51, stamp.producer_epoch)
    store_big32(target, 53, stamp.base_sequence)
    store_big32(target, 57, count)


@inlined
def _body_size(rows: Rows, row: int, deltas: tuple[int, int]) -> int:
    """Return the size of a record without the length at its front."""
    # One byte for the attributes; and at the end one for "no headers", where there are none.
    size: int = 1 + varint_size(deltas[0]) + varint_size(deltas[1])
    size += _field_size(_length(rows.keys, row)) + _field_size(_length(rows.values, row))
    first, last = _header_range(rows.headers, row)
    return size + 1 if first == last else size + _headers_size(rows.headers, first, last)


@inlined
def _write_record(rows: Rows, row: int, deltas: tuple[int, int], body: int, target: int) -> int:
    """Write one record and return its size."""
    at = write_varint(target, 0, body)
    store_byte(target, at, 0)
    at = write_varint(target, at + 1, deltas[0])
    at = write_varint(target, at, deltas[1])
    at = _write_cell(target, at, rows.keys, row)
    at = _write_cell(target, at, rows.values, row)
    first, last = _header_range(rows.headers, row)
    if first != last:
        return _write_headers(target, at, rows.headers, first, last)
    store_byte(target, at, 0)
    return at + 1


@kernel(types.UniTuple(types.int64, 3)(_ROWS, types.int64, ADDRESS, TABLE))
def plan_batches(rows: Rows, batch_bytes_max: int, bodies: int, table: Any) -> tuple[int, int, int]:
    """Divide rows into batches; each holds at least one record, whatever the limit.

    Fills the size of each record without its length, and of each batch its end position, its last row and its latest
    time. Returns how many batches there are, their size together, and the largest record's without its length.
    """
    at, index, batches, body_max = 0, 0, 0, 0
    while index < rows.numbers_count:
        first, size = index, _HEADER_BYTES
        base_ms = load_item64(rows.timestamps_ms, load_item64(rows.numbers, first))
        max_ms = base_ms
        while index < rows.numbers_count:
            row = load_item64(rows.numbers, index)
            time_ms = load_item64(rows.timestamps_ms, row)
            body = _body_size(rows, row, (time_ms - base_ms, index - first))
            after = size + varint_size(body) + body
            # Never before the first record: a record above the limit must go
            # somewhere, and the broker decides about it.
            if after > batch_bytes_max and index > first:
                break
            store_item32(bodies, index, body)
            size = after
            max_ms = max(max_ms, time_ms)
            body_max = max(body_max, body)
            index += 1
        at += size
        table[batches, 0] = at
        table[batches, 1] = index
        table[batches, 2] = max_ms
        batches += 1
    return batches, at, body_max


@kernel(types.void(_ROWS, ADDRESS, _STAMP, _OUTPUT, TABLE))
def encode_batches(rows: Rows, bodies: int, stamp: Stamp, output: Output, table: Any) -> None:
    """Write the batches that were planned, one after another."""
    target, first, sequence = output.target, 0, stamp.base_sequence
    for batch in range(len(table)):
        last, max_ms, end = table[batch, 1], table[batch, 2], output.target + table[batch, 0]
        base_ms = load_item64(rows.timestamps_ms, load_item64(rows.numbers, first))
        work = begin(output.scratch, target) if output.scratch.area != 0 else Work(target, 0, 0)
        stamped = Stamp(stamp.attributes, stamp.producer_id, stamp.producer_epoch, sequence)
        _write_header(work.place, end - target, last - first, (base_ms, max_ms), stamped)
        size = _HEADER_BYTES
        for index in range(first, last):
            row = load_item64(rows.numbers, index)
            deltas = (load_item64(rows.timestamps_ms, row) - base_ms, index - first)
            size += _write_record(rows, row, deltas, load_item32(bodies, index), work.place + size)
            if output.scratch.area != 0:
                work = clear(output.scratch, target, work, size)
        if output.scratch.area != 0:
            finish(output.scratch, target, work, size)
        elif output.is_sealed:
            store_big32(target, _CRC_AT, crc32c(target + _CRC_START, size - _CRC_START))
        # Each batch goes on where the last one ended; without a sequence it is stamped later.
        if sequence >= 0:
            sequence = (sequence + last - first) & _SEQUENCE_MASK
        target, first = end, last
    finish_streams()

"""Kernel that decodes: checksum, check and copy of every record in one pass, a batch at a time.

Keeps: P1 every length, count and delta is checked against its bounds before a byte is touched; what is wrong comes
       back as a `Defect` with batch and position, never as a crash or a wrong record.
Why:   one pass, because reading memory twice costs more than the work on it. The caller cannot know the sizes before,
       so it offers room for all that the bytes could hold. Records are looked at before their checksum is known, which
       is safe, since nothing trusts them, and nothing is returned when it turns out wrong. The next record is found
       from the length of this one alone, never from its fields, so that the CPU can work on several at once.
"""

from typing import Any, NamedTuple

from semel.protocol.kernels.check import ADDRESS, CELLS, TABLE, WINDOW, Cells, Defect, Total
from semel.protocol.kernels.checksum import BLOCK_BYTES, IN_STATE, add_blocks, add_bytes, crc32c, leave_state
from semel.protocol.kernels.headers import read_length, skip_headers
from semel.protocol.kernels.jit import called, inlined, kernel, types
from semel.protocol.kernels.memory import (
    CHUNK_BYTES,
    NEVER,
    SHORT_BYTES_MAX,
    add_item64,
    copy_bytes,
    copy_short,
    finish_streams,
    load_big16,
    load_big32,
    load_big64,
    load_byte,
    load_item64,
    mark_null,
    read_varint,
    read_varlong,
    store_item32,
    store_item64,
    stream_bytes,
)

_APPEND_TIME_BIT = 8
_CRC_AT, _CRC_START = 17, 21
_RECORD_BYTES_MIN = 6
_PIECE_BYTES = 4096
_ONES = 0xFFFFFFFF
_TIMESTAMP_MS_MAX = 9_223_372_036_854_775
_INT64_MAX = 0x7FFFFFFFFFFFFFFF

# Plain integers: compiled code cannot look inside an enum cheaply.
_ROWS, _KEY_BYTES, _VALUE_BYTES = int(Total.ROWS), int(Total.KEY_BYTES), int(Total.VALUE_BYTES)
_KEY_NULLS, _VALUE_NULLS, _DEFECT_AT = int(Total.KEY_NULLS), int(Total.VALUE_NULLS), int(Total.DEFECT_AT)
_CHECKSUM = int(Defect.CHECKSUM)
_RECORD_LENGTH = int(Defect.RECORD_LENGTH)
_OFFSET_DELTA = int(Defect.OFFSET_DELTA)
_RECORD_TRAILING = int(Defect.RECORD_TRAILING)
_BATCH_TRAILING = int(Defect.BATCH_TRAILING)
_TIMESTAMP_RANGE = int(Defect.TIMESTAMP_RANGE)


class Columns(NamedTuple):
    """Addresses of the columns under construction; zero `header_places` means that headers are not wanted."""

    keys: Cells
    values: Cells
    offsets: int
    timestamps_us: int
    header_places: int


class Input(NamedTuple):
    """Where the batch headers are, where the records are, how many bytes can be read there, and how to copy them.

    Fields of at least `streamed_bytes_min` go past the cache. The checksum is kept at `state` meanwhile.
    """

    batches: int
    source: int
    readable: int
    streamed_bytes_min: int
    state: int


_COLUMNS = types.NamedTuple((CELLS, CELLS, ADDRESS, ADDRESS, ADDRESS), Columns)
_INPUT = types.NamedUniTuple(types.int64, 5, Input)


@inlined
def _put(  # noqa: PLR0917  (kernels take positions only)
    cells: Cells, row: int, used: int, input_: Input, at: int, length: int, nulls: int
) -> int:
    """Append a nullable field; return the bytes used in the column."""
    if length > 0:
        # Near the end of the buffer a copy in whole chunks would read behind it.
        if length <= SHORT_BYTES_MAX and at + SHORT_BYTES_MAX <= input_.readable:
            copy_short(cells.data + used, input_.source + at, length)
        elif length < input_.streamed_bytes_min or at + length + CHUNK_BYTES > input_.readable:
            copy_bytes(cells.data, used, input_.source, at, length)
        else:
            stream_bytes(cells.data + used, input_.source + at, length)
        used += length
    elif length < 0:
        mark_null(cells.valid, row)
        add_item64(nulls, 0, 1)
    store_item32(cells.offsets, row + 1, used)
    return used


@inlined
def _times(batches: int, header: int) -> tuple[int, int, int, int]:
    """Return the time of a batch, a mask for its records' deltas, and the least and the greatest that they may be.

    A time that does not fit itself leaves no delta that fits.
    """
    if load_big16(batches, header + 21) & _APPEND_TIME_BIT:
        time_ms = load_big64(batches, header + 35)
        if abs(time_ms) <= _TIMESTAMP_MS_MAX and time_ms != -_INT64_MAX - 1:
            return time_ms, 0, -_INT64_MAX - 1, _INT64_MAX
        # The least is above the greatest, so every delta is refused.
        return 0, 0, 1, 0
    time_ms = load_big64(batches, header + 27)
    if abs(time_ms) <= _TIMESTAMP_MS_MAX and time_ms != -_INT64_MAX - 1:
        return time_ms, -1, -_TIMESTAMP_MS_MAX - time_ms, _TIMESTAMP_MS_MAX - time_ms
    return 0, 0, 1, 0


@inlined
def _stated(batches: int, header: int) -> int:
    crc: int = load_big32(batches, header + _CRC_AT) & _ONES
    return crc


@called
def _is_intact(batches: int, header: int, end: int) -> bool:
    """Compute the checksum of a batch that is not compressed, all at once."""
    found: int = crc32c(batches + header + _CRC_START, end - header - _CRC_START)
    return found == _stated(batches, header)


@inlined
def _sum_piece(crc: int, address: int, end: int, state: int) -> tuple[int, int]:
    """Continue the checksum over what fills whole blocks; return it and the address after them."""
    blocks = (end - address) // BLOCK_BYTES
    return add_blocks(crc, address, blocks, state), address + blocks * BLOCK_BYTES


@inlined
def _finished(crc: int, address: int, end: int, state: int) -> int:
    """Return the checksum of a batch, of which all but a few bytes have been summed."""
    if crc == IN_STATE:
        crc = leave_state(state)
    return add_bytes(crc, address, end - address) ^ _ONES


@inlined
def _decode_batch(  # noqa: C901, PLR0911, PLR0912, PLR0917  (one return a check, in the order of the format)
    input_: Input,
    header: int,
    at: int,
    end: int,
    is_verified: bool,
    window: tuple[int, int],
    columns: Columns,
    sums: int,
) -> int:
    """Check every record of one batch and append those in the window; return a Defect.

    A batch may begin before the first offset that was asked for, and end behind the last.
    """
    source = input_.source
    base_offset, last_delta = load_big64(input_.batches, header), load_big32(input_.batches, header + 23)
    time_ms, time_mask, time_delta_min, time_delta_max = _times(input_.batches, header)
    row, delta_min = load_item64(sums, _ROWS), 0
    summed, crc = source + header + _CRC_START, _ONES
    piece_bytes = NEVER if is_verified else _PIECE_BYTES
    key_used, value_used = load_item64(sums, _KEY_BYTES), load_item64(sums, _VALUE_BYTES)
    for _ in range(load_big32(input_.batches, header + 57)):
        length, start = read_varint(source, at, end)
        if start < 0:
            return -start
        if length < _RECORD_BYTES_MIN or length > end - start:
            return _RECORD_LENGTH
        at = start + length
        time_delta_ms, place = read_varlong(source, start + 1, at)  # behind the attributes, which mean nothing yet
        if place < 0:
            return -place
        if time_delta_ms < time_delta_min or time_delta_ms > time_delta_max:
            return _TIMESTAMP_RANGE
        delta, place = read_varint(source, place, at)
        if place < 0:
            return -place
        if delta < delta_min or delta > last_delta:
            return _OFFSET_DELTA
        delta_min = delta + 1
        key_length, key_at = read_length(source, place, at)
        if key_at < 0:
            return -key_at
        value_length, value_at = read_length(source, key_at + max(key_length, 0), at)
        if value_at < 0:
            return -value_at
        headers_at = value_at + max(value_length, 0)
        keep = window[0] <= base_offset + delta < window[1]
        # The usual record ends with one zero byte, "no headers", and needs no call.
        if headers_at != at - 1 or load_byte(source, headers_at) != 0:
            place = skip_headers(source, headers_at, at, keep, sums)
            if place < 0:
                return -place
            if place < at:
                return _RECORD_TRAILING
        if keep:
            key_used = _put(columns.keys, row, key_used, input_, key_at, key_length, sums + 8 * _KEY_NULLS)
            nulls = sums + 8 * _VALUE_NULLS
            value_used = _put(columns.values, row, value_used, input_, value_at, value_length, nulls)
            store_item64(columns.offsets, row, base_offset + delta)
            store_item64(columns.timestamps_us, row, (time_ms + (time_delta_ms & time_mask)) * 1000)
            if columns.header_places != 0:
                store_item64(columns.header_places, row, source + headers_at)
            row += 1
        if source + at - summed >= piece_bytes:  # small pieces, so that the bytes are still in the cache
            crc, summed = _sum_piece(crc, summed, source + at, input_.state)
    store_item64(sums, _ROWS, row)
    store_item64(sums, _KEY_BYTES, key_used)
    store_item64(sums, _VALUE_BYTES, value_used)
    if at != end:
        return _BATCH_TRAILING
    if is_verified:
        return 0
    intact = _finished(crc, summed, source + end, input_.state) == _stated(input_.batches, header)
    return 0 if intact else _CHECKSUM


@kernel(types.int64(_INPUT, TABLE, types.boolean, WINDOW, _COLUMNS, ADDRESS))
def decode_spans(  # noqa: PLR0917  (kernels take positions only)
    input_: Input, spans: Any, is_verified: bool, window: tuple[int, int], columns: Columns, sums: int
) -> int:
    """Append the records with window[0] <= offset < window[1] of each span; return a Defect.

    A span is the position of a batch header in `batches` and where its records begin and end in `source`, which
    differ when they were compressed. Only what was not can still need its checksum verified. `sums` carries the
    progress from call to call; at a defect the header's position is left there.
    """
    for span in range(len(spans)):
        header, end = spans[span, 0], spans[span, 2]
        defect = _decode_batch(input_, header, spans[span, 1], end, is_verified, window, columns, sums)
        if defect != 0:
            # A wrong checksum explains everything else, so it is what is reported.
            if not is_verified and not _is_intact(input_.batches, header, end):
                defect = _CHECKSUM
            store_item64(sums, _DEFECT_AT, header)
            return defect
    finish_streams()
    return 0

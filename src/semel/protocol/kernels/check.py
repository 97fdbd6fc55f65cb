"""Kernel that finds the batches in a buffer and judges their headers, and what all decoding kernels share.

Keeps: P1 every length, count and delta is checked against its bounds before a byte is touched; what is wrong comes
       back as a `Defect` with batch and position, never as a crash or a wrong record.
"""

from enum import IntEnum
from typing import Any, NamedTuple

from semel.protocol.kernels.jit import kernel, types
from semel.protocol.kernels.memory import load_big16, load_big32, load_big64, load_byte


class Defect(IntEnum):
    """What is wrong with a batch; the texts are in `column_reader.py`."""

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
    CHECKSUM = 15


class Total(IntEnum):
    """Places in the array of sums: how far decoding has come, and what the headers will need."""

    ROWS = 0
    KEY_BYTES = 1
    VALUE_BYTES = 2
    KEY_NULLS = 3
    VALUE_NULLS = 4
    HEADERS = 5
    HEADER_NAME_BYTES = 6
    HEADER_VALUE_BYTES = 7
    HEADER_VALUE_NULLS = 8
    DEFECT_AT = 9


class Cells(NamedTuple):
    """One binary Arrow column: addresses of its bytes, its offsets and its validity bits, which are preset to one."""

    data: int
    offsets: int
    valid: int


CELLS = types.NamedUniTuple(types.int64, 3, Cells)
TOTALS = len(Total)
SCAN_COLUMNS = 7
SPAN_COLUMNS = 3

_LOG_OVERHEAD_BYTES = 12
_HEADER_BYTES = 61
_MAGIC_2 = 2

# Plain integers: compiled code cannot look inside an enum cheaply.
_MAGIC = int(Defect.MAGIC)
_BATCH_LENGTH = int(Defect.BATCH_LENGTH)
_COUNT = int(Defect.COUNT)
_OFFSET_ORDER = int(Defect.OFFSET_ORDER)

ADDRESS = types.int64
TABLE = types.Array(types.int64, 2, "C")
WINDOW = types.UniTuple(types.int64, 2)


@kernel(types.UniTuple(types.int64, 3)(ADDRESS, types.int64, TABLE))
def scan_batches(source: int, size: int, table: Any) -> tuple[int, int, int]:  # noqa: PLR0911  (one return a check)
    """Fill one row a whole batch: position, end, base offset, offset_next, attributes, count, CRC.

    Returns the rows filled, the position after the last, and a Defect for the batch there. A full table returns early.
    """
    at, offset_min = 0, -1
    for row in range(len(table)):
        left = size - at
        if left < _LOG_OVERHEAD_BYTES:
            return row, at, 0
        length = load_big32(source, at + 8)
        # Cut short by Fetch, which is no defect.
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
        # The last test keeps `offset_min` below from overflowing: compiled numbers wrap round silently.
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

"""Arrow columns -> the bytes of a binary COPY; no Python object for any row.

Keeps: P2 values go out exactly: microseconds, negative zero, all 38 digits of a decimal, nulls, empty texts.
Why:   PostgreSQL counts days and microseconds from the year 2000, so dates and times are moved there by Arrow, checked
       for overflow; everything else is read by the kernel where Arrow has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from semel.errors import ConfigError
from semel.protocol.arrow_types import ArrowArray, address_of, view_of
from semel.protocol.kernels.copy_rows import (
    BITS,
    COLUMN_NUMBERS,
    NUMERIC_BYTES_MAX,
    VARIABLE,
    WORK_BYTES,
    Decimals,
    Numeric,
    write_numerics,
    write_rows,
)

# The signature of the format, then flags and the size of an extension, both 0.
HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
# -1 where the number of columns of a row would stand.
TRAILER = b"\xff\xff"
CHUNK_BYTES = 1 << 20
DAYS_TO_2000 = 10_957
MICROSECONDS_TO_2000 = 946_684_800_000_000


class _Input(NamedTuple):
    """One column as the kernel takes it, with what keeps its memory alive."""

    numbers: tuple[int, int, int, int, int]
    sizes: npt.NDArray[np.int64] | int
    """How many bytes each cell takes, or all of them; nulls may count as more."""
    kept: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class CopyRows:
    """Rows of a record batch, ready to be written in chunks."""

    inputs: tuple[_Input, ...]
    sizes: npt.NDArray[np.int64]
    """How many bytes each row takes; nulls may count as more."""

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> CopyRows:
        """Look at every column once."""
        names = batch.schema.names
        inputs = tuple(_input(batch.column(at), names[at]) for at in range(batch.num_columns))
        # A row is the number of its columns (2 bytes), and for each column its length (4 bytes) and its bytes.
        sizes = np.full(batch.num_rows, 2 + 4 * len(inputs), dtype=np.int64)
        for one in inputs:
            sizes += one.sizes
        return cls(inputs, sizes)

    @property
    def row_bytes_max(self) -> int:
        """How large the largest row is."""
        return int(self.sizes.max(initial=0))

    def chunks(self) -> Iterator[memoryview]:
        """Give the bytes of all rows, about a megabyte at a time."""
        rows = len(self.sizes)
        if not rows:
            return
        table = np.array([one.numbers for one in self.inputs], dtype=np.int64).reshape(-1, COLUMN_NUMBERS)
        ends = np.cumsum(self.sizes)
        first = 0
        while first < rows:
            done = 0 if first == 0 else int(ends[first - 1])
            # As many rows as fit, and at least one.
            end = max(first + 1, int(np.searchsorted(ends, done + CHUNK_BYTES, side="right")))
            target = np.empty(int(ends[end - 1]) - done, dtype=np.uint8)
            size = write_rows(address_of(table), len(self.inputs), first, end, address_of(target))
            yield target.data[:size]
            first = end


def _input(array: ArrowArray, name: str) -> _Input:
    kind = array.type
    if pa.types.is_null(kind):
        return _nulls(len(array))
    if pa.types.is_decimal128(kind):
        return _numerics(array)
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or _is_large(kind):
        return _variable(array)
    if pa.types.is_boolean(kind):
        return _fixed(array, BITS, 1)
    return _number(array, name)


def _number(array: ArrowArray, name: str) -> _Input:
    kind = array.type
    if pa.types.is_int8(kind):
        array = array.cast(pa.int16())  # the smallest that PostgreSQL has
    elif pa.types.is_date32(kind):
        array = _moved(array, pa.int32(), DAYS_TO_2000, name)
    elif pa.types.is_timestamp(kind):
        array = _moved(array.cast(pa.timestamp("us", kind.tz)), pa.int64(), MICROSECONDS_TO_2000, name)
    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        width = array.type.bit_width // 8
        return _fixed(array, width, width)
    raise ConfigError(f"column {name!r} is {kind}, which PostgreSQL has no form for", you_want=f"to_json({name})")


def _is_large(kind: pa.DataType) -> bool:
    return pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)


def _nulls(count: int) -> _Input:
    bits = np.zeros(count // 8 + 1, dtype=np.uint8)
    return _Input((VARIABLE, 0, 0, address_of(bits), 0), 0, (bits,))


def _place(buffer: pa.Buffer | None) -> int:
    return 0 if buffer is None else int(buffer.address)


def _fixed(array: ArrowArray, kind: int, width: int) -> _Input:
    valid, data = array.buffers()
    skipped = 0 if kind == BITS else array.offset * width
    return _Input((kind, _place(data) + skipped, 0, _place(valid), array.offset), width, (array,))


def _moved(array: ArrowArray, kind: pa.DataType, by: int, name: str) -> ArrowArray:
    """Count from the year 2000 on."""
    try:
        moved: Any = pc.call_function("subtract_checked", [array.cast(kind), pa.scalar(by, kind)])
    except pa.ArrowInvalid as error:
        because = str(error)
        raise ConfigError(f"column {name!r} has a date or time that PostgreSQL cannot keep", because=because) from None
    return moved  # type: ignore[no-any-return]


def _variable(array: ArrowArray) -> _Input:
    valid, ends, data = array.buffers()
    assert ends is not None, "offsets are there, whatever else is left out"
    wide = np.int64 if _is_large(array.type) else np.int32
    found = np.frombuffer(view_of(ends), dtype=wide)[array.offset : array.offset + len(array) + 1]
    offsets = found.astype(np.int64)  # always a copy, so it has an address of its own
    numbers = (VARIABLE, _place(data), address_of(offsets), _place(valid), array.offset)
    return _Input(numbers, np.diff(offsets), (array, offsets))


def _numerics(array: Any) -> _Input:
    valid, data = array.buffers()
    count = len(array)
    target = np.empty(count * NUMERIC_BYTES_MAX, dtype=np.uint8)
    offsets = np.empty(count + 1, dtype=np.int64)
    work = np.zeros(2 * WORK_BYTES, dtype=np.uint8)
    limbs = address_of(work)
    write_numerics(
        Decimals(_place(data) + 16 * array.offset, _place(valid), array.offset, count),
        Numeric(address_of(target), limbs, limbs + WORK_BYTES, array.type.scale),
        address_of(offsets),
    )
    numbers = (VARIABLE, address_of(target), address_of(offsets), _place(valid), array.offset)
    return _Input(numbers, np.diff(offsets), (array, target, offsets))

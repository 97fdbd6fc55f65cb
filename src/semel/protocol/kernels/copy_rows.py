"""Kernels that write rows of Arrow columns as PostgreSQL's binary COPY takes them: a count of fields, then each field.

A field is its length (32 bits, -1 for null) and its bytes; numbers are big-endian. Decimals become PostgreSQL's own
form first: groups of four decimal digits, 16 bits each, behind how many there are, where the point is, and the sign.
"""

from typing import NamedTuple

from semel.protocol.kernels.jit import inlined, kernel, types
from semel.protocol.kernels.memory import (
    copy_bytes,
    is_valid,
    load_byte,
    load_item32,
    load_item64,
    load_word,
    store_big16,
    store_big32,
    store_big64,
    store_byte,
    store_item32,
    store_item64,
)

ADDRESS = types.int64
# What a column is, as one row of a table of 64-bit numbers: kind, and addresses of its parts.
KIND, DATA, OFFSETS, VALID, START = range(5)
COLUMN_NUMBERS = 5
BITS = 0  # booleans, one bit each
VARIABLE = -1  # bytes between 64-bit offsets
# Any other kind is the width of a number: 1, 2, 4, 8.

NUMERIC_BYTES_MAX = 32
WORK_BYTES = 128
_LIMBS = 5  # of 32 bits: a decimal of 38 digits and the zeros that bring its point to a whole group
_GROUPS_MAX = 12
# PostgreSQL's own mark: a number has its sign in two bytes.
_NEGATIVE = 0x4000


class Decimals(NamedTuple):
    """The input: the address of 128-bit numbers, of their validity bits, the first bit, and how many they are."""

    data: int
    valid: int
    start: int
    rows: int


class Numeric(NamedTuple):
    """Addresses: where numbers are written to, and two places to work in; and the digits behind the point."""

    target: int
    limbs: int
    groups: int
    scale: int


_DECIMALS = types.NamedUniTuple(ADDRESS, 4, Decimals)
_NUMERIC = types.NamedUniTuple(ADDRESS, 4, Numeric)


@inlined
def _write_number(target: int, at: int, data: int, row: int, width: int) -> None:
    if width == 8:
        store_big64(target, at, load_item64(data, row))
    elif width == 4:
        store_big32(target, at, load_item32(data, row))
    elif width == 2:
        # There is no load of 16 bits in native order, so the two bytes change places one by one.
        store_byte(target, at, load_byte(data, 2 * row + 1))
        store_byte(target, at + 1, load_byte(data, 2 * row))
    else:
        store_byte(target, at, load_byte(data, row))


@kernel(types.int64(ADDRESS, types.int64, types.int64, types.int64, ADDRESS))
def write_rows(table: int, columns: int, first: int, end: int, target: int) -> int:
    """Write these rows; gives how many bytes that took. The caller has made sure that there is room."""
    at = 0
    for row in range(first, end):
        store_big16(target, at, columns)
        at += 2
        for column in range(columns):
            base = column * COLUMN_NUMBERS
            kind = load_item64(table, base + KIND)
            data = load_item64(table, base + DATA)
            place = load_item64(table, base + START) + row
            if not is_valid(load_item64(table, base + VALID), place):
                store_big32(target, at, -1)
                at += 4
            elif kind > BITS:
                store_big32(target, at, kind)
                _write_number(target, at + 4, data, row, kind)
                at += 4 + kind
            elif kind == BITS:
                store_big32(target, at, 1)
                store_byte(target, at + 4, (load_byte(data, place >> 3) >> (place & 7)) & 1)
                at += 5
            else:
                offsets = load_item64(table, base + OFFSETS)
                start = load_item64(offsets, row)
                size = load_item64(offsets, row + 1) - start
                store_big32(target, at, size)
                copy_bytes(target, at + 4, data, start, size)
                at += 4 + size
    return at


@inlined
def _multiply(limbs: int, factor: int) -> None:
    carry = 0
    for limb in range(_LIMBS):
        product = load_word(limbs, 4 * limb) * factor + carry
        store_item32(limbs, limb, product & 0xFFFFFFFF)
        carry = product >> 32


@inlined
def _divide(limbs: int) -> int:
    """Divide by ten thousand in place; gives the rest."""
    rest = 0
    for limb in range(_LIMBS - 1, -1, -1):
        number = (rest << 32) | load_word(limbs, 4 * limb)
        store_item32(limbs, limb, number // 10_000)
        rest = number % 10_000
    return rest


@inlined
def _load_absolute(data: int, row: int, limbs: int) -> bool:
    """Put the absolute value of a 128-bit number into the limbs; gives whether it is negative."""
    is_negative: bool = load_byte(data, 16 * row + 15) > 127
    carry = 1
    for limb in range(4):
        number = load_word(data, 16 * row + 4 * limb)
        if is_negative:
            # Two's complement: invert, and add one at the lowest limb, which the carry takes upwards.
            number = (number ^ 0xFFFFFFFF) + carry
            carry = number >> 32
            number &= 0xFFFFFFFF
        store_item32(limbs, limb, number)
    store_item32(limbs, 4, 0)
    return is_negative


@inlined
def _write_numeric(numeric: Numeric, at: int, sign: int) -> int:
    """Take the limbs apart, from the last group of digits to the first, and write them the other way round."""
    target, limbs, groups, scale = numeric
    count = 0
    while count < _GROUPS_MAX:
        if not (load_item64(limbs, 0) or load_item64(limbs, 1) or load_word(limbs, 16)):
            break
        store_item64(groups, count, _divide(limbs))
        count += 1
    # The weight is that of the first group, counted from the point, in groups of four digits.
    fraction = (scale + 3) // 4
    store_big16(target, at, count)
    store_big16(target, at + 2, count - fraction - 1 if count else 0)
    store_big16(target, at + 4, sign if count else 0)
    store_big16(target, at + 6, scale)
    at += 8
    for group in range(count - 1, -1, -1):
        store_big16(target, at, load_item64(groups, group))
        at += 2
    return at


@kernel(types.int64(_DECIMALS, _NUMERIC, ADDRESS))
def write_numerics(decimals: Decimals, numeric: Numeric, offsets: int) -> int:
    """Write 128-bit decimals as PostgreSQL's numeric, one behind the other; `offsets` gets where each begins."""
    data, valid, start, count = decimals
    work = numeric.limbs
    factor = 1
    # The point must lie between two groups, so numbers are made longer until their scale is a multiple of four.
    for _ in range((4 - numeric.scale % 4) % 4):
        factor *= 10
    at = 0
    for row in range(count):
        store_item64(offsets, row, at)
        if is_valid(valid, start + row):
            sign = _NEGATIVE if _load_absolute(data, row, work) else 0
            _multiply(work, factor)
            at = _write_numeric(numeric, at, sign)
    store_item64(offsets, count, at)
    return at

"""The smallest pieces of the kernels: unchecked loads, stores and copies, and checked varints.

Why: numba's indexing wraps negative numbers and its slice assignment looks for overlap; both cost more than the work
     itself at a hundred bytes a record. Callers check every position first: these functions do not.
"""

from typing import Any

from semel.protocol.kernels.jit import cgutils, helper, intrinsic, ir, types

VARINT_PAST_END = -1
VARINT_TOO_LONG = -2

_Lowered = tuple[Any, Any]


def _data_of(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    return context.make_array(array_type)(context, builder, array).data


@intrinsic
def peek(_typing: Any, source: Any, at: Any) -> _Lowered:
    """Load one byte as a 64-bit number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = _data_of(context, builder, signature.args[0], arguments[0])
        return builder.zext(builder.load(builder.gep(data, [arguments[1]])), ir.IntType(64))

    return types.int64(source, at), generate


@intrinsic
def poke(_typing: Any, target: Any, at: Any, byte: Any) -> _Lowered:
    """Store the low byte of a 64-bit number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = _data_of(context, builder, signature.args[0], arguments[0])
        builder.store(builder.trunc(arguments[2], ir.IntType(8)), builder.gep(data, [arguments[1]]))
        return context.get_dummy_value()

    return types.void(target, at, byte), generate


def _big_endian(bits: int) -> Any:
    @intrinsic
    def peek_big_endian(_typing: Any, source: Any, at: Any) -> _Lowered:
        """Load a signed big-endian number from any address."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = _data_of(context, builder, signature.args[0], arguments[0])
            pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(bits).as_pointer())
            swapped = builder.bswap(builder.load(pointer, align=1))
            return swapped if bits == 64 else builder.sext(swapped, ir.IntType(64))

        return types.int64(source, at), generate

    return peek_big_endian


peek_int16 = _big_endian(16)
peek_int32 = _big_endian(32)
peek_int64 = _big_endian(64)


@intrinsic
def copy_bytes(_typing: Any, target: Any, target_at: Any, source: Any, source_at: Any, count: Any) -> _Lowered:
    """Copy `count` bytes between arrays that do not overlap."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to = builder.gep(_data_of(context, builder, signature.args[0], arguments[0]), [arguments[1]])
        origin = builder.gep(_data_of(context, builder, signature.args[2], arguments[2]), [arguments[3]])
        cgutils.raw_memcpy(builder, to, origin, arguments[4], 1)
        return context.get_dummy_value()

    return types.void(target, target_at, source, source_at, count), generate


@helper
def _read_long_varint(source: Any, at: int, end: int, bytes_max: int, last_byte_max: int) -> tuple[int, int]:
    raw = 0
    for index in range(bytes_max):
        if at >= end:
            return 0, VARINT_PAST_END
        byte = peek(source, at)
        at += 1
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if index == bytes_max - 1 and byte > last_byte_max:
                return 0, VARINT_TOO_LONG
            return ((raw >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(raw & 1), at
    return 0, VARINT_TOO_LONG


@helper
def read_varint(source: Any, at: int, end: int) -> tuple[int, int]:
    """Read a 32-bit zigzag varint; the second number is the position after it, or negative when it is wrong."""
    if at < end:
        first = peek(source, at)
        if first < 0x80:
            return (first >> 1) ^ -(first & 1), at + 1
        if at + 1 < end:
            second = peek(source, at + 1)
            if second < 0x80:
                raw = (first & 0x7F) | (second << 7)
                return (raw >> 1) ^ -(raw & 1), at + 2
    return _read_long_varint(source, at, end, 5, 0x0F)


@helper
def read_varlong(source: Any, at: int, end: int) -> tuple[int, int]:
    """Read a 64-bit zigzag varint; the second number is the position after it, or negative when it is wrong."""
    if at < end:
        first = peek(source, at)
        if first < 0x80:
            return (first >> 1) ^ -(first & 1), at + 1
    return _read_long_varint(source, at, end, 10, 0x01)


@helper
def varint_size(value: int) -> int:
    """Count the bytes of a zigzag varint; the value is a signed 64-bit number."""
    zigzag = (value << 1) ^ (value >> 63)
    size = 1
    if zigzag < 0:
        return 10
    while zigzag >= 0x80:
        zigzag >>= 7
        size += 1
    return size


@helper
def write_varint(target: Any, at: int, value: int) -> int:
    """Write a zigzag varint and return the position after it."""
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag < 0 or zigzag >= 0x80:
        poke(target, at, (zigzag & 0x7F) | 0x80)
        zigzag = (zigzag >> 7) & 0x01FFFFFFFFFFFFFF
        at += 1
    poke(target, at, zigzag)
    return at + 1


@helper
def is_valid(bitmap: Any, index: int) -> bool:
    """Look up an Arrow validity bit; an empty bitmap means that all are valid."""
    return len(bitmap) == 0 or (peek(bitmap, index >> 3) >> (index & 7)) & 1 == 1


@helper
def mark_null(bitmap: Any, index: int) -> None:
    """Clear an Arrow validity bit."""
    byte = peek(bitmap, index >> 3)
    poke(bitmap, index >> 3, byte & ~(1 << (index & 7)))

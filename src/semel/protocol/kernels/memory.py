"""The smallest pieces of the kernels: unchecked loads, stores and copies at addresses, and checked varints.

Why: arrays as arguments cost a reference count in every inlined, numba's indexing wraps negative numbers, and its slice
     assignment looks for overlap; each costs more than the work itself at a hundred bytes a record. So kernels work
     on plain addresses. Callers check every position first, and hold the arrays until the kernel returns. Wire
     numbers are always swapped, since numba runs on little-endian machines only.
"""

from typing import Any

from semel.protocol.kernels.jit import called, cgutils, inlined, intrinsic, ir, types

_Lowered = tuple[Any, Any]

# The width of a vector register of AVX2.
CHUNK_BYTES = 32
SHORT_BYTES_MAX = 256
STREAMED_FIELD_BYTES_MIN = 512
LINE_BYTES = 64
NEVER = 1 << 62
"""More bytes than any field has."""


def _pointer(builder: Any, base: Any, at: Any, bits: int) -> Any:
    return builder.inttoptr(builder.add(base, at), ir.IntType(bits).as_pointer())


def _load(bits: int, *, scale: int = 1, swap: bool = False, signed: bool = True) -> Any:
    @intrinsic
    def load(_typing: Any, _base: Any, _at: Any) -> _Lowered:
        """Load a number at an address; `at` counts bytes, or numbers where there is a scale."""

        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            at = builder.mul(arguments[1], ir.Constant(ir.IntType(64), scale))
            number = builder.load(_pointer(builder, arguments[0], at, bits), align=1)
            number = builder.bswap(number) if swap else number
            widen = builder.sext if signed else builder.zext
            return number if bits == 64 else widen(number, ir.IntType(64))

        return types.int64(types.int64, types.int64), generate

    return load


def _store(bits: int, *, scale: int = 1, swap: bool = False) -> Any:
    @intrinsic
    def store(_typing: Any, _base: Any, _at: Any, _number: Any) -> _Lowered:
        """Store the low bits of a number at an address."""

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            at = builder.mul(arguments[1], ir.Constant(ir.IntType(64), scale))
            number = arguments[2] if bits == 64 else builder.trunc(arguments[2], ir.IntType(bits))
            number = builder.bswap(number) if swap else number
            builder.store(number, _pointer(builder, arguments[0], at, bits), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    return store


load_byte = _load(8, signed=False)
load_big16 = _load(16, swap=True)
load_big32 = _load(32, swap=True)
load_big64 = _load(64, swap=True)
load_word = _load(32, signed=False)
"""Four bytes in native order, unsigned."""
load_item32 = _load(32, scale=4)
load_item64 = _load(64, scale=8)
"""An item of an array of 64-bit numbers."""

store_byte = _store(8)
store_big16 = _store(16, swap=True)
store_big32 = _store(32, swap=True)
store_big64 = _store(64, swap=True)
store_item32 = _store(32, scale=4)
store_item64 = _store(64, scale=8)


@intrinsic
def copy_bytes(_typing: Any, _target: Any, _target_at: Any, _source: Any, _source_at: Any, _count: Any) -> _Lowered:
    """Copy bytes between places that do not overlap: target, position, source, position, count."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        to = _pointer(builder, arguments[0], arguments[1], 8)
        origin = _pointer(builder, arguments[2], arguments[3], 8)
        cgutils.raw_memcpy(builder, to, origin, arguments[4], 1)
        return context.get_dummy_value()

    return types.void(*(types.int64,) * 5), generate


@intrinsic
def copy_chunk(_typing: Any, _target: Any, _target_at: Any, _source: Any, _source_at: Any) -> _Lowered:
    """Copy CHUNK_BYTES between places that do not overlap: target, position, source, position."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bits = 8 * CHUNK_BYTES
        chunk = builder.load(_pointer(builder, arguments[2], arguments[3], bits), align=1)
        builder.store(chunk, _pointer(builder, arguments[0], arguments[1], bits), align=1)
        return context.get_dummy_value()

    return types.void(*(types.int64,) * 4), generate


@intrinsic
def stream_line(_typing: Any, _target: Any, _source: Any) -> _Lowered:
    """Copy a cache line past the cache; the target is aligned."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(ir.IntType(64), LINE_BYTES // 8).as_pointer()
        line = builder.load(builder.inttoptr(arguments[1], kind), align=1)
        store = builder.store(line, builder.inttoptr(arguments[0], kind), align=LINE_BYTES)
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def finish_streams(_typing: Any) -> _Lowered:
    """Wait until all that was streamed can be seen by others."""

    def generate(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        # Streamed stores keep no order with ordinary ones: without this another core might not see them yet.
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@inlined
def copy_short(target: int, source: int, count: int) -> None:
    """Copy in chunks, which is cheaper than a call; both sides have CHUNK_BYTES to spare.

    Up to CHUNK_BYTES - 1 of what follows comes along, to be overwritten by the next field.
    """
    copied = 0
    while copied < count:
        copy_chunk(target, copied, source, copied)
        copied += CHUNK_BYTES


@inlined
def stream_bytes(target: int, source: int, count: int) -> None:
    """Copy at least a cache line past the cache, so that its old content need not be loaded first.

    As with `copy_short`, both sides have CHUNK_BYTES to spare.
    """
    # Up to the next cache line, since streamed stores need an aligned address.
    head = -target & (LINE_BYTES - 1)
    copy_bytes(target, 0, source, 0, head)
    lines = (count - head) // LINE_BYTES
    for line in range(lines):
        stream_line(target + head + line * LINE_BYTES, source + head + line * LINE_BYTES)
    done = head + lines * LINE_BYTES
    copy_short(target + done, source + done, count - done)


@inlined
def add_item64(base: int, at: int, number: int) -> None:
    """Add to an item of an array of 64-bit numbers."""
    store_item64(base, at, load_item64(base, at) + number)


@called
def _read_long_varint(source: int, at: int, end: int, bytes_max: int, last_byte_max: int) -> tuple[int, int]:
    raw = 0
    for index in range(bytes_max):
        if at >= end:
            # -1 and -2 are the negative numbers of `Defect.VARINT_PAST_END` and `Defect.VARINT_TOO_LONG`.
            return 0, -1
        byte = load_byte(source, at)
        at += 1
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if index == bytes_max - 1 and byte > last_byte_max:
                return 0, -2
            # The shift of a signed number fills up with its sign; the mask takes that away.
            return ((raw >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(raw & 1), at
    return 0, -2


@inlined
def read_varint(source: int, at: int, end: int) -> tuple[int, int]:
    """Read a 32-bit zigzag varint; the second number is the position after it, or a negative Defect."""
    if at < end:
        first = load_byte(source, at)
        if first < 0x80:
            return (first >> 1) ^ -(first & 1), at + 1
        if at + 1 < end:
            second = load_byte(source, at + 1)
            if second < 0x80:
                raw = (first & 0x7F) | (second << 7)
                return (raw >> 1) ^ -(raw & 1), at + 2
    # Five bytes have 35 bits: of the last one only four belong to a number of 32.
    return _read_long_varint(source, at, end, 5, 0x0F)


@inlined
def read_varlong(source: int, at: int, end: int) -> tuple[int, int]:
    """Read a 64-bit zigzag varint; the second number is the position after it, or a negative Defect."""
    if at < end:
        first = load_byte(source, at)
        if first < 0x80:
            return (first >> 1) ^ -(first & 1), at + 1
    # Ten bytes have 70 bits: of the last one only one belongs to a number of 64.
    return _read_long_varint(source, at, end, 10, 0x01)


@inlined
def next_varint(address: int) -> tuple[int, int]:
    """Read a zigzag varint that has been checked before; the second number is the address after it."""
    byte = load_byte(address, 0)
    raw, shift = byte & 0x7F, 7
    address += 1
    while byte >= 0x80:
        byte = load_byte(address, 0)
        raw |= (byte & 0x7F) << shift
        shift += 7
        address += 1
    return ((raw >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(raw & 1), address


@called
def _long_varint_size(zigzag: int) -> int:
    # The highest bit is set, so as an unsigned number it has all 64 bits.
    if zigzag < 0:
        return 10
    size = 1
    while zigzag >= 0x80:
        zigzag >>= 7
        size += 1
    return size


@inlined
def varint_size(value: int) -> int:
    """Count the bytes of a zigzag varint; the value is a signed 64-bit number."""
    zigzag = (value << 1) ^ (value >> 63)
    if 0 <= zigzag < 0x4000:
        return 1 if zigzag < 0x80 else 2
    return _long_varint_size(zigzag)


@called
def _write_long_varint(target: int, at: int, zigzag: int) -> int:
    while zigzag < 0 or zigzag >= 0x80:
        store_byte(target, at, (zigzag & 0x7F) | 0x80)
        # The shift of a negative number fills up with ones; the mask makes it an unsigned one.
        zigzag = (zigzag >> 7) & 0x01FFFFFFFFFFFFFF
        at += 1
    store_byte(target, at, zigzag)
    return at + 1


@inlined
def write_varint(target: int, at: int, value: int) -> int:
    """Write a zigzag varint and return the position after it."""
    zigzag = (value << 1) ^ (value >> 63)
    if 0 <= zigzag < 0x80:
        store_byte(target, at, zigzag)
        return at + 1
    if 0 <= zigzag < 0x4000:
        store_byte(target, at, zigzag | 0x80)
        store_byte(target, at + 1, zigzag >> 7)
        return at + 2
    return _write_long_varint(target, at, zigzag)


@inlined
def is_valid(bitmap: int, index: int) -> bool:
    """Look up an Arrow validity bit; address zero means that all are valid."""
    return bitmap == 0 or bool((load_byte(bitmap, index >> 3) >> (index & 7)) & 1)


@inlined
def mark_null(bitmap: int, index: int) -> None:
    """Clear an Arrow validity bit."""
    byte = load_byte(bitmap, index >> 3)
    store_byte(bitmap, index >> 3, byte & ~(1 << (index & 7)))

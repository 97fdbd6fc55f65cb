"""Zigzag varints, as record batches use them: lengths and deltas of up to 5 bytes, timestamps of up to 10.

Keeps: a varint that runs past its limit or past the end of the buffer is an error, never a wrong number.
"""

from semel.errors import CorruptBatchError

Buffer = bytes | bytearray | memoryview

INT_BYTES_MAX = 5
LONG_BYTES_MAX = 10


def varint_size(value: int) -> int:
    """Count the bytes that `write_varint` adds for this value."""
    # Zigzag: small negative numbers become small positive ones. Shifted by 63, a negative number is all ones.
    zigzag = (value << 1) ^ (value >> 63)
    return max(1, (zigzag.bit_length() + 6) // 7)


def write_varint(target: bytearray, value: int) -> None:
    """Append a signed value; callers keep 32-bit fields within 32 bits."""
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag >= 0x80:
        target.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    target.append(zigzag)


def read_varint(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """Read a signed 32-bit value before `end`; return it and the position after it."""
    if position < end and (byte := buffer[position]) < 0x80:  # nearly all of them
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read(buffer, position, end, INT_BYTES_MAX, 32)


def read_varlong(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """Read a signed 64-bit value before `end`; return it and the position after it."""
    if position < end and (byte := buffer[position]) < 0x80:  # nearly all of them
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read(buffer, position, end, LONG_BYTES_MAX, 64)


def _read(buffer: Buffer, position: int, end: int, bytes_max: int, bits: int) -> tuple[int, int]:
    raw = 0
    for index in range(bytes_max):
        if position >= end:
            raise CorruptBatchError("a varint runs past the end of its record")
        byte = buffer[position]
        position += 1
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            # The last byte has room for more bits than are left of the number.
            if raw >> bits:
                raise CorruptBatchError(f"a varint does not fit {bits} bits")
            return (raw >> 1) ^ -(raw & 1), position
    raise CorruptBatchError(f"a varint is longer than {bytes_max} bytes")

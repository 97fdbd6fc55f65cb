"""LZ4 frames as Kafka's clients write them: blocks of 64 KiB that do not need each other, no checksums of their own.

Keeps: every size in a frame is checked before it is believed; no block grows beyond the limit of its frame.
Why:   the batch around a frame has a checksum already, and the library's own frames carry two more. Blocks also go from
       buffer to buffer without a copy. Frames of other kinds (linked blocks, checksums) are left to the library.
"""

from struct import Struct

from semel.errors import CorruptBatchError
from semel.protocol.codec_library import OutputFullError, cramjam

# As Kafka's Java client writes them.
BLOCK_BYTES = 64 << 10
_SIZE = Struct("<I")
_STORED_BIT = 1 << 31
# Magic, flags, block size and header checksum, for each size that a block may have.
_HEADERS = {
    b"\x04\x22\x4d\x18\x60\x40\x82": BLOCK_BYTES,
    b"\x04\x22\x4d\x18\x60\x50\xfb": 256 << 10,
    b"\x04\x22\x4d\x18\x60\x60\x51": 1 << 20,
    b"\x04\x22\x4d\x18\x60\x70\x73": 4 << 20,
}
_HEADER = next(iter(_HEADERS))


def block_bytes_max(data: memoryview) -> int | None:
    """How large a block of this frame may get; None where only the library can read it."""
    return _HEADERS.get(bytes(data[: len(_HEADER)]))


def write_frame(data: memoryview, output: memoryview) -> int:
    """Write one frame and return its size; OutputFullError when it does not fit."""
    at = len(_HEADER)
    if len(output) < at + _SIZE.size:
        raise _full(output)
    output[:at] = _HEADER
    for start in range(0, len(data), BLOCK_BYTES):
        at = _write_block(data[start : start + BLOCK_BYTES], output, at)
    if at + _SIZE.size > len(output):
        raise _full(output)
    # The end mark, without which readers take the frame for one that was cut.
    _SIZE.pack_into(output, at, 0)
    return at + _SIZE.size


def _write_block(block: memoryview, output: memoryview, at: int) -> int:
    """Write one block, as it is where it does not get smaller; return where the next begins."""
    body = at + _SIZE.size
    room = output[body : body + len(block)]
    # Its room is that of the block itself, so a block that would grow does not fit and is stored as it is.
    size = _compress(block, room)
    if size is None:
        # It does not even fit as it is, so the output is full.
        if len(room) < len(block):
            raise _full(output)
        room[:] = block
    _SIZE.pack_into(output, at, len(block) | _STORED_BIT if size is None else size)
    return body + (len(block) if size is None else size)


def _compress(block: memoryview, room: memoryview) -> int | None:
    library = cramjam()
    try:
        return int(library.lz4.compress_block_into(block, room, store_size=False))
    except library.CompressionError:
        return None


def read_frame(data: memoryview, output: memoryview, bytes_max: int) -> int:
    """Decompress the blocks of a frame, each of at most `bytes_max`, and return how much that is."""
    at, written = len(_HEADER), 0
    while at + _SIZE.size <= len(data):
        (word,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size
        # A size of 0 is the mark that ends a frame.
        if not word:
            return written
        size = word & ~_STORED_BIT
        if size > bytes_max or size > len(data) - at:
            raise CorruptBatchError(f"lz4 block of {size} bytes does not fit the {len(data) - at} that are left")
        written += _read_block(data[at : at + size], size != word, output[written:], bytes_max)
        at += size
    raise CorruptBatchError("lz4 data ends before its end mark")


def _read_block(block: memoryview, is_stored: bool, room: memoryview, bytes_max: int) -> int:
    if not is_stored and len(room) >= bytes_max:
        return int(cramjam().lz4.decompress_block_into(block, room[:bytes_max]))
    # It may not fit. The library would call that damaged, so it gets room for the largest block there is.
    plain = block if is_stored else _decompress_with_room(block, bytes_max)
    if len(plain) > len(room):
        raise _full(room)
    room[: len(plain)] = plain
    return len(plain)


def _decompress_with_room(block: memoryview, bytes_max: int) -> memoryview:
    decompressed = memoryview(bytearray(bytes_max))
    return decompressed[: int(cramjam().lz4.decompress_block_into(block, decompressed))]


def _full(output: memoryview) -> OutputFullError:
    return OutputFullError(f"output exceeds {len(output)} bytes")

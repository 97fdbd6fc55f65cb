"""The five codecs of record batches, with bounded output.

Keeps: decompression never allocates what the compressed bytes merely claim; output grows as it is really produced,
       up to the caller's limit, and a bomb ends in a ProtocolError.
Why:   the library's own lz4 frames (linked blocks) are unreadable for Kafka's Java code, and snappy needs the xerial
       framing that Java expects.
"""

from collections.abc import Generator
from enum import IntEnum
from struct import Struct

from semel.errors import CorruptBatchError, UnsupportedVersionError
from semel.protocol.codec_library import OutputFullError, cramjam
from semel.protocol.lz4_frames import block_bytes_max, read_frame, write_frame
from semel.protocol.varint import Buffer

__all__ = [
    "Codec",
    "OutputFullError",
    "codec_of",
    "compress",
    "compress_in_pieces",
    "compress_into",
    "decompress",
    "decompress_into",
]

# For those who trust what they decompress; brokers give a limit of their own.
BYTES_MAX_DEFAULT = 1 << 30

_PIECE_BYTES = 128 << 10  # takes the slowest codec some 10 ms
_CAPACITY_FIRST_BYTES = 1 << 16
_ROOM_BYTES = 1 << 10  # what headers and trailers of any framing take at most, beside a quarter of the data
_GZIP_LEVEL, _ZSTD_LEVEL = 6, 3  # as Kafka's own clients have it, where nothing else is said
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = Struct(">i")
# Snappy's densest element turns 3 bytes into 64; a claim beyond that is a lie and is not allocated.
_SNAPPY_EXPANSION_MAX = 22


class Codec(IntEnum):
    """How the records of a batch are compressed: the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def codec_of(number: int) -> Codec:
    """Return the codec with this number, or say that it is unknown."""
    try:
        return Codec(number)
    except ValueError:
        raise UnsupportedVersionError(f"compression codec {number} is unknown") from None


def compress(codec: Codec, data: Buffer) -> bytes:
    """Compress in the framing that Kafka's Java client and librdkafka read."""
    room = memoryview(bytearray(_ROOM_BYTES + len(data) + len(data) // 4))
    return bytes(room[: compress_into(codec, data, room)])


def compress_in_pieces(codec: Codec, data: Buffer) -> Generator[None, None, bytes]:
    """Do the same with pauses where a codec is so slow that others would wait for it."""
    if codec not in (Codec.GZIP, Codec.ZSTD) or len(data) <= _PIECE_BYTES:
        return compress(codec, data)
    library = cramjam()
    is_gzip = codec is Codec.GZIP
    stream = library.gzip.Compressor(level=_GZIP_LEVEL) if is_gzip else library.zstd.Compressor(level=_ZSTD_LEVEL)
    view = memoryview(data)
    for start in range(0, len(view), _PIECE_BYTES):
        stream.compress(bytes(view[start : start + _PIECE_BYTES]))
        yield
    return bytes(stream.finish())


def compress_into(codec: Codec, data: Buffer, output: memoryview) -> int:
    """Compress into `output` and return the size; OutputFullError when it does not fit."""
    try:
        match codec:
            case Codec.NONE:
                return _copy_into(data, output)
            case Codec.GZIP:
                return int(cramjam().gzip.compress_into(data, output, level=_GZIP_LEVEL))
            case Codec.SNAPPY:
                return _compress_snappy_into(data, output)
            case Codec.LZ4:
                return write_frame(memoryview(data), output)
            case Codec.ZSTD:
                return int(cramjam().zstd.compress_into(data, output, level=_ZSTD_LEVEL))
    except cramjam().CompressionError:
        raise OutputFullError(f"output exceeds {len(output)} bytes") from None


def _compress_snappy_into(data: Buffer, output: memoryview) -> int:
    view, size = memoryview(data), _copy_into(_XERIAL_HEADER, output)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        # Blocks of 32 KiB, as the Java library writes them, each with its length in front.
        block = bytes(cramjam().snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        size += _copy_into(_BLOCK_LENGTH.pack(len(block)) + block, output[size:])
    return size


def decompress(codec: Codec, data: Buffer, *, bytes_max: int = BYTES_MAX_DEFAULT) -> Buffer:
    """Decompress into a buffer that grows with real output; OutputFullError above `bytes_max`."""
    if codec is Codec.NONE:
        return data
    # A guess at usual data; what grows beyond it is decompressed again into more room.
    capacity = min(bytes_max, max(_CAPACITY_FIRST_BYTES, 4 * len(data)))
    while True:
        output = bytearray(capacity)
        try:
            size = decompress_into(codec, data, memoryview(output))
        except OutputFullError:
            if capacity >= bytes_max:
                raise OutputFullError(
                    f"{codec.name.lower()} data decompresses to more than {bytes_max} bytes"
                ) from None
            capacity = min(bytes_max, 4 * capacity)
        else:
            return memoryview(output)[:size]


def decompress_into(codec: Codec, data: Buffer, output: memoryview) -> int:
    """Decompress into `output` and return the size; OutputFullError when it does not fit."""
    try:
        match codec:
            case Codec.NONE:
                return _copy_into(data, output)
            case Codec.GZIP:
                return int(cramjam().gzip.decompress_into(data, output))
            case Codec.SNAPPY:
                return _decompress_snappy_into(data, output)
            case Codec.LZ4:
                return _decompress_lz4_into(memoryview(data), output)
            case Codec.ZSTD:
                return int(cramjam().zstd.decompress_into(data, output))
    except cramjam().DecompressionError as error:
        # The library has one exception for both. Only its text tells a full buffer from damage.
        if "write whole buffer" in str(error):
            raise OutputFullError(f"output exceeds {len(output)} bytes") from None
        raise CorruptBatchError(f"{codec.name.lower()} data is damaged", because=str(error)) from None


def _copy_into(data: Buffer, output: memoryview) -> int:
    if len(data) > len(output):
        raise OutputFullError(f"output exceeds {len(output)} bytes")
    output[: len(data)] = data
    return len(data)


def _decompress_lz4_into(data: memoryview, output: memoryview) -> int:
    bytes_max = block_bytes_max(data)
    if bytes_max is None:
        return int(cramjam().lz4.decompress_into(data, output))
    return read_frame(data, output, bytes_max)


def _decompress_snappy_into(data: Buffer, output: memoryview) -> int:
    view = memoryview(data)
    # librdkafka writes plain snappy, Java's client the framing of the xerial library.
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, output)
    if len(view) < len(_XERIAL_HEADER):
        raise CorruptBatchError("snappy data ends inside its header")
    position, size = len(_XERIAL_HEADER), 0
    while position < len(view):
        block_end = _xerial_block_end(view, position)
        size += _decompress_snappy_block(view[position + _BLOCK_LENGTH.size : block_end], output[size:])
        position = block_end
    return size


def _xerial_block_end(view: memoryview, position: int) -> int:
    body = position + _BLOCK_LENGTH.size
    if body > len(view):
        raise CorruptBatchError("snappy data ends inside a block length")
    (length,) = _BLOCK_LENGTH.unpack_from(view, position)
    if not 0 < length <= len(view) - body:
        raise CorruptBatchError(f"snappy block of {length} bytes does not fit the {len(view) - body} that are left")
    return body + int(length)


def _decompress_snappy_block(block: memoryview, output: memoryview) -> int:
    if not len(block):
        raise CorruptBatchError("snappy data is empty")
    snappy = cramjam().snappy
    declared = int(snappy.decompress_raw_len(block))
    if declared > _SNAPPY_EXPANSION_MAX * len(block):
        raise CorruptBatchError(f"snappy block of {len(block)} bytes claims {declared} decompressed bytes")
    if declared > len(output):
        raise OutputFullError(f"output exceeds {len(output)} bytes")
    return int(snappy.decompress_raw_into(block, output[:declared])) if declared else 0

"""The five codecs of record batches, with bounded output.

Keeps: decompression never allocates what the compressed bytes merely claim; output grows as it is really produced,
       up to the caller's limit, and a bomb ends in a ProtocolError.
Why:   cramjam is imported on first use, since most brokers never look inside a compressed batch. Its lz4 default
       (linked blocks) is unreadable for Kafka's Java code, and snappy needs the xerial framing that Java expects.
"""

from enum import IntEnum
from functools import cache
from struct import Struct
from types import ModuleType

from semel.errors import CorruptBatchError, ProtocolError, UnsupportedVersionError
from semel.protocol.varint import Buffer

BYTES_MAX_DEFAULT = 1 << 30

_CAPACITY_FIRST_BYTES = 1 << 16
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


class OutputFullError(ProtocolError):
    """The decompressed bytes do not fit the buffer that was offered."""


@cache
def _cramjam() -> ModuleType:
    import cramjam  # noqa: PLC0415  (lazy: brokers seldom need it)

    return cramjam


def codec_of(number: int) -> Codec:
    """Return the codec with this number, or say that it is unknown."""
    try:
        return Codec(number)
    except ValueError:
        raise UnsupportedVersionError(f"compression codec {number} is unknown") from None


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress in the framing that Kafka's Java client and librdkafka read."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(_cramjam().gzip.compress(data, level=6 if level is None else level))
        case Codec.SNAPPY:
            return _compress_snappy(data)
        case Codec.LZ4:
            compressor = _cramjam().lz4.Compressor(level=1 if level is None else level, block_linked=False)
            compressor.compress(data if isinstance(data, bytes) else bytes(data))
            return bytes(compressor.finish())
        case Codec.ZSTD:
            return bytes(_cramjam().zstd.compress(data, level=3 if level is None else level))


def _compress_snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    snappy = _cramjam().snappy
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def decompress(codec: Codec, data: Buffer, *, bytes_max: int = BYTES_MAX_DEFAULT) -> Buffer:
    """Decompress into a buffer that grows with real output, up to `bytes_max`."""
    if codec is Codec.NONE:
        return data
    capacity = min(bytes_max, max(_CAPACITY_FIRST_BYTES, 4 * len(data)))
    while True:
        output = bytearray(capacity)
        try:
            size = decompress_into(codec, data, memoryview(output))
        except OutputFullError:
            if capacity >= bytes_max:
                raise ProtocolError(f"{codec.name.lower()} data decompresses to more than {bytes_max} bytes") from None
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
                return int(_cramjam().gzip.decompress_into(data, output))
            case Codec.SNAPPY:
                return _decompress_snappy_into(data, output)
            case Codec.LZ4:
                return int(_cramjam().lz4.decompress_into(data, output))
            case Codec.ZSTD:
                return int(_cramjam().zstd.decompress_into(data, output))
    except _cramjam().DecompressionError as error:
        if "write whole buffer" in str(error):
            raise OutputFullError(f"output exceeds {len(output)} bytes") from None
        raise CorruptBatchError(f"{codec.name.lower()} data is damaged", because=str(error)) from None


def _copy_into(data: Buffer, output: memoryview) -> int:
    if len(data) > len(output):
        raise OutputFullError(f"output exceeds {len(output)} bytes")
    output[: len(data)] = data
    return len(data)


def _decompress_snappy_into(data: Buffer, output: memoryview) -> int:
    view = memoryview(data)
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
    snappy = _cramjam().snappy
    declared = int(snappy.decompress_raw_len(block))
    if declared > _SNAPPY_EXPANSION_MAX * len(block):
        raise CorruptBatchError(f"snappy block of {len(block)} bytes claims {declared} decompressed bytes")
    if declared > len(output):
        raise OutputFullError(f"output exceeds {len(output)} bytes")
    return int(snappy.decompress_raw_into(block, output[:declared])) if declared else 0

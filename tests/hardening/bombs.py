"""Batches that are small on the wire and huge when they are looked into, in every codec, with forged headers."""

from __future__ import annotations

from semel.protocol.batch_header import HEADER, HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC, write_crc
from semel.protocol.compression import Codec, compress
from semel.protocol.varint import write_varint

COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]


def batch_of(
    body: bytes, count: int, *, codec: Codec = Codec.NONE, base_ms: int, newest_ms: int | None = None
) -> bytes:
    """A batch with a right checksum around these records, whatever they are."""
    packed = compress(codec, body)
    batch = bytearray(HEADER_BYTES) + packed
    HEADER.pack_into(
        batch,
        0,
        *(0, len(batch) - LOG_OVERHEAD_BYTES, -1, MAGIC, 0, int(codec), count - 1),
        *(base_ms, base_ms if newest_ms is None else newest_ms, -1, -1, -1, count),
    )
    write_crc(batch)
    return bytes(batch)


def record(delta: int, *, time_delta_ms: int = 0, headers: int = 0, key: bytes | None = None) -> bytes:
    """One record, with as many empty headers as wanted."""
    body = bytearray(b"\0")
    write_varint(body, time_delta_ms)
    write_varint(body, delta)
    write_varint(body, -1 if key is None else len(key))
    body += key or b""
    write_varint(body, 0)
    write_varint(body, headers)
    body += bytes(2 * headers)
    whole = bytearray()
    write_varint(whole, len(body))
    return bytes(whole + body)

"""Broken record batches, built by hand: the outside is right (length, checksum), the inside is not."""

import struct

from semel.protocol.batch_header import write_crc
from semel.protocol.record_batch import Codec, DraftRecord, encode_batch
from semel.protocol.varint import write_varint

RECORD = DraftRecord(key=b"key", value=b"value", timestamp_ms=1000, headers=(("name", b"x"),))


def varint(*values: int) -> bytes:
    target = bytearray()
    for value in values:
        write_varint(target, value)
    return bytes(target)


def framed(body: bytes, *, count: int = 1, last_delta: int = 0, base_ms: int = 1000) -> bytes:
    """Put a header with the right length and checksum before any records."""
    batch = bytearray(encode_batch([], base_timestamp_ms=base_ms, max_timestamp_ms=base_ms))
    batch += body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 23, last_delta)
    struct.pack_into(">i", batch, 57, count)
    write_crc(batch)
    return bytes(batch)


def record(fields: bytes, *, length: int | None = None) -> bytes:
    """Put a length and the attributes before the fields of a record."""
    return varint(len(fields) + 1 if length is None else length) + b"\x00" + fields


GOOD_FIELDS = varint(0, 0, 1) + b"k" + varint(1) + b"v" + varint(0)
GOOD = framed(record(GOOD_FIELDS))

BROKEN: dict[str, bytes] = {
    "record length past the batch": framed(record(GOOD_FIELDS, length=100)),
    "negative record length": framed(record(GOOD_FIELDS, length=-2)),
    "record length too small": framed(record(GOOD_FIELDS, length=3)),
    "record longer than its fields": framed(record(GOOD_FIELDS + b"\x00")),
    "record that swallows the next": framed(
        record(GOOD_FIELDS + record(varint(0, 1, -1, -1, 0))), count=2, last_delta=1
    ),
    "bytes after the last record": framed(record(GOOD_FIELDS) + b"\x00"),
    "fewer records than counted": framed(record(GOOD_FIELDS), count=2, last_delta=1),
    "more records than counted": framed(record(GOOD_FIELDS) * 2, count=1, last_delta=1),
    "same offset twice": framed(record(GOOD_FIELDS) * 2, count=2, last_delta=1),
    "offset beyond the last": framed(record(varint(0, 1, -1, -1, 0))),
    "negative offset delta": framed(record(varint(0, -1, -1, -1, 0))),
    "key length below -1": framed(record(varint(0, 0, -2, -1, 0))),
    "value length below -1": framed(record(varint(0, 0, -1, -2, 0))),
    "key past the record": framed(record(varint(0, 0, 90) + b"k" * 10)),
    "value past the record": framed(record(varint(0, 0, -1, 90) + b"v" * 10)),
    "negative header count": framed(record(varint(0, 0, -1, -1, -1))),
    "header count past the record": framed(record(varint(0, 0, -1, -1, 40))),
    "header without a name": framed(record(varint(0, 0, -1, -1, 1, -1, -1))),
    "header name past the record": framed(record(varint(0, 0, -1, -1, 1, 50, -1))),
    "header value past the record": framed(record(varint(0, 0, -1, -1, 1, 0, 50))),
    "varint of six bytes": framed(record(b"\x00" + b"\x80" * 5 + b"\x00" + varint(-1, -1, 0))),
    "varint above 32 bits": framed(record(b"\x00" + b"\xff" * 4 + b"\x1f" + varint(-1, -1, 0))),
    "timestamp of eleven bytes": framed(record(b"\x80" * 10 + b"\x00" + varint(0, -1, -1, 0))),
    "timestamp above 64 bits": framed(record(b"\xff" * 9 + b"\x02" + varint(0, -1, -1, 0))),
    "timestamp whose last bits are lost": framed(record(b"\x80" * 9 + b"\x02" + varint(0, -1, -1, 0))),
    "timestamp that overflows": framed(record(varint(2**63 - 1, 0, -1, -1, 0)), base_ms=2**62),
    "record that ends in a varint": framed(record(varint(0, 0, -1, -1) + b"\x80")),
    "count without records": framed(b"", count=1),
    "records without a count": framed(record(GOOD_FIELDS), count=0),
    "huge count": framed(record(GOOD_FIELDS), count=2**31 - 1, last_delta=2**31 - 2),
}
SAMPLES: dict[str, bytes] = {
    codec.name: encode_batch([RECORD, RECORD, RECORD], base_offset=8, codec=codec) for codec in Codec
}

"""What the vectors contain: batches for the Java classes to write, and records for librdkafka to send.

Bytes are written as in the expected values: null, base64, or [base64, times] for a large repetitive value.
"""

import base64
from collections.abc import Mapping
from random import Random
from typing import Any

Json = dict[str, Any]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START_MS = 1_700_000_000_123
LARGE_BYTES = 64 * 1024
MANY_RECORDS = 400


def b64(data: bytes | None) -> str | None:
    """Write bytes as JSON can hold them."""
    return None if data is None else base64.b64encode(data).decode()


def unpack(field: object) -> bytes | None:
    """Read bytes as they are written here."""
    if isinstance(field, list):
        return base64.b64decode(field[0]) * int(field[1])
    return None if field is None else base64.b64decode(str(field), validate=True)


def record(
    key: bytes | None,
    value: bytes | None,
    timestamp_ms: int = START_MS,
    *headers: tuple[str, bytes | None],
    **more: int,
) -> Json:
    """Describe one record."""
    pairs = [[name, b64(content)] for name, content in headers]
    return {"timestamp_ms": timestamp_ms, "key": b64(key), "value": b64(value), "headers": pairs, **more}


def repetitive(pattern: bytes, times: int) -> Json:
    """Describe a record with a value of several compression blocks that is small in a file."""
    return {**record(b"large", None, START_MS + 1), "value": [b64(pattern), times]}


NULLS = [
    record(None, b"null key"),
    record(b"null value", None),
    record(None, None),
    record(b"", b"empty key"),
    record(b"empty value", b""),
    record(b"", b""),
]
HEADERS = [
    record(b"k", b"v", START_MS, ("trace", b"\x00\xff"), ("trace", b"a name may come twice")),
    record(b"k", b"v", START_MS, ("null", None), ("empty", b"")),
    record(b"k", None, START_MS, ("größe-温度", "µ".encode())),
    record(None, None, START_MS, *((f"h{number}", bytes([number]) * number) for number in range(70))),
    record(b"none", b"none"),
]
EMPTY_HEADER_NAME = [record(b"k", b"v", START_MS, ("", b"nameless"), ("", None))]
TIMES = [
    record(b"first", b"", START_MS),
    record(b"earlier by 1 ms", b"", START_MS - 1),
    record(b"earlier by a day", b"", START_MS - 86_400_000),
    record(b"later by 7 ms", b"", START_MS + 7),
    record(b"much later", b"", START_MS + 2**40),
    record(b"just after the beginning", b"", 1),
]
MIXED = [
    record(b"order-1", b'{"seat": "12A"}', START_MS, ("source", b"web")),
    record(b"order-2", b'{"seat": "12B"}' * 20, START_MS + 1),
    record(None, b"\x00" * 300, START_MS + 999),
    record(b"order-1", None, START_MS - 5),
]
MANY = [record(b"%d" % (n % 7), bytes([n % 251]) * (n % 131), START_MS + n * n % 1013) for n in range(MANY_RECORDS)]
LARGE = [record(b"random", Random(1).randbytes(LARGE_BYTES)), record(b"after", b"it")]
SPANNING = [record(b"before", b"it"), repetitive(b"semel once ", 20_000), record(b"after", b"it", START_MS + 2)]

PRODUCER: Json = {"producer_id": 9_000_000_000, "producer_epoch": 32_000}
MARKER: Json = {**PRODUCER, "is_transactional": True, "base_timestamp_ms": START_MS + 250, "base_offset": 77}


def java_cases() -> Mapping[str, list[Json]]:
    """Name the record sets the Java classes write, each a list of batches."""
    return {
        **{codec: [{"codec": codec, "records": MIXED}] for codec in CODECS},
        **{f"spanning_{codec}": [{"codec": codec, "records": SPANNING}] for codec in CODECS if codec != "none"},
        "nulls": [{"records": NULLS}],
        "headers": [{"records": HEADERS}, {"base_offset": 5, "records": EMPTY_HEADER_NAME}],
        "times": [{"records": TIMES}],
        "many": [{"codec": "lz4", "records": MANY}],
        "large": [{"records": LARGE}],
        **_java_header_cases(),
        **_java_log_cases(),
    }


def _java_header_cases() -> Mapping[str, list[Json]]:
    log_append_time: Json = {"timestamp_type": "log_append_time", "max_timestamp_ms": START_MS + 5_000}
    return {
        "idempotent": [{**PRODUCER, "base_sequence": 0, "records": MIXED}],
        "sequence_wraps": [{**PRODUCER, "base_sequence": 2**31 - 2, "records": MIXED}],
        "transactional": [
            {**PRODUCER, "base_sequence": 12, "is_transactional": True, "codec": "zstd", "records": MIXED}
        ],
        "commit": [{**MARKER, "marker": "commit", "coordinator_epoch": 4, "leader_epoch": 2}],
        "abort": [{**MARKER, "marker": "abort", "coordinator_epoch": 0, "leader_epoch": 2}],
        "log_append_time": [{**log_append_time, "records": TIMES}],
        "log_append_time_gzip": [{**log_append_time, "codec": "gzip", "records": TIMES}],
    }


def _java_log_cases() -> Mapping[str, list[Json]]:
    gaps = [record(b"a", b"1", offset=100), record(b"b", b"2", offset=103), record(b"c", b"3", offset=2_000_000)]
    emptied: Json = {**PRODUCER, "base_sequence": 7, "leader_epoch": 3, "max_timestamp_ms": START_MS, "is_empty": True}
    second: Json = {**PRODUCER, "base_sequence": 0, "is_transactional": True, "codec": "snappy"}
    return {
        "offset_gaps": [{"base_offset": 100, "leader_epoch": 5, "records": gaps}],
        "delete_horizon": [{"base_offset": 8, "delete_horizon_ms": START_MS + 60_000, "records": NULLS}],
        "emptied": [{**emptied, "base_offset": 40, "last_offset": 44, "records": []}],
        "several": [
            {"base_offset": 0, "leader_epoch": 0, "records": MIXED},
            {"base_offset": 4, "leader_epoch": 1, **second, "records": NULLS},
            {"leader_epoch": 1, **MARKER, "base_offset": 10, "marker": "abort"},
            {"base_offset": 11, "leader_epoch": 1, "codec": "gzip", "records": TIMES},
        ],
    }


def librdkafka_cases() -> Mapping[str, tuple[Json, list[list[Json]]]]:
    """Name the record sets librdkafka sends: its settings, and the records of each batch."""
    idempotent: Json = {"enable.idempotence": True}
    return {
        **{codec: ({"compression.codec": codec}, [MIXED * 3]) for codec in CODECS},
        **{f"spanning_{codec}": ({"compression.codec": codec}, [SPANNING]) for codec in CODECS if codec != "none"},
        "nulls": ({}, [NULLS]),
        "headers": ({}, [HEADERS]),
        "times": ({}, [TIMES]),
        "many": ({"compression.codec": "zstd"}, [MANY]),
        "large": ({}, [LARGE]),
        "idempotent": (idempotent, [MIXED, NULLS, TIMES]),
        "transactional": ({"transactional.id": "vectors", "compression.codec": "lz4"}, [MIXED, NULLS]),
    }

"""Arrow rows as plain records, to compare with the slow path."""

from typing import Any

import pyarrow as pa

from semel.protocol.columns import DecodedColumns, decode_columns
from semel.protocol.record_batch import Record, check_batch, decode_records, iter_headers


def records_of(decoded: DecodedColumns) -> list[Record]:
    decoded.rows.validate(full=True)
    times = decoded.rows.column("timestamp").cast(pa.int64()).to_pylist()
    columns: list[Any] = [decoded.rows.column(name).to_pylist() for name in ("key", "value", "offset", "headers")]
    return [
        Record(offset=offset, timestamp_ms=_whole_ms(time_us), key=key, value=value, headers=_headers(headers))
        for key, value, offset, headers, time_us in zip(*columns, times, strict=True)
    ]


def _whole_ms(time_us: int | None) -> int:
    assert time_us is not None
    assert time_us % 1000 == 0
    return time_us // 1000


def _headers(cells: list[dict[str, Any]] | None) -> tuple[tuple[str, bytes | None], ...]:
    assert cells is None or cells, "a record without headers has null, as in Spark"
    return tuple((cell["key"], cell["value"]) for cell in cells or ())


def read_fast(buffer: bytes, **options: Any) -> list[Record]:
    return records_of(decode_columns(buffer, topic="orders", partition=3, include_headers=True, **options))


def read_slow(buffer: bytes) -> list[Record]:
    found: list[Record] = []
    for position, header in iter_headers(buffer):
        check_batch(buffer, header, position)
        if not header.is_control:
            found += decode_records(buffer, header, position)
    return found

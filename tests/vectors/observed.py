"""Say what semel reads in the words of the expected values, so that both compare with `==`."""

from collections.abc import Mapping, Sequence
from typing import Any

from semel.protocol.record_batch import BatchHeader, Record, check_batch, decode_marker, decode_records, iter_headers
from tests.vectors.cases import Json, unpack

SAME_NAME = (
    "base_offset",
    "size_bytes",
    "leader_epoch",
    "magic",
    "crc",
    "is_transactional",
    "is_control",
    "has_delete_horizon",
    "base_timestamp_ms",
    "max_timestamp_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "last_sequence",
    "last_offset",
    "offset_next",
    "record_count",
)


def observed_batches(buffer: bytes) -> list[Json]:
    """Read every batch with the slow path."""
    return [_observed_batch(buffer, header, position) for position, header in iter_headers(buffer)]


def _observed_batch(buffer: bytes, header: BatchHeader, position: int) -> Json:
    check_batch(buffer, header, position)
    seen: Json = {name: getattr(header, name) for name in SAME_NAME}
    seen["codec"] = header.codec.name.lower()
    seen["timestamp_type"] = header.timestamp_type.name.lower()
    if header.is_control:
        marker, coordinator_epoch = decode_marker(buffer, header, position)
        seen |= {"marker": marker.value, "coordinator_epoch": coordinator_epoch}
    return {**seen, "records": [_observed_record(record) for record in decode_records(buffer, header, position)]}


def _observed_record(record: Record) -> Json:
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": record.key,
        "value": record.value,
        "headers": [list(pair) for pair in record.headers],
    }


def spelled_out(batches: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Turn the base64 of expected values, or of an answer from Java, into bytes."""
    return [{**batch, "records": [_spelled_out_record(record) for record in batch["records"]]} for batch in batches]


def _spelled_out_record(record: Mapping[str, Any]) -> Json:
    return {
        **record,
        "key": unpack(record["key"]),
        "value": unpack(record["value"]),
        "headers": [[name, unpack(content)] for name, content in record["headers"]],
    }

"""Encode with semel what a case describes, the way the Java program encodes it."""

from semel.protocol.compression import Codec
from semel.protocol.record_batch import DraftRecord, Marker, TimestampType, encode_batch, encode_marker
from tests.vectors.cases import Json, unpack


def encode_case(batch: Json) -> bytes:
    """Encode one described batch."""
    if "marker" in batch:
        return encode_marker(
            Marker(batch["marker"]),
            producer_id=batch["producer_id"],
            producer_epoch=batch["producer_epoch"],
            timestamp_ms=batch["base_timestamp_ms"],
            coordinator_epoch=batch.get("coordinator_epoch", 0),
            base_offset=batch["base_offset"],
            leader_epoch=batch["leader_epoch"],
        )
    return encode_batch(
        _drafts(batch),
        base_offset=batch.get("base_offset", 0),
        leader_epoch=batch.get("leader_epoch", -1),
        codec=Codec[batch.get("codec", "none").upper()],
        producer_id=batch.get("producer_id", -1),
        producer_epoch=batch.get("producer_epoch", -1),
        base_sequence=batch.get("base_sequence", -1),
        transactional=batch.get("is_transactional", False),
        timestamp_type=TimestampType[batch.get("timestamp_type", "create_time").upper()],
        last_offset_delta=batch["last_offset"] - batch["base_offset"] if "last_offset" in batch else None,
        max_timestamp_ms=batch.get("max_timestamp_ms"),
        delete_horizon_ms=batch.get("delete_horizon_ms"),
    )


def _drafts(batch: Json) -> list[DraftRecord]:
    base_offset = batch.get("base_offset", 0)
    return [
        DraftRecord(
            key=unpack(one["key"]),
            value=unpack(one["value"]),
            timestamp_ms=one["timestamp_ms"],
            headers=tuple((name, unpack(content)) for name, content in one["headers"]),
            offset_delta=one["offset"] - base_offset if "offset" in one else None,
        )
        for one in batch["records"]
    ]

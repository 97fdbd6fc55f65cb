"""Record batches, magic 2: everything about one batch in one place, and the control markers of transactions.

Headers alone are in `batch_header.py`, records in `records.py`; their names are offered here too.
"""

from enum import StrEnum
from struct import Struct
from struct import error as StructError  # noqa: N812  (the standard name is too plain to keep)

from semel.errors import CorruptBatchError, UnsupportedVersionError
from semel.protocol.batch_header import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP_MS,
    BatchHeader,
    TimestampType,
    check_batch,
    iter_headers,
    read_header,
    stamp,
    stamp_producer,
)
from semel.protocol.compression import Codec
from semel.protocol.records import DraftRecord, Record, decode_records, encode_batch, pack_batch, write_record
from semel.protocol.varint import Buffer

__all__ = [
    "HEADER_BYTES",
    "LOG_OVERHEAD_BYTES",
    "MAGIC",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP_MS",
    "BatchHeader",
    "Codec",
    "DraftRecord",
    "Marker",
    "Record",
    "TimestampType",
    "check_batch",
    "decode_control_type",
    "decode_marker",
    "decode_records",
    "encode_batch",
    "encode_marker",
    "iter_headers",
    "pack_batch",
    "read_header",
    "stamp",
    "stamp_producer",
    "write_record",
]

# Version and type; version and coordinator epoch.
_MARKER_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")


class Marker(StrEnum):
    """How a transaction ended."""

    COMMIT = "commit"
    ABORT = "abort"


def encode_marker(
    marker: Marker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    coordinator_epoch: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Encode the control batch that ends a transaction on one partition."""
    record = DraftRecord(
        # Version 0; the type is 0 for an abort and 1 for a commit.
        key=_MARKER_KEY.pack(0, int(marker is Marker.COMMIT)),
        value=_MARKER_VALUE.pack(0, coordinator_epoch),
        timestamp_ms=timestamp_ms,
    )
    return encode_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def decode_control_type(buffer: Buffer, header: BatchHeader, position: int = 0) -> int | None:
    """Return the type number of a control batch (0 abort, 1 commit, others exist); None when compaction emptied it."""
    records = decode_records(buffer, header, position)
    return _marker_part(_MARKER_KEY, records[0].key, header) if records else None


def decode_marker(buffer: Buffer, header: BatchHeader, position: int = 0) -> tuple[Marker, int]:
    """Return how the transaction ended and the coordinator epoch that said so."""
    records = decode_records(buffer, header, position)
    # A marker stands alone in its batch: the producer id and epoch that it ends are in the header.
    if not header.is_control or len(records) != 1:
        raise CorruptBatchError("not a transaction marker", offset=header.base_offset)
    kind = _marker_part(_MARKER_KEY, records[0].key, header)
    # Other types exist, but only in the logs of a controller quorum.
    if kind not in (0, 1):
        raise UnsupportedVersionError(f"control record type {kind} is not a transaction marker")
    return (Marker.COMMIT if kind else Marker.ABORT), _marker_part(_MARKER_VALUE, records[0].value, header)


def _marker_part(layout: Struct, data: bytes | None, header: BatchHeader) -> int:
    """Read the number behind the version; fields that later versions add come after it."""
    try:
        _, number = layout.unpack_from(data or b"")
    except StructError:
        raise CorruptBatchError("control record is too short", offset=header.base_offset) from None
    return int(number)

"""Producer state as bytes, for the `<offset>.snapshot` files.

Keeps: a damaged or half-written snapshot is noticed (CRC-32C over everything after it) and never half loaded.
"""

from collections import deque
from collections.abc import Iterable
from struct import Struct
from struct import error as StructError  # noqa: N812  (the standard name is too plain to keep)

from semel.broker.producer_state import BATCHES_KEPT, BatchSeen, ProducerEntry
from semel.protocol.crc import checksum

_MAGIC = b"SPS1"
_HEAD = Struct(">4sII")  # magic, CRC of what follows the CRC, entries
_CRC_END = 8
_ENTRY = Struct(">qhiqqB")
_BATCH = Struct(">iiqqq")


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """All producers, with the batches remembered of each."""
    known = list(entries)
    data = bytearray(_HEAD.pack(_MAGIC, 0, len(known)))
    for entry in known:
        data += _ENTRY.pack(
            *(entry.producer_id, entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp_ms),
            *(entry.transaction_first_offset, len(entry.batches)),
        )
        for batch in entry.batches:
            data += _BATCH.pack(*batch)
    data[4:_CRC_END] = checksum(bytes(data[_CRC_END:])).to_bytes(4, "big")
    return bytes(data)


def decode_snapshot(data: bytes) -> list[ProducerEntry] | None:
    """The producers, or None when the snapshot is damaged."""
    try:
        magic, crc, count = _HEAD.unpack_from(data)
        if magic != _MAGIC or checksum(memoryview(data)[_CRC_END:]) != crc:
            return None
        return _decode_entries(data, count)
    except StructError:
        return None


def _decode_entries(data: bytes, count: int) -> list[ProducerEntry]:
    entries = []
    position = _HEAD.size
    for _ in range(count):
        producer_id, epoch, coordinator_epoch, last_ms, first_offset, batch_count = _ENTRY.unpack_from(data, position)
        position += _ENTRY.size
        batches: deque[BatchSeen] = deque(maxlen=BATCHES_KEPT)
        for _ in range(batch_count):
            batches.append(BatchSeen._make(_BATCH.unpack_from(data, position)))
            position += _BATCH.size
        entries.append(ProducerEntry(producer_id, epoch, coordinator_epoch, last_ms, first_offset, batches))
    return entries

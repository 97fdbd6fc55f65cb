"""What compaction keeps of one batch. Pure: bytes in, bytes or nothing out, with pauses in between.

Keeps: C1 the last value of every key stays; C2 a batch that carries a producer's last sequence or epoch stays, if need
       be without records; C3 a marker stays as long as its transaction has a batch in the log; C4 offsets never change.
Why:   a tombstone, or a marker that nothing needs, gets a delete horizon when compaction first meets it and goes when
       that has passed, so that a reader who is not too slow still sees it (KIP-534). Records are copied, never decoded
       and encoded again: one may have a million headers.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from semel.broker.log.producer_state import NO_OFFSET, ProducerEntry
from semel.broker.log.types import AbortedTransaction
from semel.broker.runtime.yielding import Pausing
from semel.errors import ProtocolError
from semel.protocol.compression import compress_in_pieces
from semel.protocol.record_batch import BatchHeader, TimestampType, pack_batch
from semel.protocol.record_scan import STEPS_BETWEEN_PAUSES, ScannedRecord, scan_records

LARGE_BYTES_MIN = 1 << 20


class TransactionTracker:
    """Follows transactions along a walk over the log, from its start."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted` are those that overlap the walk."""
        self._ranges: dict[int, list[AbortedTransaction]] = {}
        self._seen: set[int] = set()
        for one in aborted:
            self._ranges.setdefault(one.producer_id, []).append(one)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to an aborted transaction; notes that its transaction has a batch."""
        if not header.is_transactional:
            return False
        self._seen.add(header.producer_id)
        ranges = self._ranges.get(header.producer_id, ())
        return any(one.first_offset <= header.base_offset <= one.last_offset for one in ranges)

    def is_marker_needed(self, header: BatchHeader) -> bool:
        """Whether a marker ends a transaction that had a batch on the walk."""
        is_needed = header.producer_id in self._seen
        # The marker ends the transaction. The next batch of the same producer belongs to another one.
        self._seen.discard(header.producer_id)
        return is_needed


@dataclass(slots=True, kw_only=True)
class BatchFilter:
    """The rules of one compaction run."""

    newest: Mapping[bytes, int]
    tracker: TransactionTracker
    producers: Mapping[int, ProducerEntry]
    group_end_offset: int
    now_ms: int
    delete_retention_ms: int
    bytes_max: int
    markers_kept: set[int] = field(default_factory=set)

    def apply(self, batch: bytes, header: BatchHeader) -> Pausing[bytes | None]:
        """The batch as it stays in the log: as it was, smaller, empty, or not at all."""
        if header.is_control:
            return (yield from self._apply_to_marker(batch, header))
        # Aborted records go for everybody, read_uncommitted readers included, as in Apache Kafka.
        records = (
            [] if self.tracker.is_aborted(header) else (yield from readable_records(batch, header, self.bytes_max))
        )
        if records is None:
            return batch
        is_past = self._is_past_horizon(header)
        kept = yield from _chosen(records, lambda record: self._is_kept(record, is_past_horizon=is_past))
        if not kept:
            # An empty batch keeps the sequence, producer epoch and offsets in its header
            # (C2), which is all that recovery reads.
            return (yield from _encode(header, [], None)) if self._must_stay(header) else None
        # The clock starts when compaction first meets the tombstone, not when it was written. A tombstone that waited
        # long for its first compaction would go at once otherwise, and a reader of the old value would miss it.
        if not header.has_delete_horizon and any(record.value_bytes < 0 for record in kept):
            return (yield from _encode(header, kept, self.now_ms + self.delete_retention_ms))
        return batch if len(kept) == header.record_count else (yield from _encode(header, kept, _horizon_ms(header)))

    def _apply_to_marker(self, batch: bytes, header: BatchHeader) -> Pausing[bytes | None]:
        if self.tracker.is_marker_needed(header):
            self.markers_kept.add(header.base_offset)
            return batch
        if self._must_stay(header):
            return batch
        if header.has_delete_horizon:
            return None if self._is_past_horizon(header) else batch
        records = yield from readable_records(batch, header, self.bytes_max)
        return (
            batch if records is None else (yield from _encode(header, records, self.now_ms + self.delete_retention_ms))
        )

    def _is_kept(self, record: ScannedRecord, *, is_past_horizon: bool) -> bool:
        # Records without a key stem from the time before the topic was compacted. Apache Kafka drops them, too.
        if not record.has_key or record.offset < self.newest.get(record.key, NO_OFFSET):
            return False
        return record.value_bytes >= 0 or not is_past_horizon

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        horizon_ms = _horizon_ms(header)
        return horizon_ms is not None and horizon_ms <= self.now_ms

    def _must_stay(self, header: BatchHeader) -> bool:
        if header.offset_next == self.group_end_offset:  # a segment must end where the next begins
            return True
        entry = self.producers.get(header.producer_id)
        if entry is None:
            return False
        # Snapshots may be lost, so this batch is what recovery learns the producer's last sequence from.
        if entry.last_data_offset != NO_OFFSET:
            return header.last_offset == entry.last_data_offset
        # A producer epoch that has written nothing but a marker is known by that marker alone.
        return header.is_control and header.producer_epoch == entry.producer_epoch


def readable_records(batch: bytes, header: BatchHeader, bytes_max: int) -> Pausing[list[ScannedRecord] | None]:
    """Every record; None for a batch with a right checksum and nonsense inside, which compaction leaves as it is."""
    records: list[ScannedRecord] = []
    try:
        for step, record in enumerate(scan_records(batch, header, bytes_max=bytes_max)):
            if record is not None:
                records.append(record)
            is_large = record is not None and len(records) == 1 and len(record.body) > LARGE_BYTES_MIN
            if is_large or (record is None and step):  # the first pause is that of decompressing, long or not
                yield
    except ProtocolError:
        return None
    return records


def _chosen(records: list[ScannedRecord], is_chosen: Callable[[ScannedRecord], bool]) -> Pausing[list[ScannedRecord]]:
    chosen: list[ScannedRecord] = []
    for start in range(0, len(records), STEPS_BETWEEN_PAUSES):
        chosen += [record for record in records[start : start + STEPS_BETWEEN_PAUSES] if is_chosen(record)]
        if start + STEPS_BETWEEN_PAUSES < len(records):
            yield
    return chosen


def _horizon_ms(header: BatchHeader) -> int | None:
    # KIP-534: the flag says that the base timestamp is the horizon; the records' deltas count from it.
    return header.base_timestamp_ms if header.has_delete_horizon else None


def _encode(header: BatchHeader, records: list[ScannedRecord], horizon_ms: int | None) -> Pausing[bytes]:
    """The batch with these of its records, copied as they are but for the time of the batch, if that is the horizon."""
    base_ms = header.base_timestamp_ms if horizon_ms is None else horizon_ms
    body = bytearray()
    for number, record in enumerate(records, 1):
        if base_ms == header.base_timestamp_ms:
            record.write(body)
        else:
            record.write_at(body, record.timestamp_ms - base_ms)
        if number % STEPS_BETWEEN_PAUSES == 0:
            yield
    # Under LogAppendTime the time of the batch is the time of every record, whichever of them stay.
    is_recomputed = bool(records) and header.timestamp_type is TimestampType.CREATE_TIME
    return pack_batch(
        (yield from compress_in_pieces(header.codec, body)) if records else b"",
        record_count=len(records),
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        codec=header.codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        timestamp_type=header.timestamp_type,
        last_offset_delta=header.last_offset_delta,
        base_timestamp_ms=base_ms,
        max_timestamp_ms=max(record.timestamp_ms for record in records) if is_recomputed else header.max_timestamp_ms,
        has_delete_horizon=horizon_ms is not None,
    )

"""What compaction keeps of one batch. Pure: bytes in, bytes or nothing out.

Keeps: C1 the last value of every key stays; C2 a batch that carries a producer's last sequence or epoch stays, if need
       be without records; C3 a marker stays as long as its transaction has a batch in the log; C4 offsets never change.
Why:   a tombstone, or a marker that nothing needs, gets a delete horizon when compaction first meets it and goes when
       that has passed, so that a reader who is not too slow still sees it (KIP-534).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from semel.broker.log_types import AbortedTransaction
from semel.broker.producer_state import NO_OFFSET, ProducerEntry
from semel.errors import ProtocolError
from semel.protocol.record_batch import BatchHeader, DraftRecord, Record, TimestampType, decode_records, encode_batch


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
    markers_kept: set[int] = field(default_factory=set)

    def apply(self, batch: bytes, header: BatchHeader) -> bytes | None:
        """The batch as it stays in the log: as it was, smaller, empty, or not at all."""
        if header.is_control:
            return self._apply_to_marker(batch, header)
        records = [] if self.tracker.is_aborted(header) else readable_records(batch, header)
        if records is None:
            return batch
        is_past = self._is_past_horizon(header)
        kept = [record for record in records if self._is_kept(record, is_past_horizon=is_past)]
        if not kept:
            return _encode(header, [], None) if self._must_stay(header) else None
        if not header.has_delete_horizon and any(record.value is None for record in kept):
            return _encode(header, kept, self.now_ms + self.delete_retention_ms)
        return batch if len(kept) == header.record_count else _encode(header, kept, _horizon_ms(header))

    def _apply_to_marker(self, batch: bytes, header: BatchHeader) -> bytes | None:
        if self.tracker.is_marker_needed(header):
            self.markers_kept.add(header.base_offset)
            return batch
        if self._must_stay(header):
            return batch
        if header.has_delete_horizon:
            return None if self._is_past_horizon(header) else batch
        return _encode(header, decode_records(batch, header), self.now_ms + self.delete_retention_ms)

    def _is_kept(self, record: Record, *, is_past_horizon: bool) -> bool:
        if record.key is None or record.offset < self.newest.get(record.key, NO_OFFSET):
            return False
        return record.value is not None or not is_past_horizon

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        horizon_ms = _horizon_ms(header)
        return horizon_ms is not None and horizon_ms <= self.now_ms

    def _must_stay(self, header: BatchHeader) -> bool:
        if header.offset_next == self.group_end_offset:  # a segment must end where the next begins
            return True
        entry = self.producers.get(header.producer_id)
        if entry is None:
            return False
        if entry.last_data_offset != NO_OFFSET:
            return header.last_offset == entry.last_data_offset
        return header.is_control and header.producer_epoch == entry.producer_epoch


def readable_records(batch: bytes, header: BatchHeader) -> list[Record] | None:
    """The records; None for a batch with a right checksum and nonsense inside, which compaction leaves as it is."""
    try:
        return decode_records(batch, header)
    except ProtocolError:
        return None


def _horizon_ms(header: BatchHeader) -> int | None:
    return header.base_timestamp_ms if header.has_delete_horizon else None


def _encode(header: BatchHeader, records: list[Record], horizon_ms: int | None) -> bytes:
    drafts = [
        DraftRecord(
            key=record.key,
            value=record.value,
            timestamp_ms=record.timestamp_ms,
            headers=record.headers,
            offset_delta=record.offset - header.base_offset,
        )
        for record in records
    ]
    is_recomputed = bool(records) and header.timestamp_type is TimestampType.CREATE_TIME
    return encode_batch(
        drafts,
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
        base_timestamp_ms=header.base_timestamp_ms,
        max_timestamp_ms=None if is_recomputed else header.max_timestamp_ms,
        delete_horizon_ms=horizon_ms,
    )

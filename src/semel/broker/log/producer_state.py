"""Who produced what to one partition: sequences, producer epochs and open transactions.

Keeps: I1 a batch sent twice is appended once, as long as it is among its producer's last five; I2 sequences of one
       producer epoch have no gap; B7 an older producer epoch writes nothing once a newer one was seen. A damaged or
       half-written `<offset>.snapshot` is noticed (CRC-32C over everything after it) and never half loaded.
Why:   the rules are those of Apache Kafka 4 (its ProducerAppendInfo), of which these surprise:
       - a producer id without state here may start at any sequence, because retention or DeleteRecords may have taken
         its records; with transactions version 2 it must start at 0 (KIP-890);
       - a known producer id with a newer epoch must start at 0, else OUT_OF_ORDER_SEQUENCE_NUMBER;
       - an older epoch is INVALID_PRODUCER_EPOCH (the producer may abort and go on), not PRODUCER_FENCED;
       - a repeat older than the last five is OUT_OF_ORDER_SEQUENCE_NUMBER; DUPLICATE_SEQUENCE_NUMBER is never used;
       - a producer is forgotten when it was silent for long by the broker's clock; Apache Kafka goes by the time in
         its records, and so forgets one that writes old records while it is retrying them;
       - a completed transaction holds the last stable offset until its marker is below the high watermark.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError  # noqa: N812  (the standard name is too plain to keep)
from typing import NamedTuple, NoReturn

from crc32c import crc32c as checksum

from semel.broker.log.types import AbortedTransaction, AppendRefused, Origin
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import BatchHeader, Marker, decode_marker
from semel.protocol.varint import Buffer

# As in Apache Kafka: a producer may have five requests in flight, and any of them may be sent again.
BATCHES_KEPT = 5
NO_OFFSET = -1
NO_EPOCH = -1
# A sequence is an int32 without its sign; see `next_sequence` for what follows.
SEQUENCE_MAX = 2**31 - 1


class BatchSeen(NamedTuple):
    """One batch of a producer, as remembered."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


@dataclass(slots=True)
class ProducerEntry:
    """What is known of one producer id on this partition."""

    producer_id: int
    producer_epoch: int = NO_EPOCH
    coordinator_epoch: int = NO_EPOCH
    last_timestamp_ms: int = -1
    transaction_first_offset: int = NO_OFFSET
    batches: deque[BatchSeen] = field(default_factory=lambda: deque(maxlen=BATCHES_KEPT))
    # By this broker's clock, since a record's own time may be years back; not part of what the log says.
    heard_ms: int = field(default=-1, compare=False)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1 when this producer epoch has written none."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_data_offset(self) -> int:
        """Offset of the last record, -1 when this producer epoch has written none."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def enter_epoch(self, producer_epoch: int) -> None:
        """A different producer epoch starts with no batches."""
        if producer_epoch != self.producer_epoch:
            # Sequences begin again at 0: batches of the older epoch must not be taken for repeats of the newer.
            self.producer_epoch = producer_epoch
            self.batches.clear()


@dataclass(slots=True)
class Verification:
    """The token that the append of a first transactional write must show; made when its verification begins."""

    producer_epoch: int
    lowest_sequence: int
    requires_sequence_zero: bool
    started_ms: int


class _Completed(NamedTuple):
    first_offset: int
    last_offset: int


class ProducerStates:
    """The producers of one partition."""

    __slots__ = (
        "_open",
        "_unreplicated",
        "_verifications",
        "entries",
        "first_undecided_offset",
        "first_unstable_offset",
    )

    def __init__(self) -> None:
        """Start without any producer."""
        self.entries: dict[int, ProducerEntry] = {}
        self._open: dict[int, int] = {}  # producer id -> first offset
        self._unreplicated: list[_Completed] = []
        self._verifications: dict[int, Verification] = {}
        self.first_undecided_offset: int | None = None
        self.first_unstable_offset: int | None = None

    # --- before the append

    def find_duplicate(self, header: BatchHeader) -> BatchSeen | None:
        """The remembered batch that this one repeats."""
        entry = self.entries.get(header.producer_id)
        # The same sequences under another producer epoch are other records.
        if entry is None or entry.producer_epoch != header.producer_epoch:
            return None
        first, last = header.base_sequence, header.last_sequence
        for seen in entry.batches:
            if seen.base_sequence == first and seen.last_sequence == last:
                return seen
        return None

    def check_data(self, header: BatchHeader, origin: Origin) -> None:
        """Refuse a batch of records that breaks the rules above; changes nothing."""
        entry = self.entries.get(header.producer_id)
        if entry is not None and header.producer_epoch < entry.producer_epoch:
            _refuse_epoch(header.producer_id, header.producer_epoch, entry.producer_epoch)
        if origin is Origin.CLIENT:
            self._check_sequence(header, entry)
        # Its records would stand among those of the transaction, and an abort would take them along: readers tell
        # aborted records by producer id and offset alone.
        if entry is not None and entry.transaction_first_offset != NO_OFFSET and not header.is_transactional:
            raise AppendRefused(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has a transaction open here, but the batch is not part of one",
            )

    def _check_sequence(self, header: BatchHeader, entry: ProducerEntry | None) -> None:
        sequence = header.base_sequence
        pending = self._verifications.get(header.producer_id)
        if pending is not None:
            _check_against_verification(pending, header, entry)
        if entry is None or entry.producer_epoch == NO_EPOCH:
            return
        # An older epoch was refused before, so this one is newer, and a new epoch numbers its batches from 0.
        if header.producer_epoch != entry.producer_epoch:
            if sequence != 0:
                _refuse_sequence(header, f"0, the first of producer epoch {header.producer_epoch}")
            return
        expected = next_sequence(entry.last_sequence)
        if sequence != expected:
            _refuse_sequence(header, str(expected))

    def check_marker(
        self, header: BatchHeader, coordinator_epoch: int, origin: Origin, transaction_version: int
    ) -> None:
        """Refuse a marker of an older producer epoch or of an older coordinator; changes nothing."""
        entry = self.entries.get(header.producer_id)
        # Without an entry nothing can be compared. The transaction may have written to other partitions only, or
        # retention took its records: its marker is appended all the same.
        if entry is None or origin is Origin.REPLICATION:
            return
        _check_marker_epoch(entry, header.producer_epoch, transaction_version)
        # The coordinator epoch is the leader epoch of the coordinator's partition of the
        # transaction log: a coordinator that has lost that partition may still be sending.
        if entry.coordinator_epoch > coordinator_epoch:
            raise AppendRefused(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"marker for producer {header.producer_id} is from coordinator epoch {coordinator_epoch}, "
                f"but {entry.coordinator_epoch} was seen",
            )

    # --- KIP-890: a transaction must be known to its coordinator before its first write

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, *, requires_sequence_zero: bool = False
    ) -> Verification | None:
        """Token for the append that follows; None when a transaction of this producer epoch is open already."""
        if self._is_open(producer_id, producer_epoch):
            return None
        pending = self._verifications.get(producer_id)
        if pending is None or producer_epoch > pending.producer_epoch:
            pending = Verification(producer_epoch, sequence, requires_sequence_zero, now_ms)
            self._verifications[producer_id] = pending
        elif producer_epoch == pending.producer_epoch:
            # Requests may overtake each other while the coordinator is asked. The lowest sequence must be appended
            # first, since a producer without state here could otherwise begin in the middle.
            pending.lowest_sequence = min(pending.lowest_sequence, sequence)
        return pending

    def check_verified(self, header: BatchHeader, token: Verification | None) -> None:
        """Refuse a first transactional write that was not verified, or that a marker has overtaken since."""
        if self._is_open(header.producer_id, header.producer_epoch):
            return
        # By identity: a marker takes the token away, and an equal one may have been made since.
        if token is None or self._verifications.get(header.producer_id) is not token:
            raise AppendRefused(
                ErrorCode.INVALID_TXN_STATE,
                f"the batch of producer {header.producer_id} is not part of an ongoing transaction",
            )

    # --- after the append

    def apply_data(self, header: BatchHeader, base_offset: int, timestamp_ms: int) -> None:
        """Remember a batch of records that now stands at `base_offset`."""
        entry = self._entry(header.producer_id)
        entry.enter_epoch(header.producer_epoch)
        last_offset = base_offset + header.last_offset_delta
        seen = BatchSeen(header.base_sequence, header.last_sequence, base_offset, last_offset, timestamp_ms)
        entry.batches.append(seen)
        entry.last_timestamp_ms = timestamp_ms
        if header.is_transactional:
            self._verifications.pop(header.producer_id, None)
            if entry.transaction_first_offset == NO_OFFSET:
                entry.transaction_first_offset = base_offset
                self._open[header.producer_id] = base_offset
                self._find_first()

    def apply_marker(
        self, header: BatchHeader, marker: Marker, coordinator_epoch: int, offset: int, timestamp_ms: int
    ) -> AbortedTransaction | None:
        """End the producer's transaction; what goes into the aborted index, if it had written and was aborted."""
        entry = self._entry(header.producer_id)
        # Read before the epoch changes: under transactions version 2 the marker
        # itself carries the next epoch (KIP-890).
        first_offset = entry.transaction_first_offset
        entry.enter_epoch(header.producer_epoch)
        entry.transaction_first_offset = NO_OFFSET
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp_ms = timestamp_ms
        # What was verified before this marker belonged to the transaction that has just ended.
        self._verifications.pop(header.producer_id, None)
        if first_offset == NO_OFFSET:
            return None
        del self._open[header.producer_id]
        # Until the marker is on all in-sync replicas the next leader may lack it: the last stable offset waits.
        self._unreplicated.append(_Completed(first_offset, offset))
        self._find_first()
        if marker is Marker.COMMIT:
            return None
        # The last stable offset of this moment: `find_aborted` knows by it where to stop looking.
        stable = offset + 1 if self.first_undecided_offset is None else self.first_undecided_offset
        return AbortedTransaction(
            producer_id=header.producer_id, first_offset=first_offset, last_offset=offset, last_stable_offset=stable
        )

    def replay(self, buffer: Buffer, header: BatchHeader, position: int = 0) -> AbortedTransaction | None:
        """Take over a batch that stands in a log, unchecked: recovery and replication."""
        if header.producer_id < 0:
            return None
        if not header.is_control:
            self.apply_data(header, header.base_offset, header.max_timestamp_ms)
            return None
        if header.record_count == 0:  # compaction took the marker and kept its place
            return None
        marker, coordinator_epoch = decode_marker(buffer, header, position)
        return self.apply_marker(header, marker, coordinator_epoch, header.base_offset, header.max_timestamp_ms)

    def advance_high_watermark(self, offset: int) -> None:
        """Completed transactions whose markers are now below the high watermark no longer hold anything back."""
        if self._unreplicated:
            # The high watermark is the first offset that is not replicated, so a marker exactly there still waits.
            self._unreplicated = [done for done in self._unreplicated if done.last_offset >= offset]
            self._find_first()

    def load(self, entry: ProducerEntry) -> None:
        """Take over an entry from a snapshot."""
        self.entries[entry.producer_id] = entry
        if entry.transaction_first_offset != NO_OFFSET:
            self._open[entry.producer_id] = entry.transaction_first_offset
            self._find_first()

    def touch(self, producer_id: int, now_ms: int) -> None:
        """Note the time: the producer wrote just now, or sent a batch again."""
        entry = self.entries.get(producer_id)
        if entry is not None:
            entry.heard_ms = now_ms

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that were idle too long and have no transaction open; how many."""
        gone = [
            producer_id
            for producer_id, entry in self.entries.items()
            # An open transaction keeps its producer known: without the entry, its marker would end nothing.
            if entry.transaction_first_offset == NO_OFFSET and now_ms - entry.heard_ms >= expiration_ms
        ]
        for producer_id in gone:
            del self.entries[producer_id]
        # Their appends never came: the connection broke while the coordinator was asked.
        stale = [key for key, token in self._verifications.items() if now_ms - token.started_ms >= expiration_ms]
        for key in stale:
            del self._verifications[key]
        return len(gone)

    def _is_open(self, producer_id: int, producer_epoch: int) -> bool:
        # A newer epoch means that the open transaction is decided and its marker on the way: a batch of the next
        # transaction must not slip in before that marker and share its fate.
        return producer_id in self._open and self.entries[producer_id].producer_epoch == producer_epoch

    def _entry(self, producer_id: int) -> ProducerEntry:
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
        return entry

    def _find_first(self) -> None:
        # Kept up to date here, since every read_committed fetch asks for the last stable offset.
        undecided = min(self._open.values(), default=None)
        unreplicated = min((done.first_offset for done in self._unreplicated), default=None)
        self.first_undecided_offset = undecided
        known = [offset for offset in (undecided, unreplicated) if offset is not None]
        self.first_unstable_offset = min(known, default=None)


def next_sequence(last_sequence: int) -> int:
    """Sequences run from 0 to 2**31 - 1 and start again."""
    return 0 if last_sequence == SEQUENCE_MAX else last_sequence + 1


def _check_against_verification(pending: Verification, header: BatchHeader, entry: ProducerEntry | None) -> None:
    is_without_batches = entry is None or not entry.batches
    if pending.requires_sequence_zero and header.base_sequence != 0 and is_without_batches:
        _refuse_sequence(header, "0, the first of a producer without state here")
    if header.base_sequence > pending.lowest_sequence:
        _refuse_sequence(header, f"{pending.lowest_sequence}, which was seen first")


def _check_marker_epoch(entry: ProducerEntry, producer_epoch: int, transaction_version: int) -> None:
    if producer_epoch > entry.producer_epoch:
        return
    # Under transactions version 2 each end of a transaction raises the producer epoch, and the marker carries the new
    # one. The same epoch is then right only if nothing is open: a repeat, because the first answer was lost.
    is_strict = transaction_version >= 2
    if producer_epoch == entry.producer_epoch and (not is_strict or entry.transaction_first_offset == NO_OFFSET):
        return
    _refuse_epoch(entry.producer_id, producer_epoch, entry.producer_epoch)


def _refuse_epoch(producer_id: int, found: int, current: int) -> NoReturn:
    raise AppendRefused(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {producer_id} wrote with producer epoch {found}, but {current} was seen",
    )


def _refuse_sequence(header: BatchHeader, expected: str) -> NoReturn:
    raise AppendRefused(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} sent sequence {header.base_sequence}, expected {expected}",
    )


_MAGIC = b"SPS1"
_HEAD = Struct(">4sII")  # magic, CRC of what follows the CRC, entries
_CRC_END = 8
# Neither the times by this broker's clock nor verifications are kept: both belong to one life of the broker.
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

"""Short ways to build batches and logs, and to say what a log holds."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from semel.broker.log.compaction import CompactionStep, compaction_run, plan_compaction
from semel.broker.log.config import LogConfig
from semel.broker.log.partition_log import PartitionLog
from semel.broker.log.producer_state import NO_OFFSET, ProducerEntry, ProducerStates
from semel.broker.log.types import AppendResult, Origin
from semel.protocol.compression import Codec
from semel.protocol.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    DraftRecord,
    Marker,
    Record,
    decode_records,
    encode_batch,
    encode_marker,
    iter_headers,
    stamp_producer,
)
from semel.world.disk import Disk

NOW_MS = 1_700_000_000_000
FOLDER = "topic-0"


def batch(
    values: Sequence[bytes | None] = (b"v",),
    *,
    keys: Sequence[bytes | None] | None = None,
    times_ms: Sequence[int] | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    codec: Codec = Codec.NONE,
) -> memoryview:
    """One batch as a client sends it."""
    records = [
        DraftRecord(
            key=keys[index] if keys else None, value=value, timestamp_ms=times_ms[index] if times_ms else NOW_MS + index
        )
        for index, value in enumerate(values)
    ]
    return memoryview(
        encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 and producer_epoch < 0 else producer_epoch,
            base_sequence=sequence,
            transactional=transactional,
            codec=codec,
        )
    )


def nonsense(times_ms: int = NOW_MS) -> memoryview:
    """A batch whose header and checksum are right and whose records are not records."""
    data = bytearray(batch([b"x" * 40], times_ms=[times_ms]))
    data[HEADER_BYTES:] = b"\xff" * (len(data) - HEADER_BYTES)
    stamp_producer(data, producer_id=-1, producer_epoch=-1, base_sequence=-1)
    return memoryview(data)


def open_log(disk: Disk, root: Path, config: LogConfig | None = None, *, clean: bool = False) -> PartitionLog:
    """Open the log under test."""
    return PartitionLog.open(disk, root / FOLDER, config or LogConfig(), now_ms=NOW_MS, clean=clean)


def append(log: PartitionLog, record_set: memoryview, *, leader_epoch: int = 0, now_ms: int = NOW_MS) -> AppendResult:
    """Append as a client's leader, and let every replica have it."""
    result = log.append_as_leader(record_set, leader_epoch=leader_epoch, now_ms=now_ms)
    log.advance_high_watermark(log.log_end_offset)
    return result


def end_transaction(
    log: PartitionLog,
    producer_id: int,
    marker: Marker,
    *,
    producer_epoch: int = 0,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> AppendResult:
    """Write a marker as the coordinator does."""
    control = encode_marker(
        marker,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp_ms=NOW_MS,
        coordinator_epoch=coordinator_epoch,
    )
    result = log.append_as_leader(
        memoryview(control),
        leader_epoch=0,
        now_ms=NOW_MS,
        origin=Origin.COORDINATOR,
        transaction_version=transaction_version,
    )
    log.advance_high_watermark(log.log_end_offset)
    return result


def read_all(log: PartitionLog, *, committed: bool = False) -> list[Record]:
    """Every record from the log start on, markers left out, through `read` in small pieces."""
    records: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, bytes_max=500).read()
        if not data:
            return records
        for position, header in iter_headers(data):
            if not header.is_control and not (committed and _is_aborted(log, header)):
                records += [one for one in decode_records(data, header, position) if one.offset >= offset]
            offset_next = header.offset_next
        assert offset_next > offset
        offset = offset_next
    return records


def _is_aborted(log: PartitionLog, header: BatchHeader) -> bool:
    return header.is_transactional and any(
        one.producer_id == header.producer_id and one.first_offset <= header.base_offset
        for one in log.aborted_transactions(header.base_offset, header.offset_next)
    )


def values_of(log: PartitionLog) -> list[tuple[int, bytes | None]]:
    """Offset and value of every record."""
    return [(record.offset, record.value) for record in read_all(log)]


def producers_of(log: PartitionLog) -> dict[int, ProducerEntry]:
    """The producer state as it is now."""
    return copy.deepcopy(log.producers.entries)


@dataclass
class Facts:
    """Everything about a log that must survive a restart."""

    values: list[tuple[int, bytes | None]]
    producers: dict[int, ProducerEntry]
    undecided: int | None
    aborted: list[object] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    log_end_offset: int = 0


def facts_of(log: PartitionLog) -> Facts:
    """Take stock."""
    return Facts(
        values=values_of(log),
        producers=producers_of(log),
        undecided=log.producers.first_undecided_offset,
        aborted=list(log.aborted_transactions(0, log.log_end_offset)),
        epochs=list(log.epochs.entries),
        log_end_offset=log.log_end_offset,
    )


def has_open_transaction(states: ProducerStates, producer_id: int) -> bool:
    """Whether the producer has written here in a transaction that has no marker yet."""
    entry = states.entries.get(producer_id)
    return entry is not None and entry.transaction_first_offset != NO_OFFSET


def compact_now(log: PartitionLog, now_ms: int, *, on_step: Callable[[CompactionStep], None] | None = None) -> bool:
    """Plan and run without pausing; whether there was anything to do."""
    plan = plan_compaction(log, now_ms)
    if plan is None:
        return False
    for _ in compaction_run(log, plan, now_ms, on_step=on_step):
        pass
    return True

"""What an append will do, decided before anything is written.

A leader plans for a producer's record set, a follower for the one it fetched, which it cuts into runs that each fit one
segment.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from semel.broker.log.append_rules import check_record_set
from semel.broker.log.config import LogConfig
from semel.broker.log.producer_state import BatchSeen, ProducerStates, Verification
from semel.broker.log.types import AppendRefused, Origin
from semel.errors import ProtocolError
from semel.protocol.batch_header import read_newest_ms, stamp_newest
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import BatchHeader, Marker, check_batch, decode_marker, iter_headers, stamp
from semel.world.disk import Buffer

_LEADER_FIELDS = Struct(">qii")  # base offset, batch length, leader epoch: the start of a batch, outside its checksum


class Planned(NamedTuple):
    """One batch of the record set, and the marker in it."""

    position: int
    header: BatchHeader
    marker: tuple[Marker, int] | None


def plan_append(
    record_set: memoryview,
    config: LogConfig,
    producers: ProducerStates,
    *,
    now_ms: int,
    origin: Origin,
    verification: Verification | None,
    transaction_version: int,
    newest_ms: int | None,
) -> list[Planned] | BatchSeen:
    """The batches to append, or where the same batch stands already; AppendRefused otherwise."""
    planned: list[Planned] = []
    batches = check_record_set(record_set, config, origin=origin, now_ms=now_ms, newest_ms=newest_ms)
    for position, header in batches:
        marker = None
        if header.producer_id >= 0:
            # Before the sequence check, which would refuse a repeat as out of order. A client
            # sends one batch at a time, so one repeated batch is the whole record set.
            if origin is Origin.CLIENT and (seen := producers.find_duplicate(header)):
                return seen
            if header.is_control:
                marker = _marker(record_set, header, position)
                # Only a coordinator gets here: `check_record_set` refuses a control batch from a client.
                producers.check_marker(header, marker[1], origin, transaction_version)
            else:
                # Before the sequence check, as in Apache Kafka: a batch that belongs to no open transaction is
                # INVALID_TXN_STATE, whatever its sequence is.
                if config.verify_transactions and header.is_transactional and origin is not Origin.REPLICATION:
                    producers.check_verified(header, verification)
                producers.check_data(header, origin)
        planned.append(Planned(position, header, marker))
    return planned


def _marker(record_set: memoryview, header: BatchHeader, position: int) -> tuple[Marker, int]:
    try:
        return decode_marker(record_set, header, position)
    except ProtocolError as error:
        raise AppendRefused(ErrorCode.INVALID_RECORD, str(error)) from None


def stamped(
    record_set: memoryview,
    planned: Sequence[Planned],
    *,
    base_offset: int,
    leader_epoch: int,
    append_time_ms: int | None,
) -> list[Buffer]:
    """The bytes to write: 16 new ones for each batch and the rest as received, unless a time in the header changes."""
    buffers: list[Buffer] = []
    for position, header, _ in planned:
        end = position + header.size_bytes
        # An inspection may have put the header right; the bytes still say what the producer claimed.
        is_forged = append_time_ms is None and header.max_timestamp_ms != read_newest_ms(record_set, position)
        if append_time_ms is None and not is_forged:
            buffers.append(_LEADER_FIELDS.pack(base_offset, header.batch_length, leader_epoch))
            buffers.append(record_set[position + _LEADER_FIELDS.size : end])
        else:
            # Both times lie under the checksum, so the batch is copied and its CRC made again.
            whole = bytearray(record_set[position:end])
            stamp(whole, base_offset=base_offset, leader_epoch=leader_epoch, max_timestamp_ms=append_time_ms)
            if is_forged:
                stamp_newest(whole, header.max_timestamp_ms)
            buffers.append(whole)
        base_offset += header.last_offset_delta + 1
    return buffers


class Run(NamedTuple):
    """Batches that are written with one call."""

    position: int
    size_bytes: int
    headers: list[BatchHeader]


def plan_runs(record_set: memoryview, offset_min: int, run_bytes_max: int) -> list[Run]:
    """Whole batches in offset order; a batch that Fetch cut short at the end is left for the next fetch."""
    runs: list[Run] = []
    for position, header in _sound_batches(record_set):
        # A gap is fine, the leader's compaction leaves some. Only going back is not.
        if header.base_offset < offset_min:
            message = f"batch at offset {header.base_offset} was replicated, but the log already reaches {offset_min}"
            raise AppendRefused(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        # The next batch is held against this one, so a batch that overlaps its predecessor is refused too.
        offset_min = header.offset_next
        if runs and runs[-1].size_bytes + header.size_bytes <= run_bytes_max:
            last = runs[-1]
            last.headers.append(header)
            runs[-1] = Run(last.position, last.size_bytes + header.size_bytes, last.headers)
        else:
            runs.append(Run(position, header.size_bytes, [header]))
    return runs


def _sound_batches(record_set: memoryview) -> list[tuple[int, BatchHeader]]:
    try:
        batches = list(iter_headers(record_set))
        # The checksum is checked on every replica: damage at the leader must not spread.
        for position, header in batches:
            check_batch(record_set, header, position)
    except ProtocolError as error:
        raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    return batches

"""What an append will do, decided before anything is written."""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from semel.broker.append_rules import check_record_set
from semel.broker.log_config import LogConfig
from semel.broker.log_types import AppendRefused, Origin
from semel.broker.producer_state import BatchSeen, ProducerStates, Verification
from semel.errors import ProtocolError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import BatchHeader, Marker, decode_marker, stamp
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
) -> list[Planned] | BatchSeen:
    """The batches to append, or where the same batch stands already; AppendRefused otherwise."""
    planned: list[Planned] = []
    for position, header in check_record_set(record_set, config, origin=origin, now_ms=now_ms):
        marker = None
        if header.producer_id >= 0:
            if origin is Origin.CLIENT and (seen := producers.find_duplicate(header)):
                return seen
            if header.is_control:
                marker = _marker(record_set, header, position)
                producers.check_marker(header, marker[1], origin, transaction_version)
            else:
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
    """The bytes to write: 16 new ones for each batch and the rest as received; LogAppendTime needs a new checksum."""
    buffers: list[Buffer] = []
    for position, header, _ in planned:
        end = position + header.size_bytes
        if append_time_ms is None:
            buffers.append(_LEADER_FIELDS.pack(base_offset, header.batch_length, leader_epoch))
            buffers.append(record_set[position + _LEADER_FIELDS.size : end])
        else:
            whole = bytearray(record_set[position:end])
            stamp(whole, base_offset=base_offset, leader_epoch=leader_epoch, max_timestamp_ms=append_time_ms)
            buffers.append(whole)
        base_offset += header.last_offset_delta + 1
    return buffers

"""What a record set must look like to be appended by a leader. Reads headers and checksums, decompresses nothing.

Keeps: L5 nothing damaged, oversized or forged (control records) enters the log from a client.
Why:   records are looked at only where the header does not say enough (`needs_inspection`); `inspection` does that.
       Apache Kafka looks at them always; see docs/DIFFERENCES.md.
"""

from collections.abc import Callable
from struct import Struct
from typing import NoReturn, TypeVar

from semel.broker.log.config import LogConfig
from semel.broker.log.inspection import inspect, needs_inspection, too_large
from semel.broker.log.types import AppendRefused, Origin
from semel.broker.runtime.yielding import run_through
from semel.errors import ProtocolError, UnsupportedVersionError
from semel.protocol.batch_header import APPEND_TIME_BIT, CODEC_MASK, CONTROL_BIT, TRANSACTIONAL_BIT
from semel.protocol.codec_library import OutputFullError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    Codec,
    check_batch,
    iter_headers,
    read_header,
)

T = TypeVar("T")
_LENGTH = Struct(">i")
_LENGTH_AT = 8  # behind the base offset


def check_record_set(
    record_set: memoryview, config: LogConfig, *, origin: Origin, now_ms: int, newest_ms: int | None = None
) -> list[tuple[int, BatchHeader]]:
    """Position and header of each batch; AppendRefused with Kafka's error code when one may not be appended.

    `newest_ms` is what `Inspections` have found before; without it the batch is inspected here if need be.
    As Apache Kafka does, what the header says about the newest record is put right.
    """
    if origin is Origin.CLIENT:
        header = check_client_batch(record_set, config)
        if newest_ms is None and needs_inspection(header, config, now_ms):
            newest_ms = _inspect_now(record_set, header, config, now_ms)
        return [(0, header if newest_ms is None else header._replace(max_timestamp_ms=newest_ms))]
    batches = _split(record_set)
    _check_total(record_set, config)
    for position, header in batches:
        _check_intact(record_set, header, position)
    return batches


def check_client_batch(record_set: memoryview, config: LogConfig) -> BatchHeader:
    """The header of the one batch that a client may send at a time; AppendRefused when it may not be appended."""
    header = first_header(record_set)
    check_alone(record_set, header)
    _check_total(record_set, config)
    # The size as it came, compressed: that is what max.message.bytes means at the
    # broker, whatever the producer counted.
    if header.size_bytes > config.batch_bytes_max:
        message = f"batch of {header.size_bytes} bytes is above the {config.batch_bytes_max} of max.message.bytes"
        _refuse(ErrorCode.MESSAGE_TOO_LARGE, message)
    _check_intact(record_set, header, 0)
    _check_client_header(header)
    return header


def _inspect_now(record_set: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> int:
    try:
        return run_through(inspect(record_set, header, config, now_ms, config.decompressed_bytes_max))
    except OutputFullError as error:
        raise too_large(error) from None


def _check_total(record_set: memoryview, config: LogConfig) -> None:
    if len(record_set) > config.segment_bytes_max:
        _refuse(ErrorCode.RECORD_LIST_TOO_LARGE, f"{len(record_set)} bytes are more than a segment holds")


def _check_intact(record_set: memoryview, header: BatchHeader, position: int) -> None:
    try:
        check_batch(record_set, header, position)
    except ProtocolError as error:
        raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None


def _split(record_set: memoryview) -> list[tuple[int, BatchHeader]]:
    batches = _readable(lambda: list(iter_headers(record_set)))
    # `iter_headers` ends silently where a batch is cut short, since Fetch answers may be. An append has to be whole.
    if not batches or sum(header.size_bytes for _, header in batches) != len(record_set):
        _refuse(ErrorCode.CORRUPT_MESSAGE, "the record set does not end with a whole batch")
    return batches


def first_header(record_set: memoryview) -> BatchHeader:
    """The header of the first batch of a produce request; AppendRefused when there is no whole one."""
    # Apache Kafka finds no batch at all in one that is cut short: INVALID_RECORD, not CORRUPT_MESSAGE.
    is_whole = len(record_set) >= HEADER_BYTES
    if not is_whole or _LENGTH.unpack_from(record_set, _LENGTH_AT)[0] + LOG_OVERHEAD_BYTES > len(record_set):
        _refuse(ErrorCode.INVALID_RECORD, "a produce request needs one whole batch per partition, found none")
    return _readable(lambda: read_header(record_set))


def check_alone(record_set: memoryview, header: BatchHeader) -> None:
    """Refuse what follows the first batch."""
    if header.size_bytes < len(record_set):
        _refuse(ErrorCode.INVALID_RECORD, "a produce request needs exactly one batch per partition, found more")


def _readable(read: Callable[[], T]) -> T:
    """What was read, or a refusal in Kafka's words."""
    try:
        return read()
    except UnsupportedVersionError as error:
        raise AppendRefused(ErrorCode.INVALID_RECORD, str(error)) from None
    except ProtocolError as error:
        raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None


def _check_client_header(header: BatchHeader) -> None:
    base_offset, _, _, _, _, attributes, last_offset_delta, _, _, producer_id, producer_epoch, sequence, count = header
    if base_offset != 0:
        _refuse(ErrorCode.INVALID_RECORD, f"the base offset of a new batch must be 0, not {base_offset}")
    # Only compaction leaves gaps between the offsets of a batch.
    if count <= 0 or count != last_offset_delta + 1:
        _refuse(ErrorCode.INVALID_RECORD, f"{count} records do not fill offset deltas 0 to {last_offset_delta}")
    if attributes & CONTROL_BIT:
        _refuse(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if attributes & CODEC_MASK > Codec.ZSTD:
        _refuse(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression {attributes & CODEC_MASK} is unknown")
    # Without idempotence all three are -1. With a producer id, the sequence rules (I1, I2) need the other two.
    if producer_id >= 0:
        if sequence < 0 or producer_epoch < 0:
            _refuse(ErrorCode.INVALID_RECORD, f"producer {producer_id} sent sequence {sequence}")
    elif attributes & TRANSACTIONAL_BIT:
        _refuse(ErrorCode.INVALID_RECORD, "a transactional batch needs a producer id")
    # Only the broker sets this bit, for topics with message.timestamp.type=LogAppendTime.
    if attributes & APPEND_TIME_BIT:
        _refuse(ErrorCode.INVALID_TIMESTAMP, "producers may not set the timestamp type to LogAppendTime")


def _refuse(code: ErrorCode, message: str) -> NoReturn:
    raise AppendRefused(code, message)

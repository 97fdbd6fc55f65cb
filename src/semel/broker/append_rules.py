"""What a record set must look like to be appended by a leader. Reads headers and checksums, decompresses nothing.

Keeps: L5 nothing damaged, oversized or forged (control records) enters the log from a client.
Why:   records are parsed only where a rule is about single records: null keys on compacted topics, and
       `message.timestamp.before.max.ms` when it is set. Apache Kafka parses them always; see docs/DIFFERENCES.md.
"""

from typing import NoReturn

from semel.broker.log_config import UNLIMITED, LogConfig
from semel.broker.log_types import AppendRefused, Origin
from semel.errors import ProtocolError, UnsupportedVersionError
from semel.protocol.batch_header import APPEND_TIME_BIT, CODEC_MASK, CONTROL_BIT, TRANSACTIONAL_BIT
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import (
    NO_TIMESTAMP_MS,
    BatchHeader,
    Codec,
    Record,
    TimestampType,
    check_batch,
    decode_records,
    iter_headers,
    read_header,
)


def check_record_set(
    record_set: memoryview, config: LogConfig, *, origin: Origin, now_ms: int
) -> list[tuple[int, BatchHeader]]:
    """Position and header of each batch; AppendRefused with Kafka's error code when one may not be appended."""
    batches = _split(record_set, origin)
    if len(record_set) > config.segment_bytes_max:
        _refuse(ErrorCode.RECORD_LIST_TOO_LARGE, f"{len(record_set)} bytes are more than a segment holds")
    for position, header in batches:
        size_bytes = header.size_bytes
        if size_bytes > config.batch_bytes_max and origin is Origin.CLIENT:
            message = f"batch of {size_bytes} bytes is above the {config.batch_bytes_max} of max.message.bytes"
            _refuse(ErrorCode.MESSAGE_TOO_LARGE, message)
        try:
            check_batch(record_set, header, position)
        except ProtocolError as error:
            raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
        if origin is Origin.CLIENT:
            _check_client_batch(header)
            if config.is_compacted or not _is_timely(header.max_timestamp_ms, config, now_ms) or _is_bounded(config):
                _check_records(record_set, position, header, config, now_ms)
    return batches


def _split(record_set: memoryview, origin: Origin) -> list[tuple[int, BatchHeader]]:
    try:
        if origin is Origin.CLIENT:
            return [(0, _only_batch(record_set))]
        batches = list(iter_headers(record_set))
    except UnsupportedVersionError as error:
        raise AppendRefused(ErrorCode.INVALID_RECORD, str(error)) from None
    except ProtocolError as error:
        raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if not batches or sum(header.size_bytes for _, header in batches) != len(record_set):
        _refuse(ErrorCode.CORRUPT_MESSAGE, "the record set does not end with a whole batch")
    return batches


def _only_batch(record_set: memoryview) -> BatchHeader:
    if not len(record_set):
        _refuse(ErrorCode.INVALID_RECORD, "a produce request needs one batch per partition, found none")
    header = read_header(record_set)
    if header.size_bytes < len(record_set):
        _refuse(ErrorCode.INVALID_RECORD, "a produce request needs exactly one batch per partition, found more")
    return header


def _check_client_batch(header: BatchHeader) -> None:
    base_offset, _, _, _, _, attributes, last_offset_delta, _, _, producer_id, producer_epoch, sequence, count = header
    if base_offset != 0:
        _refuse(ErrorCode.INVALID_RECORD, f"the base offset of a new batch must be 0, not {base_offset}")
    if count <= 0 or count != last_offset_delta + 1:
        _refuse(ErrorCode.INVALID_RECORD, f"{count} records do not fill offset deltas 0 to {last_offset_delta}")
    if attributes & CONTROL_BIT:
        _refuse(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if attributes & CODEC_MASK > Codec.ZSTD:
        _refuse(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression {attributes & CODEC_MASK} is unknown")
    if producer_id >= 0:
        if sequence < 0 or producer_epoch < 0:
            _refuse(ErrorCode.INVALID_RECORD, f"producer {producer_id} sent sequence {sequence}")
    elif attributes & TRANSACTIONAL_BIT:
        _refuse(ErrorCode.INVALID_RECORD, "a transactional batch needs a producer id")
    if attributes & APPEND_TIME_BIT:
        _refuse(ErrorCode.INVALID_TIMESTAMP, "producers may not set the timestamp type to LogAppendTime")


def _is_timely(timestamp_ms: int, config: LogConfig, now_ms: int) -> bool:
    age_ms = now_ms - timestamp_ms
    return (
        config.timestamp_type is TimestampType.LOG_APPEND_TIME
        or timestamp_ms == NO_TIMESTAMP_MS
        or -config.timestamp_after_ms_max <= age_ms <= config.timestamp_before_ms_max
    )


def _is_bounded(config: LogConfig) -> bool:
    """Whether the oldest record of a batch may be too old while the newest, which the header tells, is not."""
    return config.timestamp_type is TimestampType.CREATE_TIME and config.timestamp_before_ms_max < UNLIMITED


def _check_records(record_set: memoryview, position: int, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    records = _decode(record_set, position, header)
    keyless = [at for at, record in enumerate(records) if config.is_compacted and record.key is None]
    if keyless:
        message = "a compacted topic cannot take a record without a key"
        raise AppendRefused(ErrorCode.INVALID_RECORD, message, tuple(keyless))
    untimely = [at for at, record in enumerate(records) if not _is_timely(record.timestamp_ms, config, now_ms)]
    if untimely:
        message = (
            f"timestamp {records[untimely[0]].timestamp_ms} is not within {config.timestamp_before_ms_max} ms before "
            f"and {config.timestamp_after_ms_max} ms after the broker's clock, {now_ms}"
        )
        raise AppendRefused(ErrorCode.INVALID_TIMESTAMP, message, tuple(untimely))


def _decode(record_set: memoryview, position: int, header: BatchHeader) -> list[Record]:
    try:
        return decode_records(record_set, header, position)
    except ProtocolError as error:
        raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None


def _refuse(code: ErrorCode, message: str) -> NoReturn:
    raise AppendRefused(code, message)

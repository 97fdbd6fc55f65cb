"""Looking at the records of a batch from a client, where its header does not say enough.

That is so on compacted topics, which take no record without a key; where `message.timestamp.before.max.ms` is set,
since a header does not tell the oldest record; and when the header says that the newest record is too old, too new, or
older than the first, since a header can be forged. The true time of the newest record is then put into the header, as
Apache Kafka does: retention believes it.

Keeps: L5 nothing forged enters the log from a client; a batch is decompressed only up to the topic's limit, nothing is
       built from its records, and the work has pauses.
"""

import asyncio

from semel.broker.log.config import UNLIMITED, LogConfig
from semel.broker.log.types import AppendRefused
from semel.broker.runtime.yielding import Pausing, run_pausing
from semel.errors import ProtocolError
from semel.protocol.codec_library import OutputFullError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import NO_TIMESTAMP_MS, BatchHeader, TimestampType
from semel.protocol.record_scan import scan_records
from semel.world.clock import Clock

# About what a batch may have uncompressed by default (max.message.bytes), so honest batches are small ones.
SMALL_BYTES_MAX = 1 << 20
SMALL_AT_ONCE_MAX = 16
COMPACTED_RECORDS_MAX = 100_000  # compaction has them all in memory, some 30 MiB
BAD_RECORDS_MAX = 1_000  # so many are named in an answer; a batch may have millions


def needs_inspection(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Whether the header alone does not decide."""
    # A forged time matters: one far in the future keeps a segment for ever, one far in the past deletes it at once.
    is_contradictory = header.max_timestamp_ms < header.base_timestamp_ms  # the base is the first record's time
    return (
        config.is_compacted
        or is_contradictory
        or _is_bounded(config)
        or not _is_timely(header.max_timestamp_ms, config, now_ms)
    )


def inspect(
    record_set: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, bytes_max: int
) -> Pausing[int]:
    """Look at every record; give the time of the newest.

    AppendRefused if one may not be appended; OutputFullError if they decompress to more than `bytes_max`.
    """
    if config.is_compacted and header.record_count > COMPACTED_RECORDS_MAX:
        message = f"a compacted topic takes {COMPACTED_RECORDS_MAX} records in one batch, not {header.record_count}"
        raise AppendRefused(ErrorCode.MESSAGE_TOO_LARGE, message)
    keyless: list[int] = []
    untimely: list[int] = []
    newest_ms, untimely_ms, number = NO_TIMESTAMP_MS, 0, 0
    try:
        for record in scan_records(record_set, header, bytes_max=bytes_max):
            if record is None:
                yield
                continue
            newest_ms = max(newest_ms, record.timestamp_ms)
            if config.is_compacted and not record.has_key and len(keyless) < BAD_RECORDS_MAX:
                keyless.append(number)
            # The message names the first bad time; the indexes of the others travel beside it (KIP-467).
            if len(untimely) < BAD_RECORDS_MAX and not _is_timely(record.timestamp_ms, config, now_ms):
                untimely_ms = untimely_ms if untimely else record.timestamp_ms
                untimely.append(number)
            number += 1
    # It is a ProtocolError as well, but no damage: the caller may try again with more room.
    except OutputFullError:
        raise
    except ProtocolError as error:
        raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if keyless:
        message = "a compacted topic cannot take a record without a key"
        raise AppendRefused(ErrorCode.INVALID_RECORD, message, tuple(keyless))
    if untimely:
        message = (
            f"timestamp {untimely_ms} is not within {config.timestamp_before_ms_max} ms before "
            f"and {config.timestamp_after_ms_max} ms after the broker's clock, {now_ms}"
        )
        raise AppendRefused(ErrorCode.INVALID_TIMESTAMP, message, tuple(untimely))
    return newest_ms


class Inspections:
    """Bounds the memory of all inspections of a broker, however many connections ask for them.

    Small ones, whose records decompress to `SMALL_BYTES_MAX` at most, run beside each other, a few at a time. Large
    ones run one after another: a client that sends compression bombs waits for other bombs and delays nobody else.
    """

    def __init__(self, clock: Clock) -> None:
        """None is under way."""
        self._clock = clock
        self._small = asyncio.Semaphore(SMALL_AT_ONCE_MAX)
        self._large = asyncio.Semaphore(1)

    async def run(self, record_set: memoryview, header: BatchHeader, config: LogConfig) -> int:
        """Inspect with pauses; give the time of the newest record, or raise AppendRefused."""
        try:
            async with self._small:
                return await self._run(record_set, header, config, min(SMALL_BYTES_MAX, config.decompressed_bytes_max))
        except OutputFullError as error:
            # Otherwise the whole inspection begins again below, with the larger limit.
            if config.decompressed_bytes_max <= SMALL_BYTES_MAX:
                raise too_large(error) from None
        try:
            async with self._large:
                return await self._run(record_set, header, config, config.decompressed_bytes_max)
        except OutputFullError as error:
            raise too_large(error) from None

    async def _run(self, record_set: memoryview, header: BatchHeader, config: LogConfig, bytes_max: int) -> int:
        work = inspect(record_set, header, config, self._clock.wall_ms(), bytes_max)
        return await run_pausing(work, self._clock)


def too_large(error: OutputFullError) -> AppendRefused:
    """A producer that gets this answer splits its batch and tries again."""
    return AppendRefused(ErrorCode.MESSAGE_TOO_LARGE, error.summary)


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

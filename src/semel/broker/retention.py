"""Which segments retention may delete: whole ones, from the oldest on, only below the high watermark."""

from collections.abc import Sequence

from semel.broker.log_config import LogConfig
from semel.broker.segment import Segment


def plan_expired(
    segments: Sequence[Segment], config: LogConfig, *, now_ms: int, log_start_offset: int, high_watermark: int
) -> int:
    """How many segments, counted from the oldest, are to go."""
    eligible = plan_below(segments if segments[-1].size_bytes else segments[:-1], high_watermark)
    counts = [plan_below(segments[:-1], log_start_offset)]
    if config.is_deleted:
        counts.append(_expired_by_time(segments[:eligible], config.retention_ms, now_ms))
        counts.append(_expired_by_size(segments[:eligible], segments, config.retention_bytes))
    return max(counts)


def plan_below(segments: Sequence[Segment], offset: int) -> int:
    """How many segments, counted from the oldest, end at or below `offset`."""
    count = 0
    for segment in segments:
        if segment.offset_next > offset:
            break
        count += 1
    return count


def _expired_by_time(eligible: Sequence[Segment], retention_ms: int, now_ms: int) -> int:
    if retention_ms < 0:
        return 0
    count = 0
    for segment in eligible:
        if now_ms - segment.largest_timestamp_ms <= retention_ms:
            break
        count += 1
    return count


def _expired_by_size(eligible: Sequence[Segment], segments: Sequence[Segment], retention_bytes: int) -> int:
    if retention_bytes < 0:
        return 0
    excess_bytes = sum(segment.size_bytes for segment in segments) - retention_bytes
    count = 0
    for segment in eligible:
        if excess_bytes < segment.size_bytes:
            break
        excess_bytes -= segment.size_bytes
        count += 1
    return count

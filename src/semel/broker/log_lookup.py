"""Finding things in the segments of a log: batches by offset, records by time, aborted transactions by range."""

from bisect import bisect_right
from collections.abc import Sequence

from semel.broker.log_types import AbortedTransaction, FileSlice, LogSlice, OffsetAndTimestamp
from semel.broker.segment import Segment
from semel.errors import ProtocolError
from semel.protocol.record_batch import BatchHeader, Record, decode_records


def segment_at(segments: Sequence[Segment], offset: int) -> int:
    """Which segment would hold `offset`; the first one for offsets below all."""
    last = len(segments) - 1
    if offset >= segments[last].base_offset:  # nearly every read is near the end
        return last
    return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)


def read_slices(
    segments: Sequence[Segment], offset_start: int, *, bytes_max: int, offset_limit: int, at_least_one: bool
) -> LogSlice:
    """Whole batches from `offset_start` up to `offset_limit`, over as many segments as `bytes_max` allows."""
    first = segment_at(segments, offset_start)
    slices: list[FileSlice] = []
    base_offset, segment_base_offset = offset_start, segments[first].base_offset
    for segment in segments[first:]:
        if segment.base_offset >= offset_limit:
            break
        wanted = at_least_one and not slices
        bounds = segment.bounds(offset_start, bytes_max=bytes_max, offset_limit=offset_limit, at_least_one=wanted)
        if bounds is None:
            continue
        if not slices:
            base_offset, segment_base_offset = bounds.base_offset, segment.base_offset
        if bounds.size_bytes:
            slices.append(FileSlice(segment.shared, bounds.position, bounds.size_bytes))
        bytes_max -= bounds.size_bytes
        if bytes_max <= 0 or bounds.position + bounds.size_bytes < segment.size_bytes:
            break
    return LogSlice(slices, base_offset, segment_base_offset)


def find_timestamp(segments: Sequence[Segment], timestamp_ms: int, offset_min: int) -> OffsetAndTimestamp | None:
    """The first record at or after `offset_min` whose timestamp is not below the one asked for."""
    for segment in segments:
        if segment.index.max_timestamp_ms < timestamp_ms or segment.offset_next <= offset_min:
            continue
        for position, header in segment.headers(segment.index.position_before_time(timestamp_ms)):
            if header.max_timestamp_ms >= timestamp_ms and header.last_offset >= offset_min:
                found = _first_record(segment, position, header, timestamp_ms, offset_min)
                if found is not None:
                    return found
    return None


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, offset_min: int
) -> OffsetAndTimestamp | None:
    for record in _records(segment, position, header):
        if record.timestamp_ms >= timestamp_ms and record.offset >= offset_min:
            return OffsetAndTimestamp(
                offset=record.offset, timestamp_ms=record.timestamp_ms, leader_epoch=header.leader_epoch
            )
    return None


def find_max_timestamp(segments: Sequence[Segment], offset_min: int) -> OffsetAndTimestamp | None:
    """The first record that has the largest timestamp of those at or after `offset_min`."""
    best: OffsetAndTimestamp | None = None
    for segment in segments:
        if segment.index.max_timestamp_ms > (best.timestamp_ms if best else -1):
            best = _newest_record(segment, offset_min, best)
    return best


def _newest_record(segment: Segment, offset_min: int, best: OffsetAndTimestamp | None) -> OffsetAndTimestamp | None:
    is_whole = segment.base_offset >= offset_min
    start = segment.index.position_before_offset(segment.index.max_timestamp_offset if is_whole else offset_min)
    for position, header in segment.headers(start):
        for record in _records_above(segment, position, header, best.timestamp_ms if best else -1):
            if record.offset >= offset_min and record.timestamp_ms > (best.timestamp_ms if best else -1):
                best = OffsetAndTimestamp(
                    offset=record.offset, timestamp_ms=record.timestamp_ms, leader_epoch=header.leader_epoch
                )
    return best


def _records_above(segment: Segment, position: int, header: BatchHeader, timestamp_ms: int) -> list[Record]:
    if header.max_timestamp_ms <= timestamp_ms:
        return []
    return _records(segment, position, header)


def _records(segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    """The records of a batch; one that no reader could decode either stands for itself as its header says."""
    try:
        return decode_records(segment.batch_at(position, header.size_bytes), header)
    except ProtocolError:
        return [Record(offset=header.base_offset, timestamp_ms=header.max_timestamp_ms, key=None, value=None)]


def find_aborted(segments: Sequence[Segment], offset_start: int, offset_limit: int) -> list[AbortedTransaction]:
    """Aborted transactions with records in the range; the index knows from which marker on there can be none."""
    found: list[AbortedTransaction] = []
    for segment in segments[segment_at(segments, offset_start) :]:
        for one in segment.aborted or ():
            if one.last_offset >= offset_start and one.first_offset < offset_limit:
                found.append(one)
            if one.last_stable_offset >= offset_limit:
                return found
    return found

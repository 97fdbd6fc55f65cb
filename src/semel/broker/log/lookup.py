"""Finding things in the segments of a log: batches by offset, records by time, aborted transactions by range."""

from bisect import bisect_right
from collections.abc import Generator, Sequence
from contextlib import closing

from semel.broker.log.segment import Segment
from semel.broker.log.types import AbortedTransaction, FileSlice, LogSlice, OffsetAndTimestamp
from semel.broker.runtime.yielding import Pausing
from semel.errors import ProtocolError
from semel.protocol.record_batch import NO_TIMESTAMP_MS, BatchHeader
from semel.protocol.record_scan import scan_records

BATCHES_BETWEEN_PAUSES = 1_000


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
            # Compaction may have emptied the place that was asked for, so the first
            # batch found can begin later than that.
            base_offset, segment_base_offset = bounds.base_offset, segment.base_offset
        if bounds.size_bytes:
            slices.append(FileSlice(segment.shared, bounds.position, bounds.size_bytes))
        bytes_max -= bounds.size_bytes
        # Taken only in part: one of the limits has been reached inside this segment.
        if bytes_max <= 0 or bounds.position + bounds.size_bytes < segment.size_bytes:
            break
    return LogSlice(slices, base_offset, segment_base_offset)


def find_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, offset_min: int, bytes_max: int
) -> Pausing[OffsetAndTimestamp | None]:
    """The first record at or after `offset_min` whose timestamp is not below the one asked for."""
    # A copy, since retention may delete segments at a pause.
    for segment in tuple(segments):
        if segment.index.max_timestamp_ms < timestamp_ms or segment.offset_next <= offset_min:
            continue
        start = segment.index.position_before_time(timestamp_ms)
        with closing(_records(segment, start, timestamp_ms, bytes_max)) as records:
            for record in records:
                if record is None:
                    yield
                elif record.timestamp_ms >= timestamp_ms and record.offset >= offset_min:
                    return record
    return None


def find_max_timestamp(
    segments: Sequence[Segment], offset_min: int, bytes_max: int
) -> Pausing[OffsetAndTimestamp | None]:
    """The first record that has the largest timestamp of those at or after `offset_min`."""
    best: OffsetAndTimestamp | None = None
    for segment in tuple(segments):
        best_ms = best.timestamp_ms if best else NO_TIMESTAMP_MS
        if segment.index.max_timestamp_ms <= best_ms:
            continue
        # With the log start inside the segment, its newest record may be deleted already: then all of it is walked.
        is_whole = segment.base_offset >= offset_min
        start = segment.index.position_before_offset(segment.index.max_timestamp_offset if is_whole else offset_min)
        with closing(_records(segment, start, best_ms + 1, bytes_max)) as records:
            for record in records:
                if record is None:
                    yield
                elif record.offset >= offset_min and record.timestamp_ms > best_ms:
                    best, best_ms = record, record.timestamp_ms
    return best


def _records(
    segment: Segment, position: int, timestamp_ms: int, bytes_max: int
) -> Generator[OffsetAndTimestamp | None, None, None]:
    """Records from `position` on, of batches that go up to this time at least; None where others may work.

    A batch that no reader could decode is given as one record, with the offset and time of its header.
    """
    held = segment.shared.hold()  # the segment may be deleted at a pause
    try:
        for number, (at, header) in enumerate(segment.headers(position)):
            if header.max_timestamp_ms >= timestamp_ms:
                try:
                    for record in scan_records(segment.batch_at(at, header.size_bytes), header, bytes_max=bytes_max):
                        yield record and _found(header, record.offset, record.timestamp_ms)
                except ProtocolError:
                    yield _found(header, header.base_offset, header.max_timestamp_ms)
            elif number % BATCHES_BETWEEN_PAUSES == 0:
                yield None
    finally:
        held.release()


def _found(header: BatchHeader, offset: int, timestamp_ms: int) -> OffsetAndTimestamp:
    return OffsetAndTimestamp(offset=offset, timestamp_ms=timestamp_ms, leader_epoch=header.leader_epoch)


def find_aborted(segments: Sequence[Segment], offset_start: int, offset_limit: int) -> list[AbortedTransaction]:
    """Aborted transactions with records in the range; the index knows from which marker on there can be none."""
    found: list[AbortedTransaction] = []
    for segment in segments[segment_at(segments, offset_start) :]:
        for one in segment.aborted or ():
            if one.last_offset >= offset_start and one.first_offset < offset_limit:
                found.append(one)
            # Later entries are of transactions that began at or after this last stable offset, so behind the range.
            if one.last_stable_offset >= offset_limit:
                return found
    return found

"""Compaction of one log: `cleanup.policy=compact`.

Keeps: C1-C4 of `compaction_filter`; C5 the active segment and everything from the last stable offset on stay as they
       are; C6 a crash at any step leaves a log that reads the same (see `compaction_swap`).
Why:   the work is a generator that stops after every few MiB or thousand records, inside a batch too, so the shell can
       serve requests in between; the swap of a group of segments is one stretch. What happened to the log meanwhile is
       checked after every pause.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from semel.broker.log.compaction_filter import BatchFilter, TransactionTracker, readable_records
from semel.broker.log.compaction_swap import cleaned_path, put_in_place, remove_segment_files, swap_path
from semel.broker.log.files import remove_if_there
from semel.broker.log.lookup import find_aborted
from semel.broker.log.partition_log import PartitionLog
from semel.broker.log.segment import Segment
from semel.broker.runtime.yielding import Pausing
from semel.protocol.record_batch import BatchHeader
from semel.world.disk import File

T = TypeVar("T")
# Bounds the memory of a run, as log.cleaner.dedupe.buffer.size does in Apache Kafka. The next run takes the rest.
KEYS_MAX = 2_000_000
_WRITE_BYTES = 1 << 20
# Bytes bound the copying, records the decoding, which costs far more: either ends a stretch.
_PAUSE_BYTES = 4 << 20
_PAUSE_RECORDS = 2_000
_STEPS_BETWEEN_PAUSES = 10_000  # for each key of a large batch


class CompactionStep(StrEnum):
    """Points between which a crash can fall."""

    # In this order; tests stop a run at each of them and open the log again.
    FILTERED = "filtered"
    SYNCED = "synced"
    CHOSEN = "chosen"
    ORIGINAL_REMOVED = "original removed"
    IN_PLACE = "in place"
    REPLACED = "replaced"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """Whole segments to compact, and where in them the part begins that was never compacted."""

    segments: tuple[Segment, ...]
    dirty_offset: int
    dirty_ratio: float

    @property
    def offset_limit(self) -> int:
        """First offset that is not touched."""
        return self.segments[-1].offset_next


@dataclass(slots=True, kw_only=True)
class CompactionStats:
    """What a run did; `completed` is false when the log was cut meanwhile, which undoes nothing but loses the work."""

    bytes_before: int = 0
    bytes_after: int = 0
    completed: bool = False


def plan_compaction(log: PartitionLog, now_ms: int) -> CompactionPlan | None:
    """What is worth compacting now, by `min.cleanable.dirty.ratio` and the two compaction lags."""
    dirty_offset = max(log.state.cleaned_offset_next, log.log_start_offset)
    segments = _cleanable(log, dirty_offset, now_ms)
    dirty = [segment for segment in segments if segment.offset_next > dirty_offset]
    if not log.config.is_compacted or not dirty:
        return None
    total_bytes = sum(segment.size_bytes for segment in segments)
    ratio = sum(segment.size_bytes for segment in dirty) / max(1, total_bytes)
    oldest_ms = dirty[0].index.first_timestamp_ms
    # KIP-354: a topic that must forget in time, for a law on personal data, is compacted even if little of it is dirty.
    is_overdue = oldest_ms >= 0 and now_ms - oldest_ms > log.config.compaction_lag_ms_max
    if ratio <= log.config.dirty_ratio_min and not is_overdue:
        return None
    return CompactionPlan(segments=tuple(segments), dirty_offset=dirty_offset, dirty_ratio=ratio)


def _cleanable(log: PartitionLog, dirty_offset: int, now_ms: int) -> list[Segment]:
    found: list[Segment] = []
    lag_ms = log.config.compaction_lag_ms_min
    for segment in log.segments[:-1]:
        # From here on a transaction may be undecided or its marker not replicated:
        # nobody knows yet which values count (C5).
        if segment.offset_next > log.last_stable_offset:
            break
        # The lag protects only what was never compacted. Older segments are walked again: newer keys replace theirs.
        is_dirty = segment.offset_next > dirty_offset
        if is_dirty and lag_ms > 0 and now_ms - segment.largest_timestamp_ms < lag_ms:
            break
        found.append(segment)
    return found


def compaction_run(
    log: PartitionLog,
    plan: CompactionPlan,
    now_ms: int,
    *,
    keys_max: int = KEYS_MAX,
    on_step: Callable[[CompactionStep], None] | None = None,
) -> Generator[None, None, CompactionStats]:
    """Do the work; other work on the log may happen at each yield. Closing the generator gives up the run."""
    guard = _Guard(log=log, generation=log.generation, segments=list(plan.segments))
    stats = CompactionStats()
    try:
        yield from _run(log, plan, now_ms, guard, stats, keys_max=keys_max, reached=on_step or _ignore)
        stats.completed = True
    # Groups that were swapped stay compacted. Of the others only half-written copies have to go.
    except (_CutMeanwhile, GeneratorExit, OSError) as stop:
        for segment in guard.segments:
            remove_if_there(log.disk, cleaned_path(log.folder, segment.base_offset))
        if not isinstance(stop, _CutMeanwhile):
            raise
    return stats


class _CutMeanwhile(Exception):
    """Segments of the plan are gone."""


@dataclass(slots=True, kw_only=True)
class _Guard:
    """Knows whether the segments that are still to be done are those of the plan, and when others are to be served."""

    log: PartitionLog
    generation: int
    segments: list[Segment]
    unpaused_bytes: int = 0
    unpaused_records: int = 0

    def pause_after(self, header: BatchHeader) -> Generator[None, None, None]:
        """Count one batch, and pause if that makes enough of them."""
        self.unpaused_bytes += header.size_bytes
        self.unpaused_records += header.record_count
        if self.unpaused_bytes >= _PAUSE_BYTES or self.unpaused_records >= _PAUSE_RECORDS:
            self.unpaused_bytes = self.unpaused_records = 0
            yield from self.pause()

    def paused(self, work: Pausing[T]) -> Pausing[T]:
        """Do work on one batch, with the same look at the log after each of its pauses."""
        while True:
            try:
                next(work)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # what the generator returned
            yield from self.pause()

    def pause(self) -> Generator[None, None, None]:
        """Let others work; retention, truncation or closing may then end the run."""
        yield
        # By identity: a new segment may have the base offset of one that is gone.
        there = {id(segment) for segment in self.log.segments}
        if self.log.generation != self.generation or any(id(segment) not in there for segment in self.segments):
            raise _CutMeanwhile


def _run(
    log: PartitionLog,
    plan: CompactionPlan,
    now_ms: int,
    guard: _Guard,
    stats: CompactionStats,
    *,
    keys_max: int,
    reached: Callable[[CompactionStep], None],
) -> Generator[None, None, None]:
    # All of it lies below the last stable offset, so no pause can change what is aborted.
    aborted = find_aborted(log.segments, plan.segments[0].base_offset, plan.offset_limit)
    newest, segments = yield from _newest_offsets(plan, TransactionTracker(aborted), keys_max, guard)
    rules = BatchFilter(
        newest=newest,
        # A tracker remembers what it has passed, so each walk needs its own.
        tracker=TransactionTracker(aborted),
        producers=log.producers.entries,
        group_end_offset=segments[0].base_offset,
        now_ms=now_ms,
        delete_retention_ms=log.config.delete_retention_ms,
        bytes_max=log.config.readable_bytes_max,
    )
    for group in _groups(segments, log.config.segment_bytes_max):
        rules.group_end_offset = group[-1].offset_next
        stats.bytes_before += sum(segment.size_bytes for segment in group)
        stats.bytes_after += yield from _filter_group(log, group, rules, guard)
        reached(CompactionStep.FILTERED)
        # No pause until the swap is done. It takes these segments out of the log itself, so they are no longer guarded.
        del guard.segments[: len(group)]
        _swap(log, group, rules.markers_kept, reached)
    # Written last: after a crash before it, the same work is done once more and finds less to do.
    log.state.cleaned_offset_next = segments[-1].offset_next
    log.checkpoint()
    reached(CompactionStep.DONE)


def _ignore(_: CompactionStep) -> None:
    """For callers that do not watch the steps."""


def _newest_offsets(
    plan: CompactionPlan, tracker: TransactionTracker, keys_max: int, guard: _Guard
) -> Generator[None, None, tuple[dict[bytes, int], list[Segment]]]:
    """The newest offset of each key in the dirty part, and the segments that it covers."""
    newest: dict[bytes, int] = {}
    covered: list[Segment] = []
    for segment in plan.segments:
        # Never before the first segment: a run that covers none would be planned again and again.
        if len(newest) >= keys_max:
            break
        covered.append(segment)
        for _, header, batch in segment.batches():
            is_aborted = not header.is_control and tracker.is_aborted(header)
            # An aborted value must not count as the newest of its key: it would push out the committed one (C1).
            if header.is_control or is_aborted or header.last_offset < plan.dirty_offset:
                continue
            work = readable_records(batch, header, guard.log.config.readable_bytes_max)
            for number, record in enumerate((yield from guard.paused(work)) or (), 1):
                if record.has_key:
                    newest[record.key] = record.offset
                if number % _STEPS_BETWEEN_PAUSES == 0:
                    yield from guard.pause()
            yield from guard.pause_after(header)
        yield from guard.pause()
    return newest, covered


def _groups(segments: Sequence[Segment], bytes_max: int) -> list[list[Segment]]:
    """Neighbours that fit one segment together."""
    groups: list[list[Segment]] = []
    size_bytes = 0
    for segment in segments:
        if groups and size_bytes + segment.size_bytes <= bytes_max:
            groups[-1].append(segment)
            size_bytes += segment.size_bytes
        else:
            groups.append([segment])
            size_bytes = segment.size_bytes
    return groups


def _filter_group(
    log: PartitionLog, group: list[Segment], rules: BatchFilter, guard: _Guard
) -> Generator[None, None, int]:
    path = cleaned_path(log.folder, group[0].base_offset)
    remove_if_there(log.disk, path)
    file = log.disk.open(path, create=True)
    try:
        pending = bytearray()
        for segment in group:
            for _, header, batch in segment.batches():
                pending += (yield from guard.paused(rules.apply(batch, header))) or b""
                if len(pending) >= _WRITE_BYTES:
                    file.append(pending)
                    pending = bytearray()
                yield from guard.pause_after(header)
        _finish(log, file, pending)
        return file.size_bytes
    finally:
        file.close()


def _finish(log: PartitionLog, file: File, pending: bytearray) -> None:
    if pending:
        file.append(pending)
    log.disk.sync_now(file)


def _swap(
    log: PartitionLog, group: list[Segment], markers_kept: set[int], reached: Callable[[CompactionStep], None]
) -> None:
    base_offset = group[0].base_offset
    reached(CompactionStep.SYNCED)
    # The point of no return: recovery drops a `.cleaned` file and goes on with a `.swap` file.
    log.disk.rename(cleaned_path(log.folder, base_offset), swap_path(log.folder, base_offset))
    reached(CompactionStep.CHOSEN)
    for segment in group:
        remove_segment_files(log.disk, log.folder, segment.base_offset)
        reached(CompactionStep.ORIGINAL_REMOVED)
    put_in_place(log.disk, log.folder, base_offset)
    reached(CompactionStep.IN_PLACE)
    _replace(log, group, markers_kept)
    reached(CompactionStep.REPLACED)


def _replace(log: PartitionLog, group: list[Segment], markers_kept: set[int]) -> None:
    first, last = group[0], group[-1]
    interval_bytes = first.index.interval_bytes
    # The original's time stays, since retention goes by it where records carry none.
    fresh = Segment(log.disk, log.folder, first.base_offset, interval_bytes=interval_bytes, now_ms=last.touched_ms)
    fresh.rebuild()
    # A marker goes only when its transaction has no batch left, and then no reader needs the entry.
    fresh.aborted = [one for old in group for one in old.aborted or () if one.last_offset in markers_kept]
    fresh.seal()
    # Looked up again: retention may have taken segments off the front since the plan was made.
    at = next(index for index, segment in enumerate(log.segments) if segment is first)
    log.segments[at : at + len(group)] = [fresh]
    # Readers that are under way hold the old files open until they are done.
    for segment in group:
        segment.close()

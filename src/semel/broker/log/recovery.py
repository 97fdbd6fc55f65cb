"""Opening a log folder: what is there, how much of it is sound, and what that says.

Keeps: L3 after a crash the log is a prefix of what was appended, and holds everything that was synced.
Why:   what lies below the recovery point was synced and is believed; the rest is checked batch by batch. The last
       segment is always checked unless the stop was clean, since a process can die inside a write. A segment ends
       where the next begins, also after compaction, so a lost end shows even when nothing is left to be damaged.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from semel.broker.log.compaction_swap import finish_swaps
from semel.broker.log.config import LogConfig
from semel.broker.log.files import (
    INDEX_SUFFIXES,
    LOG,
    LogState,
    get_file,
    offsets_with,
    path_of,
    read_state,
    remove_if_there,
)
from semel.broker.log.leader_epochs import LeaderEpochs
from semel.broker.log.producer_state import ProducerStates
from semel.broker.log.replay import drop_snapshots, replay
from semel.broker.log.segment import Segment
from semel.errors import ProtocolError
from semel.world.disk import Disk

EPOCH_FILE = "leader-epoch-checkpoint"


@dataclass(slots=True, kw_only=True)
class Recovered:
    """A log as found."""

    segments: list[Segment]
    producers: ProducerStates
    epochs: LeaderEpochs
    state: LogState
    saved_state: LogState
    truncated_bytes: int


def recover(disk: Disk, folder: Path, config: LogConfig, *, now_ms: int, clean: bool) -> Recovered:
    """Open every segment, cut off what is torn, and rebuild the rest of the state."""
    disk.make_dirs(folder)
    # Before any segment is opened: a swap that was cut short leaves two segments for the same offsets.
    finish_swaps(disk, folder)
    state = read_state(disk, folder)
    # What the file says now. `checkpoint` writes only what differs from it, so idle logs are not written at every stop.
    saved_state = replace(state)
    segments = _open_segments(disk, folder, config, state, now_ms)
    truncated_bytes = _cut_unsound(segments, state, clean=clean)
    segments = _agree_on_start(segments, state, config, now_ms)
    _drop_strays(disk, folder, segments)
    epochs = LeaderEpochs.decode(get_file(disk, folder / EPOCH_FILE))
    producers, epochs = replay(disk, folder, segments, epochs, now_ms=now_ms)
    log_end_offset = segments[-1].offset_next
    state.recovery_point = min(state.recovery_point, log_end_offset)
    # The high watermark is written now and then, so it may lie above a log that has lost its end.
    state.high_watermark = min(max(state.high_watermark, state.log_start_offset), log_end_offset)
    return Recovered(
        segments=segments,
        producers=producers,
        epochs=epochs,
        state=state,
        saved_state=saved_state,
        truncated_bytes=truncated_bytes,
    )


def _open_segments(disk: Disk, folder: Path, config: LogConfig, state: LogState, now_ms: int) -> list[Segment]:
    bases = offsets_with(disk.list_dir(folder), LOG) or [state.log_start_offset]
    return [Segment(disk, folder, base, interval_bytes=config.index_interval_bytes, now_ms=now_ms) for base in bases]


def _cut_unsound(segments: list[Segment], state: LogState, *, clean: bool) -> int:
    """Load or verify each segment; at the first damage, cut it there and drop all that follows."""
    offset_min = segments[0].base_offset
    for index, segment in enumerate(segments):
        if segment.base_offset != offset_min:  # the one before has lost its end
            return _cut(segments, index - 1, segments[index - 1].size_bytes)
        is_last = index == len(segments) - 1
        may_trust = clean or not is_last
        if not (may_trust and _load(segment, state.recovery_point)):
            sound_bytes = segment.verify()
            if sound_bytes < segment.size_bytes:
                return _cut(segments, index, sound_bytes)
        offset_min = segment.offset_next
    return 0


def _load(segment: Segment, recovery_point: int) -> bool:
    """Take a segment without checking it, when all of it was synced."""
    # Such a segment was begun after the last sync, so none of it is known to be on the disk.
    if segment.base_offset > recovery_point:
        return False
    try:
        segment.load()
    except ProtocolError:
        return False
    return segment.offset_next <= recovery_point


def _cut(segments: list[Segment], index: int, sound_bytes: int) -> int:
    lost_bytes = segments[index].size_bytes - sound_bytes
    # Newest first: if the broker dies here, what is left is still a prefix (L3).
    for segment in reversed(segments[index + 1 :]):
        lost_bytes += segment.size_bytes
        segment.delete()
    del segments[index + 1 :]
    if lost_bytes:
        segments[index].truncate(sound_bytes)
    return lost_bytes


def _agree_on_start(segments: list[Segment], state: LogState, config: LogConfig, now_ms: int) -> list[Segment]:
    # Retention deletes files before the new log start is written down.
    state.log_start_offset = max(state.log_start_offset, segments[0].base_offset)
    if segments[-1].offset_next >= state.log_start_offset:
        return segments
    disk, folder = segments[0].disk, segments[0].folder
    for segment in reversed(segments):  # the tail was lost beyond what DeleteRecords had removed
        segment.delete()
    interval_bytes = config.index_interval_bytes
    return [Segment.create(disk, folder, state.log_start_offset, interval_bytes=interval_bytes, now_ms=now_ms)]


def _drop_strays(disk: Disk, folder: Path, segments: list[Segment]) -> None:
    drop_snapshots(disk, folder, above=segments[-1].offset_next)
    bases = {segment.base_offset for segment in segments}
    names = disk.list_dir(folder)
    for suffix in INDEX_SUFFIXES:
        for offset in offsets_with(names, suffix):
            if offset not in bases:
                remove_if_there(disk, path_of(folder, offset, suffix))

"""Rebuilds producer state from a snapshot and the batches after it, and with it aborted transactions and leader epochs.

Keeps: L6 the state after a restart is the state before it, with and without a snapshot.
Why:   a snapshot may be used only when the aborted transactions of everything before it are known, since those are
       found by the same walk.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from semel.broker.log.files import SNAPSHOT, get_file, offsets_with, path_of, put_file, remove_if_there
from semel.broker.log.leader_epochs import LeaderEpochs
from semel.broker.log.producer_state import ProducerEntry, ProducerStates, decode_snapshot, encode_snapshot
from semel.broker.log.segment import Segment
from semel.protocol.record_batch import BatchHeader
from semel.world.disk import Disk


def write_snapshot(disk: Disk, folder: Path, producers: ProducerStates, offset: int) -> None:
    """Keep the state as it is before `offset`."""
    put_file(disk, path_of(folder, offset, SNAPSHOT), encode_snapshot(producers.entries.values()))


def drop_snapshots(disk: Disk, folder: Path, *, above: int | None = None, below: int | None = None) -> None:
    """Remove snapshots that no log here leads to any more, or that nothing starts from."""
    for offset in offsets_with(disk.list_dir(folder), SNAPSHOT):
        if (above is not None and offset > above) or (below is not None and offset < below):
            remove_if_there(disk, path_of(folder, offset, SNAPSHOT))


def replay(
    disk: Disk,
    folder: Path,
    segments: Sequence[Segment],
    epochs: LeaderEpochs | None,
    *,
    now_ms: int,
) -> tuple[ProducerStates, LeaderEpochs]:
    """The producers and leader epochs as of the end of the log; fills in the segments' aborted transactions."""
    # Without the file of leader epochs every batch must be walked, since only the batches know them.
    offset_max = _known_until(segments) if epochs is not None else segments[0].base_offset
    start, entries = _newest_snapshot(disk, folder, offset_max)
    producers = ProducerStates()
    for entry in entries:
        producers.load(entry)
    known = epochs or LeaderEpochs()
    # The file may name epochs of a tail that was lost since. What lies behind the
    # snapshot is learnt again from batches.
    known.truncate_to(max(start, segments[0].base_offset))
    for segment in segments:
        # Later ones are found again by the walk.
        _keep_aborted_below(segment, start)
        for position, header in _headers_from(segment, start):
            _replay_batch(segment, position, header, producers)
            known.assign(header.leader_epoch, header.base_offset)
    # Nobody knows how long a producer was silent while the broker was away: each gets its whole time again.
    for entry in producers.entries.values():
        entry.heard_ms = now_ms
    return producers, known


def _known_until(segments: Sequence[Segment]) -> int:
    for segment in segments:
        if segment.aborted is None:
            return segment.base_offset
    return segments[-1].offset_next


def _newest_snapshot(disk: Disk, folder: Path, offset_max: int) -> tuple[int, list[ProducerEntry]]:
    for offset in reversed(offsets_with(disk.list_dir(folder), SNAPSHOT)):
        path = path_of(folder, offset, SNAPSHOT)
        if offset <= offset_max:
            entries = decode_snapshot(get_file(disk, path) or b"")
            if entries is not None:
                return offset, entries
            remove_if_there(disk, path)
    return 0, []


def _keep_aborted_below(segment: Segment, offset: int) -> None:
    segment.aborted = [one for one in segment.aborted or () if one.last_offset < offset]


def _headers_from(segment: Segment, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    if segment.offset_next <= offset:
        return
    for position, header in segment.headers(segment.index.position_before_offset(offset)):
        if header.base_offset >= offset:
            yield position, header


def _replay_batch(segment: Segment, position: int, header: BatchHeader, producers: ProducerStates) -> None:
    # Only a marker has to be read. A batch of records says everything in its header.
    batch = segment.batch_at(position, header.size_bytes) if header.is_control else b""
    aborted = producers.replay(batch, header)
    if aborted is not None and segment.aborted is not None:
        segment.aborted.append(aborted)

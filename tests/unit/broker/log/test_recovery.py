"""Opening a log after a clean stop, a killed process, a crashed machine and damaged files (L3, L6)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from semel.broker.log.config import LogConfig
from semel.broker.log.files import INDEX_SUFFIXES, LOG, SNAPSHOT, STATE_FILE, decode_frame, encode_frame, path_of
from semel.broker.log.partition_log import PartitionLog
from semel.broker.log.recovery import EPOCH_FILE
from semel.protocol.record_batch import Marker
from semel.world.disk import Disk
from semel.world.real_disk import RealDisk
from semel.world.rng import SeededRng
from semel.world.virtual_disk import VirtualDisk
from tests.unit.broker.log.model import (
    FOLDER,
    NOW_MS,
    Facts,
    append,
    batch,
    end_transaction,
    facts_of,
    open_log,
    values_of,
)

CONFIG = LogConfig(segment_bytes_max=700, index_interval_bytes=150)


@pytest.fixture(params=["real", "virtual"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return RealDisk() if request.param == "real" else VirtualDisk(SeededRng(1))


def filled(disk: Disk, root: Path, rounds: int = 8) -> PartitionLog:
    """Several segments with two producers, transactions of both outcomes, one left open, several leader epochs."""
    log = open_log(disk, root, CONFIG)
    for number in range(rounds):
        append(log, batch([b"p%d" % number * 20], producer_id=1, sequence=number), leader_epoch=number // 3)
        data = batch([b"t%d" % number * 20] * 2, producer_id=2, sequence=2 * number, transactional=True)
        append(log, data, leader_epoch=number // 3)
        if number != rounds - 1:
            end_transaction(log, 2, Marker.ABORT if number % 2 else Marker.COMMIT)
    assert len(log.segments) > 3
    return log


def reopened(disk: Disk, root: Path, *, clean: bool) -> tuple[Facts, int]:
    log = open_log(disk, root, CONFIG, clean=clean)
    log.advance_high_watermark(log.log_end_offset)
    found = facts_of(log)
    log.abandon()
    return found, log.truncated_bytes


@pytest.mark.parametrize("clean", [True, False])
def test_a_closed_log_opens_as_it_was(disk: Disk, tmp_path: Path, *, clean: bool) -> None:
    log = filled(disk, tmp_path)
    before = facts_of(log)
    high_watermark = log.high_watermark
    log.close()
    again = open_log(disk, tmp_path, CONFIG, clean=clean)
    assert again.high_watermark == high_watermark == again.recovery_point
    again.abandon()
    assert reopened(disk, tmp_path, clean=clean) == (before, 0)


def test_an_idle_log_is_closed_without_writing(disk: Disk, tmp_path: Path) -> None:
    open_log(disk, tmp_path / "empty", CONFIG).close()
    assert disk.list_dir(tmp_path / "empty" / FOLDER) == [f"{0:020d}.log"]
    log = filled(disk, tmp_path)
    before = facts_of(log)
    log.close()
    for name in disk.list_dir(tmp_path / FOLDER):
        if name.endswith(SNAPSHOT):
            disk.remove(tmp_path / FOLDER / name)
    open_log(disk, tmp_path, CONFIG, clean=True).close()
    assert _offsets(disk, tmp_path, SNAPSHOT) == []
    assert reopened(disk, tmp_path, clean=True) == (before, 0)


def test_a_killed_log_opens_as_it_was(disk: Disk, tmp_path: Path) -> None:
    log = filled(disk, tmp_path)
    before = facts_of(log)
    log.abandon()
    assert reopened(disk, tmp_path, clean=False) == (before, 0)
    assert reopened(disk, tmp_path, clean=True) == (before, 0)


def test_a_log_goes_on_after_each_kind_of_stop(disk: Disk, tmp_path: Path) -> None:
    log = filled(disk, tmp_path)
    for number, stop in enumerate([PartitionLog.close, PartitionLog.abandon, PartitionLog.close] * 2):
        expected = [*values_of(log), (log.log_end_offset, b"more")]
        append(log, batch([b"more"], producer_id=3, sequence=number))
        before = facts_of(log)
        assert before.values == expected
        stop(log)
        log = open_log(disk, tmp_path, CONFIG, clean=stop is PartitionLog.close)
        log.advance_high_watermark(log.log_end_offset)
        assert facts_of(log) == before
        assert append(log, batch([b"more"], producer_id=3, sequence=number)).duplicate
    log.abandon()


def test_a_torn_tail_is_cut_at_every_byte_of_the_last_batch(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path)
    append(log, batch([b"first"], producer_id=1, sequence=0))
    sound_bytes = log.size_bytes
    before = facts_of(log)
    append(log, batch([b"second", b"third"], producer_id=1, sequence=1, transactional=True))
    whole_bytes = log.size_bytes
    whole = log.read(1, bytes_max=1 << 20).read()
    log.abandon()
    stride = 7 if isinstance(disk, RealDisk) else 1  # each cut is a sync
    for size_bytes in range(sound_bytes, whole_bytes, stride):
        for filler in (b"", b"\x00" * (whole_bytes - size_bytes), b"\xff" * 100):
            tail = whole[: size_bytes - sound_bytes] + filler
            if tail != whole:  # a batch may end in zeros of its own
                _write_tail(disk, tmp_path, sound_bytes, tail)
                assert reopened(disk, tmp_path, clean=False) == (before, len(tail))


def test_every_flipped_byte_of_the_last_batch_is_noticed(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path)
    append(log, batch([b"first"]), leader_epoch=5)
    sound_bytes = log.size_bytes
    before = facts_of(log)
    append(log, batch([b"second"]), leader_epoch=5)
    whole = log.read(1, bytes_max=1 << 20).read()
    log.abandon()
    for position in range(len(whole)):
        if 0 <= position < 8 or 12 <= position < 16:  # base offset and leader epoch are outside the checksum
            continue
        flipped = bytearray(whole)
        flipped[position] ^= 0x20
        _write_tail(disk, tmp_path, sound_bytes, bytes(flipped))
        assert reopened(disk, tmp_path, clean=False) == (before, len(whole))


def _write_tail(disk: Disk, root: Path, position: int, tail: bytes) -> None:
    file = disk.open(path_of(root / FOLDER, 0, LOG))
    file.truncate(position)
    if tail:
        file.append(tail)
    file.close()


def test_offsets_that_do_not_rise_are_cut(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path)
    append(log, batch([b"a"]))
    append(log, batch([b"b"]))
    whole = log.read(0, bytes_max=1 << 20).read()
    before = facts_of(log)
    log.abandon()
    _write_tail(disk, tmp_path, len(whole), whole[len(whole) // 2 :])
    assert reopened(disk, tmp_path, clean=False) == (before, len(whole) // 2)


def test_damage_in_the_middle_drops_what_follows(disk: Disk, tmp_path: Path) -> None:
    log = filled(disk, tmp_path)
    values = values_of(log)
    victim = log.segments[1]
    size_bytes, lost = victim.size_bytes, sum(segment.size_bytes for segment in log.segments[2:])
    log.abandon()
    file = disk.open(path_of(tmp_path / FOLDER, victim.base_offset, LOG))
    file.write_at(size_bytes - 1, b"\xaa")
    file.close()
    found, truncated_bytes = reopened(disk, tmp_path, clean=False)
    assert found.values == values[: len(found.values)]
    assert victim.base_offset < found.log_end_offset < victim.offset_next
    assert truncated_bytes > lost
    assert max(_offsets(disk, tmp_path, SNAPSHOT)) <= found.log_end_offset


def _offsets(disk: Disk, root: Path, suffix: str) -> list[int]:
    return [int(name.split(".")[0]) for name in disk.list_dir(root / FOLDER) if name.endswith(suffix)]


Damage = Callable[[Disk, Path], None]


def _remove(disk: Disk, path: Path) -> None:
    disk.remove(path)


def _shorten(disk: Disk, path: Path) -> None:
    file = disk.open(path)
    file.truncate(file.size_bytes // 2)
    file.close()


def _flip(disk: Disk, path: Path) -> None:
    file = disk.open(path)
    position = file.size_bytes // 2
    file.write_at(position, bytes([file.read_at(position, 1)[0] ^ 0xFF]))
    file.close()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", [_remove, _shorten, _flip])
@pytest.mark.parametrize("suffix", [*INDEX_SUFFIXES, SNAPSHOT, EPOCH_FILE, STATE_FILE])
def test_files_beside_the_log_can_be_lost(
    disk: Disk, tmp_path: Path, suffix: str, damage: Damage, *, clean: bool
) -> None:
    log = filled(disk, tmp_path)
    before = facts_of(log)
    log.close()
    folder = tmp_path / FOLDER
    names = [name for name in disk.list_dir(folder) if name.endswith(suffix)]
    assert names
    for name in names:
        damage(disk, folder / name)
    assert reopened(disk, tmp_path, clean=clean) == (before, 0)


def test_one_lost_index_in_the_middle_is_made_again(disk: Disk, tmp_path: Path) -> None:
    log = filled(disk, tmp_path)
    before = facts_of(log)
    bases = [segment.base_offset for segment in log.segments]
    log.close()
    for base in bases:
        for suffix in INDEX_SUFFIXES:
            path = path_of(tmp_path / FOLDER, base, suffix)
            if disk.exists(path):
                disk.remove(path)
            assert reopened(disk, tmp_path, clean=True) == (before, 0)


def test_a_snapshot_spares_the_replay_and_the_newest_is_used(disk: Disk, tmp_path: Path) -> None:
    log = filled(disk, tmp_path)
    log.producers.entries[1].coordinator_epoch = 77  # only the snapshot can say so
    log.close()
    again = open_log(disk, tmp_path, CONFIG, clean=True)
    assert again.producers.entries[1].coordinator_epoch == 77
    again.abandon()


def test_after_a_restart_producers_get_their_whole_time_again(disk: Disk, tmp_path: Path) -> None:
    filled(disk, tmp_path).close()
    later = NOW_MS + CONFIG.producer_id_expiration_ms + 1000
    log = PartitionLog.open(disk, tmp_path / FOLDER, CONFIG, now_ms=later, clean=True)
    known = set(log.producers.entries)
    assert len(known) > 1
    log.delete_expired(later + CONFIG.producer_id_expiration_ms - 1)
    assert set(log.producers.entries) == known
    log.delete_expired(later + CONFIG.producer_id_expiration_ms)
    assert set(log.producers.entries) == {2}  # its transaction is open
    log.abandon()


@pytest.mark.parametrize("age_ms", [0, 10 * CONFIG.producer_id_expiration_ms])
def test_a_retry_of_old_records_is_still_a_retry(disk: Disk, tmp_path: Path, age_ms: int) -> None:
    log = open_log(disk, tmp_path, replace(CONFIG, retention_ms=-1), clean=False)
    old = batch([b"old"], producer_id=7, sequence=0, times_ms=[NOW_MS - age_ms])
    first = append(log, old)
    log.delete_expired(NOW_MS + 1)
    again = append(log, old)
    assert (again.duplicate, again.base_offset) == (True, first.base_offset)
    assert log.log_end_offset == 1
    log.abandon()


def test_stale_index_files_do_not_survive_a_truncation(disk: Disk, tmp_path: Path) -> None:
    log = filled(disk, tmp_path)
    log.close()
    log = open_log(disk, tmp_path, CONFIG, clean=True)
    end = log.log_end_offset
    log.truncate_to(4, now_ms=NOW_MS)
    while log.log_end_offset < end:
        append(log, batch([b"other"]), leader_epoch=9)
    before = facts_of(log)
    log.abandon()
    assert reopened(disk, tmp_path, clean=False) == (before, 0)
    assert reopened(disk, tmp_path, clean=True) == (before, 0)


def test_deleted_records_do_not_come_back(disk: Disk, tmp_path: Path) -> None:
    log = filled(disk, tmp_path)
    log.delete_records_before(10)
    values = values_of(log)
    log.abandon()
    again = open_log(disk, tmp_path, CONFIG)
    assert (again.log_start_offset, values_of(again)) == (10, values)
    again.abandon()


def test_a_log_that_lost_more_than_was_deleted_starts_empty_at_its_start(tmp_path: Path) -> None:
    disk = VirtualDisk(SeededRng(3))
    log = filled(disk, tmp_path)
    log.delete_records_before(log.log_end_offset)
    end = log.log_end_offset
    disk.crash(torn=False)
    again = open_log(disk, tmp_path, CONFIG)
    assert (again.log_start_offset, again.log_end_offset, values_of(again)) == (end, end, [])
    assert append(again, batch()).base_offset == end


def test_a_crash_keeps_what_was_synced_and_a_prefix_of_the_rest(tmp_path: Path) -> None:
    for seed in range(40):
        disk = VirtualDisk(SeededRng(seed))
        log = filled(disk, tmp_path)
        work = log.unflushed()
        assert work is not None
        for file in work.files:
            disk.sync_now(file)
        log.mark_flushed(work)
        synced = log.log_end_offset
        log.checkpoint()
        for number in range(seed % 7):
            append(log, batch([b"later%d" % number * 20], producer_id=1, sequence=8 + number))
        values = values_of(log)
        disk.crash(torn=True)
        again = open_log(disk, tmp_path, replace(CONFIG))
        found = values_of(again)
        assert found == values[: len(found)]
        assert again.log_end_offset >= synced


def _damage(disk: Disk, root: Path, base_offset: int, position: int) -> None:
    file = disk.open(path_of(root / FOLDER, base_offset, LOG))
    file.write_at(position, bytes([file.read_at(position, 1)[0] ^ 0xFF]))
    file.close()


def _sync(disk: Disk, log: PartitionLog) -> None:
    work = log.unflushed()
    assert work is not None
    for file in work.files:
        disk.sync_now(file)
    log.mark_flushed(work)
    log.checkpoint()


def test_the_last_segment_is_checked_unless_the_stop_was_clean(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path)
    append(log, batch([b"a"]))
    append(log, batch([b"b"]))
    _sync(disk, log)
    size_bytes = log.size_bytes
    log.abandon()
    _damage(disk, tmp_path, 0, size_bytes - 2)
    found, truncated_bytes = reopened(disk, tmp_path, clean=False)
    assert (found.values, truncated_bytes) == ([(0, b"a")], size_bytes // 2)


def test_a_sealed_segment_is_checked_beyond_what_was_synced(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, CONFIG)
    append(log, batch([b"a"]))
    _sync(disk, log)
    append(log, batch([b"b"]))
    size_bytes = log.size_bytes
    log.roll(NOW_MS)
    append(log, batch([b"c"]))
    log.abandon()
    _damage(disk, tmp_path, 0, size_bytes - 2)
    found, truncated_bytes = reopened(disk, tmp_path, clean=False)
    assert (found.values, truncated_bytes) == ([(0, b"a")], size_bytes)


def test_snapshots_of_a_part_that_was_cut_off_are_not_used(disk: Disk, tmp_path: Path) -> None:
    log = filled(disk, tmp_path)
    oldest = log.segments[1].base_offset
    assert oldest in _offsets(disk, tmp_path, SNAPSHOT)
    log.truncate_to(1, now_ms=NOW_MS)
    log.config = LogConfig()
    while log.log_end_offset < oldest + 3:
        append(log, batch([b"other"]))
    log.roll(NOW_MS)
    before = facts_of(log)
    _sync(disk, log)  # so that the index is believed, and with it any snapshot
    disk.remove(path_of(tmp_path / FOLDER, log.log_end_offset, SNAPSHOT))
    log.abandon()
    assert reopened(disk, tmp_path, clean=False) == (before, 0)


def test_leader_epochs_beyond_the_log_are_dropped(disk: Disk, tmp_path: Path) -> None:
    log = filled(disk, tmp_path)
    before = facts_of(log)
    log.abandon()
    lines = [*before.epochs, (90, before.log_end_offset + 5)]
    text = "\n".join(["0", str(len(lines)), *(f"{epoch} {offset}" for epoch, offset in lines)]) + "\n"
    disk.write_atomically(tmp_path / FOLDER / EPOCH_FILE, text.encode())
    assert reopened(disk, tmp_path, clean=False) == (before, 0)


def test_an_index_of_another_log_is_not_used() -> None:
    frame = encode_frame(b"SIX1", 100, b"payload")
    assert decode_frame(b"SIX1", 100, frame) == b"payload"
    for magic, log_bytes, data in ((b"SIX1", 101, frame), (b"STX1", 100, frame), (b"SIX1", 100, frame[:-1])):
        assert decode_frame(magic, log_bytes, data) is None

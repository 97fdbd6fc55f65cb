"""Retention by time and size, DeleteRecords: whole segments, oldest first, below the high watermark."""

from pathlib import Path

import pytest

from semel.broker.log.config import LogConfig
from semel.broker.log.partition_log import PartitionLog
from semel.broker.log.types import ReadRefused
from semel.protocol.error_codes import ErrorCode
from semel.world.disk import Disk
from semel.world.real_disk import RealDisk
from semel.world.rng import SeededRng
from semel.world.virtual_disk import VirtualDisk
from tests.unit.broker.log.model import FOLDER, NOW_MS, append, batch, open_log, values_of

BATCH_BYTES = len(batch([b"x" * 100]))


@pytest.fixture(params=["real", "virtual"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return RealDisk() if request.param == "real" else VirtualDisk(SeededRng(1))


def log_of(disk: Disk, root: Path, **changes: object) -> PartitionLog:
    """Ten batches, two to a segment, one second apart."""
    config = LogConfig(segment_bytes_max=2 * BATCH_BYTES, **changes)  # type: ignore[arg-type]
    log = open_log(disk, root, config)
    for number in range(10):
        append(log, batch([b"x" * 100], times_ms=[NOW_MS + 1000 * number]))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6, 8]
    return log


def test_segments_older_than_the_limit_go(disk: Disk, tmp_path: Path) -> None:
    log = log_of(disk, tmp_path, retention_ms=5000)
    assert log.delete_expired(NOW_MS + 6000) == 0
    assert log.delete_expired(NOW_MS + 6001) == 1
    assert log.delete_expired(NOW_MS + 6001) == 0
    assert (log.log_start_offset, values_of(log)[0][0]) == (2, 2)
    assert not any(name.startswith(f"{0:020d}") for name in disk.list_dir(tmp_path / FOLDER))
    with pytest.raises(ReadRefused):
        log.read(1, bytes_max=1)


def test_the_active_segment_is_rolled_before_it_goes(disk: Disk, tmp_path: Path) -> None:
    log = log_of(disk, tmp_path, retention_ms=5000)
    assert log.delete_expired(NOW_MS + 100_000) == 5
    assert (log.log_start_offset, log.log_end_offset, values_of(log)) == (10, 10, [])
    assert log.delete_expired(NOW_MS + 200_000) == 0
    assert append(log, batch(times_ms=[NOW_MS + 200_000]), now_ms=NOW_MS + 200_000).base_offset == 10
    log.abandon()
    again = open_log(disk, tmp_path)
    assert (again.log_start_offset, again.log_end_offset) == (10, 11)


def test_size_above_the_limit_goes(disk: Disk, tmp_path: Path) -> None:
    log = log_of(disk, tmp_path, retention_bytes=6 * BATCH_BYTES, retention_ms=-1)
    assert log.delete_expired(NOW_MS + 10**12) == 2
    assert log.log_start_offset == 4
    unlimited = log_of(disk, tmp_path / "unlimited", retention_ms=-1)
    assert unlimited.delete_expired(NOW_MS + 10**12) == 0


def test_nothing_above_the_high_watermark_goes(disk: Disk, tmp_path: Path) -> None:
    log = log_of(disk, tmp_path, retention_ms=0)
    log.state.high_watermark = 5
    assert log.delete_expired(NOW_MS + 100_000) == 2
    assert log.log_start_offset == 4


def test_a_compacted_log_is_not_deleted_by_age(disk: Disk, tmp_path: Path) -> None:
    log = log_of(disk, tmp_path, retention_ms=0)
    log.config = LogConfig(is_compacted=True, is_deleted=False, retention_ms=0)
    assert log.delete_expired(NOW_MS + 100_000) == 0


def test_records_without_time_count_from_their_append(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, LogConfig(retention_ms=1000))
    append(log, batch(times_ms=[-1]))
    assert log.delete_expired(NOW_MS + 1000) == 0
    assert log.delete_expired(NOW_MS + 1001) == 1


def test_delete_records_moves_the_start_within_a_segment(disk: Disk, tmp_path: Path) -> None:
    log = log_of(disk, tmp_path)
    assert log.delete_records_before(5) == 5
    assert [segment.base_offset for segment in log.segments] == [4, 6, 8]
    assert values_of(log)[0][0] == 5
    assert log.delete_records_before(3) == 5
    assert log.delete_records_before(-1) == 10
    for offset in (11, -2):
        with pytest.raises(ReadRefused) as caught:
            log.delete_records_before(offset)
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_records_stay_readable_when_their_deletion_cannot_be_written_down(tmp_path: Path) -> None:
    disk = VirtualDisk(SeededRng(1), capacity_bytes=1 << 20)
    log = log_of(disk, tmp_path)
    disk.capacity_bytes = 0
    with pytest.raises(OSError, match="No space left"):
        log.delete_records_before(5)
    assert (log.log_start_offset, len(values_of(log))) == (0, 10)
    disk.capacity_bytes = 1 << 20
    assert log.delete_records_before(5) == 5


def test_leader_epochs_follow_the_start(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path)
    for epoch in (1, 2, 3):
        append(log, batch([b"a", b"b"]), leader_epoch=epoch)
    log.delete_records_before(3)
    assert log.epochs.entries == [(2, 3), (3, 4)]


def test_expired_producers_are_forgotten(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, LogConfig(producer_id_expiration_ms=1000))
    append(log, batch(producer_id=4, sequence=0))
    log.delete_expired(NOW_MS + 999)
    assert 4 in log.producers.entries
    log.delete_expired(NOW_MS + 1000)
    assert 4 not in log.producers.entries

"""Appending to and reading from one partition log, on both disks."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.broker.log.config import LogConfig
from semel.broker.log.partition_log import PartitionLog
from semel.broker.log.types import AppendRefused, Origin, ReadRefused
from semel.broker.runtime.yielding import run_through
from semel.errors import ConfigError, EnvironmentFailure
from semel.protocol.compression import Codec
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import (
    DraftRecord,
    Marker,
    TimestampType,
    check_batch,
    decode_records,
    encode_batch,
    encode_marker,
    iter_headers,
    read_header,
)
from semel.world.disk import Disk
from semel.world.real_disk import RealDisk
from semel.world.rng import SeededRng
from semel.world.virtual_disk import VirtualDisk
from tests.unit.broker.log.model import NOW_MS, append, batch, end_transaction, nonsense, open_log, read_all, values_of


@pytest.fixture(params=["real", "virtual"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return RealDisk() if request.param == "real" else VirtualDisk(SeededRng(1))


@pytest.fixture
def log(disk: Disk, tmp_path: Path) -> Iterator[PartitionLog]:
    opened = open_log(disk, tmp_path, LogConfig(segment_bytes_max=1000, index_interval_bytes=100))
    yield opened
    opened.abandon()


def refused(log: PartitionLog, record_set: memoryview, origin: Origin = Origin.CLIENT, now_ms: int = NOW_MS) -> int:
    before = (log.log_end_offset, log.size_bytes, len(log.segments))
    with pytest.raises(AppendRefused) as caught:
        log.append_as_leader(record_set, leader_epoch=0, now_ms=now_ms, origin=origin)
    assert (log.log_end_offset, log.size_bytes, len(log.segments)) == before
    return caught.value.code


def test_what_is_appended_is_read_back_with_offsets_and_epoch(log: PartitionLog) -> None:
    first = append(log, batch([b"a", b"b"]), leader_epoch=3)
    second = append(log, batch([b"c"], codec=Codec.ZSTD), leader_epoch=4)
    assert (first.base_offset, first.last_offset, first.duplicate, first.log_append_time_ms) == (0, 1, False, -1)
    assert (second.base_offset, second.last_offset, second.log_start_offset) == (2, 2, 0)
    assert values_of(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
    data = log.read(0, bytes_max=1 << 20).read()
    assert [header.leader_epoch for _, header in iter_headers(data)] == [3, 4]
    for position, header in iter_headers(data):
        check_batch(data, header, position)


def test_a_read_gives_whole_batches_over_segments(log: PartitionLog) -> None:
    size_bytes = len(batch([b"x" * 100]))
    for _ in range(40):
        append(log, batch([b"x" * 100]))
    assert len(log.segments) > 5
    for start in range(40):
        for count in (1, 2, 7, 30):
            piece = log.read(start, bytes_max=count * size_bytes + size_bytes // 2)
            assert (piece.base_offset, piece.size_bytes) == (start, min(count, 40 - start) * size_bytes)
            assert [header.base_offset for _, header in iter_headers(piece.read())] == list(
                range(start, min(start + count, 40))
            )


def test_a_read_starts_with_the_batch_that_holds_the_offset(log: PartitionLog) -> None:
    append(log, batch([b"a"]))
    append(log, batch([b"b", b"c", b"d"]))
    piece = log.read(3, bytes_max=1 << 20)
    assert piece.base_offset == 1
    assert read_header(piece.read()).base_offset == 1


def test_one_batch_is_given_even_above_the_limit_when_asked(log: PartitionLog) -> None:
    append(log, batch([b"x" * 300]))
    append(log, batch([b"x" * 300]))
    assert log.read(0, bytes_max=10, minimum_one_batch=False).size_bytes == 0
    with log.read(0, bytes_max=10) as piece:
        assert [header.base_offset for _, header in iter_headers(piece.slices[0].read())] == [0]


def test_a_read_ends_below_the_limit_offset(log: PartitionLog) -> None:
    for _ in range(20):
        append(log, batch([b"x" * 100, b"y"]))
    for limit in range(0, 41, 2):
        data = log.read(0, bytes_max=1 << 20, offset_limit=limit).read()
        assert [header.base_offset for _, header in iter_headers(data)] == list(range(0, limit, 2))
    assert log.read(40, bytes_max=1 << 20).size_bytes == 0


@pytest.mark.parametrize("offset", [-1, 2])
def test_a_read_outside_the_log_is_refused(log: PartitionLog, offset: int) -> None:
    append(log, batch())
    with pytest.raises(ReadRefused) as caught:
        log.read(offset, bytes_max=100)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_slice_outlives_its_segment_and_lets_go_of_it(log: PartitionLog) -> None:
    for _ in range(8):
        append(log, batch([b"x" * 300]))
    piece = log.read(0, bytes_max=10)
    shared = log.segments[0].shared
    log.delete_records_before(6)
    assert log.segments[0].base_offset > 0
    assert b"".join(piece.slices[0].chunks(50)) == piece.slices[0].read()
    assert shared.holders == 1
    piece.close()
    piece.close()
    assert shared.holders == 0
    with pytest.raises(EnvironmentFailure):
        piece.slices[0].read()


def test_a_slice_of_a_truncated_log_is_an_error_not_short_data(log: PartitionLog) -> None:
    append(log, batch([b"a"]))
    append(log, batch([b"b"]))
    with log.read(0, bytes_max=1 << 20) as piece:
        log.truncate_to(1, now_ms=NOW_MS)
        with pytest.raises(EnvironmentFailure):
            piece.slices[0].read()


# --- what is refused


def test_a_damaged_batch_is_refused(log: PartitionLog) -> None:
    sound = batch([b"abc"])
    for position in range(17, len(sound)):
        damaged = bytearray(sound)
        damaged[position] ^= 0x04
        assert refused(log, memoryview(damaged)) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
    for size_bytes in range(1, len(sound)):
        assert refused(log, sound[:size_bytes]) == ErrorCode.INVALID_RECORD


def test_a_client_sends_exactly_one_batch(log: PartitionLog) -> None:
    assert refused(log, memoryview(b"")) == ErrorCode.INVALID_RECORD
    assert refused(log, memoryview(bytes(batch()) * 2)) == ErrorCode.INVALID_RECORD
    twice = memoryview(bytes(batch([b"a", b"b"])) * 2)
    log.append_as_leader(twice, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    assert values_of(log) == [(0, b"a"), (1, b"b"), (2, b"a"), (3, b"b")]
    assert refused(log, memoryview(bytes(batch()) + b"x"), Origin.COORDINATOR) == ErrorCode.CORRUPT_MESSAGE


def test_old_formats_are_refused(log: PartitionLog) -> None:
    old = bytearray(batch())
    old[16] = 1
    assert refused(log, memoryview(old)) == ErrorCode.INVALID_RECORD


def test_too_large_a_batch_is_refused(log: PartitionLog) -> None:
    log.config = LogConfig(batch_bytes_max=100)
    assert refused(log, batch([b"x" * 100])) == ErrorCode.MESSAGE_TOO_LARGE
    log.config = LogConfig(segment_bytes_max=100)
    assert refused(log, batch([b"x" * 100])) == ErrorCode.RECORD_LIST_TOO_LARGE


def test_counts_and_offsets_must_agree(log: PartitionLog) -> None:
    record = DraftRecord(key=None, value=b"v", timestamp_ms=NOW_MS)
    assert refused(log, memoryview(encode_batch([record], last_offset_delta=3))) == ErrorCode.INVALID_RECORD
    assert refused(log, memoryview(encode_batch([]))) == ErrorCode.INVALID_RECORD
    assert refused(log, memoryview(encode_batch([record], base_offset=5))) == ErrorCode.INVALID_RECORD
    assert refused(log, batch(producer_id=5)) == ErrorCode.INVALID_RECORD
    assert refused(log, batch(transactional=True)) == ErrorCode.INVALID_RECORD


def test_control_batches_are_refused_from_clients(log: PartitionLog) -> None:
    marker = encode_marker(Marker.COMMIT, producer_id=1, producer_epoch=0, timestamp_ms=NOW_MS, coordinator_epoch=0)
    assert refused(log, memoryview(marker)) == ErrorCode.INVALID_RECORD
    record = DraftRecord(key=b"\0\0\0\1", value=b"\0" * 6, timestamp_ms=NOW_MS)
    forged = encode_batch([record], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True, control=True)
    assert refused(log, memoryview(forged)) == ErrorCode.INVALID_RECORD


def test_an_unknown_codec_is_refused(log: PartitionLog) -> None:
    data = bytearray(batch())
    data[22] |= 0x07
    fixed = encode_batch([DraftRecord(key=None, value=b"v", timestamp_ms=NOW_MS)])
    assert len(fixed) == len(data)
    data[17:21] = _crc(data)
    assert refused(log, memoryview(data)) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def _crc(data: bytearray) -> bytes:
    from crc32c import crc32c as checksum

    return checksum(bytes(data[21:])).to_bytes(4, "big")


def test_timestamps_out_of_range_are_refused(log: PartitionLog) -> None:
    log.config = LogConfig(timestamp_after_ms_max=1000, timestamp_before_ms_max=5000)
    append(log, batch([b"a", b"b", b"c"], times_ms=[NOW_MS - 5000, NOW_MS + 1000, -1]))
    assert refused(log, batch(times_ms=[NOW_MS + 1001])) == ErrorCode.INVALID_TIMESTAMP
    assert refused(log, batch([b"a", b"b"], times_ms=[NOW_MS - 5001, NOW_MS])) == ErrorCode.INVALID_TIMESTAMP


def test_producers_do_not_set_log_append_time(log: PartitionLog) -> None:
    record = DraftRecord(key=None, value=b"v", timestamp_ms=NOW_MS)
    data = encode_batch([record], timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert refused(log, memoryview(data)) == ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_is_stamped(log: PartitionLog) -> None:
    log.config = LogConfig(timestamp_type=TimestampType.LOG_APPEND_TIME)
    result = append(log, batch([b"a", b"b"], times_ms=[1, 2], codec=Codec.GZIP), now_ms=NOW_MS + 7)
    assert result.log_append_time_ms == NOW_MS + 7
    data = log.read(0, bytes_max=1000).read()
    check_batch(data, read_header(data))
    assert [record.timestamp_ms for record in decode_records(data, read_header(data))] == [NOW_MS + 7] * 2


@pytest.mark.parametrize("codec", list(Codec))
def test_compacted_topics_refuse_null_keys(log: PartitionLog, codec: Codec) -> None:
    log.config = LogConfig(is_compacted=True)
    append(log, batch([b"a", b"b"], keys=[b"k", b""], codec=codec))
    assert refused(log, batch([b"a", b"b"], keys=[b"k", None], codec=codec)) == ErrorCode.INVALID_RECORD


def test_a_full_disk_refuses_and_changes_nothing(tmp_path: Path) -> None:
    disk = VirtualDisk(SeededRng(1), capacity_bytes=3000)
    log = open_log(disk, tmp_path, LogConfig(segment_bytes_max=400))
    appended: list[tuple[int, bytes | None]] = []
    with pytest.raises(AppendRefused) as caught:
        _fill(log, appended)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.ENOSPC
    assert values_of(log) == appended
    disk.capacity_bytes = 100_000
    append(log, batch([b"after"], producer_id=1, sequence=len(appended)))
    assert values_of(log) == [*appended, (len(appended), b"after")]


def _fill(log: PartitionLog, appended: list[tuple[int, bytes | None]]) -> None:
    for number in range(100):
        append(log, batch([b"%d" % number * 50], producer_id=1, sequence=number))
        appended.append((number, b"%d" % number * 50))


# --- producers and transactions


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_sent_again_is_acknowledged_and_not_appended(log: PartitionLog, codec: Codec) -> None:
    append(log, batch([b"0"]))
    again = batch([b"a", b"b"], producer_id=9, sequence=0, codec=codec)
    first = append(log, again)
    append(log, batch([b"c"], producer_id=9, sequence=2))
    second = append(log, again)
    assert (first.base_offset, first.last_offset, first.duplicate) == (1, 2, False)
    assert (second.base_offset, second.last_offset, second.duplicate) == (1, 2, True)
    assert log.log_end_offset == 4
    assert refused(log, batch(producer_id=9, sequence=4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_last_stable_offset_and_aborted_transactions(log: PartitionLog) -> None:
    append(log, batch([b"plain"]))
    append(log, batch([b"t1"], producer_id=1, sequence=0, transactional=True))
    append(log, batch([b"t2"], producer_id=2, sequence=0, transactional=True))
    assert (log.last_stable_offset, log.high_watermark) == (1, 3)
    end_transaction(log, 1, Marker.ABORT)
    assert log.last_stable_offset == 2
    append(log, batch([b"t3"], producer_id=3, sequence=0, transactional=True))
    end_transaction(log, 2, Marker.COMMIT)
    assert log.last_stable_offset == 4
    end_transaction(log, 3, Marker.ABORT)
    assert log.last_stable_offset == log.log_end_offset == 7
    found = [(one.producer_id, one.first_offset, one.last_offset) for one in log.aborted_transactions(0, 7)]
    assert found == [(1, 1, 3), (3, 4, 6)]
    assert [one.producer_id for one in log.aborted_transactions(0, 2)] == [1]
    assert [one.producer_id for one in log.aborted_transactions(4, 7)] == [3]
    assert log.aborted_transactions(7, 7) == []


def test_aborted_transactions_that_overlap_are_all_found(log: PartitionLog) -> None:
    for producer_id in (1, 2):
        append(log, batch(producer_id=producer_id, sequence=0, transactional=True))
    for producer_id in (1, 2):
        end_transaction(log, producer_id, Marker.ABORT)
    assert [one.producer_id for one in log.aborted_transactions(0, 2)] == [1, 2]
    assert [one.producer_id for one in log.aborted_transactions(0, 1)] == [1]


def test_aborted_transactions_are_found_over_segments(log: PartitionLog) -> None:
    for number in range(12):
        append(log, batch([b"x" * 200], producer_id=number, sequence=0, transactional=True))
        end_transaction(log, number, Marker.ABORT if number % 2 else Marker.COMMIT)
    assert len(log.segments) > 3
    for start in range(24):
        found = [one.producer_id for one in log.aborted_transactions(start, 24)]
        assert found == [number for number in range(1, 12, 2) if 2 * number + 1 >= start]


def test_the_last_stable_offset_waits_for_replication_of_the_marker(log: PartitionLog) -> None:
    append(log, batch([b"t"], producer_id=1, sequence=0, transactional=True))
    marker = encode_marker(Marker.COMMIT, producer_id=1, producer_epoch=0, timestamp_ms=NOW_MS, coordinator_epoch=0)
    log.append_as_leader(memoryview(marker), leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    assert log.last_stable_offset == 0
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 2


def test_unverified_transactional_writes_are_refused_when_asked(log: PartitionLog) -> None:
    log.config = LogConfig(verify_transactions=True)
    first = batch(producer_id=1, sequence=0, transactional=True)
    assert refused(log, first) == ErrorCode.INVALID_TXN_STATE
    token = log.producers.begin_verification(1, 0, 0, NOW_MS)
    log.append_as_leader(first, leader_epoch=0, now_ms=NOW_MS, verification=token)
    append(log, batch(producer_id=1, sequence=1, transactional=True))


def test_the_high_watermark_stays_within_the_log(log: PartitionLog) -> None:
    append(log, batch())
    log.advance_high_watermark(100)
    assert log.high_watermark == 1


# --- lookup


def test_offset_for_timestamp_is_exact(log: PartitionLog) -> None:
    times = [[NOW_MS + 10, NOW_MS + 5], [NOW_MS + 3], [NOW_MS + 30, NOW_MS + 20, NOW_MS + 40]] * 4
    for codec, some in zip(list(Codec) * 3, times, strict=False):
        append(log, batch([b"x" * 90] * len(some), times_ms=some, codec=codec))
    flat = [record.timestamp_ms for record in read_all(log)]
    for wanted in range(NOW_MS, NOW_MS + 45):
        found = run_through(log.offset_for_timestamp(wanted))
        expected = next((offset for offset, time in enumerate(flat) if time >= wanted), None)
        assert (found.offset if found else None) == expected
        assert found is None or found.timestamp_ms == flat[found.offset]
    newest = run_through(log.max_timestamp_offset())
    assert newest is not None
    assert (newest.offset, newest.timestamp_ms) == (flat.index(NOW_MS + 40), NOW_MS + 40)


def test_time_lookups_begin_at_the_log_start(log: PartitionLog) -> None:
    assert run_through(log.max_timestamp_offset()) is None
    append(log, batch([b"a", b"b", b"c"], times_ms=[NOW_MS + 9, NOW_MS + 1, NOW_MS + 2]))
    log.delete_records_before(1)
    found, newest = run_through(log.offset_for_timestamp(0)), run_through(log.max_timestamp_offset())
    assert found is not None
    assert newest is not None
    assert (found.offset, newest.offset) == (1, 2)


def test_time_lookups_survive_a_batch_that_nobody_can_decode(log: PartitionLog) -> None:
    append(log, batch([b"a"]))
    append(log, nonsense(NOW_MS + 5))
    append(log, batch([b"b"]))
    found, newest = run_through(log.offset_for_timestamp(NOW_MS + 1)), run_through(log.max_timestamp_offset())
    assert found is not None
    assert newest is not None
    assert (found.offset, newest.offset) == (1, 1)


def test_offset_for_leader_epoch(log: PartitionLog) -> None:
    for leader_epoch in (2, 2, 5):
        append(log, batch([b"a", b"b"]), leader_epoch=leader_epoch)
    log.assign_leader_epoch(7)
    ends = {epoch: log.offset_for_leader_epoch(epoch) for epoch in (-1, 0, 2, 3, 5, 6, 7, 8)}
    found = {epoch: (end.leader_epoch, end.offset_next) for epoch, end in ends.items()}
    assert found == {-1: (-1, -1), 0: (0, 0), 2: (2, 4), 3: (2, 4), 5: (5, 6), 6: (5, 6), 7: (7, 6), 8: (-1, -1)}


# --- replication and truncation


def test_a_follower_ends_up_with_the_same_log(log: PartitionLog, disk: Disk, tmp_path: Path) -> None:
    for number in range(12):
        append(log, batch([b"x" * 90], producer_id=1, sequence=number, transactional=True), leader_epoch=number // 4)
    end_transaction(log, 1, Marker.ABORT)
    follower = open_log(disk, tmp_path / "follower", LogConfig(segment_bytes_max=400))
    while follower.log_end_offset < log.log_end_offset:
        data = log.read(follower.log_end_offset, bytes_max=700).read()
        follower.append_as_follower(memoryview(data + data[:20]), now_ms=NOW_MS)
    assert values_of(follower) == values_of(log)
    assert follower.producers.entries == log.producers.entries
    assert follower.epochs.entries == log.epochs.entries
    assert follower.aborted_transactions(0, 99) == log.aborted_transactions(0, 99)
    with pytest.raises(AppendRefused):
        follower.append_as_follower(memoryview(log.read(3, bytes_max=1).read()), now_ms=NOW_MS)
    damaged = bytearray(batch())
    damaged[-1] ^= 1
    with pytest.raises(AppendRefused):
        follower.append_as_follower(memoryview(damaged), now_ms=NOW_MS)
    follower.abandon()


def test_truncation_takes_everything_after_the_offset_back(disk: Disk, tmp_path: Path) -> None:
    config = LogConfig(segment_bytes_max=500, index_interval_bytes=100)
    for offset in range(17):
        long = _transactional_log(disk, tmp_path / f"long{offset}", config, 16)
        short = _transactional_log(disk, tmp_path / f"short{offset}", config, offset)
        long.truncate_to(offset, now_ms=NOW_MS)
        assert values_of(long) == values_of(short)
        assert long.log_end_offset == short.log_end_offset == offset
        assert long.producers.entries == short.producers.entries
        assert long.producers.first_undecided_offset == short.producers.first_undecided_offset
        assert long.aborted_transactions(0, 99) == short.aborted_transactions(0, 99)
        assert long.epochs.entries == short.epochs.entries
        assert long.high_watermark == offset
        append(long, batch([b"after"]))
        assert values_of(long)[-1] == (offset, b"after")
        long.abandon()
        short.abandon()


def _transactional_log(disk: Disk, root: Path, config: LogConfig, offset_end: int) -> PartitionLog:
    log = open_log(disk, root, config)
    for offset in range(offset_end):
        if offset % 4 == 3:
            end_transaction(log, 1, Marker.ABORT if offset % 8 == 3 else Marker.COMMIT)
        else:
            sequence = offset - offset // 4
            data = batch([b"x" * 80], producer_id=1, sequence=sequence, transactional=True)
            append(log, data, leader_epoch=offset // 5)
    return log


def test_truncation_below_the_log_starts_anew(log: PartitionLog) -> None:
    append(log, batch())
    log.start_at(50, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (50, 50, 50)
    assert append(log, batch()).base_offset == 50
    log.truncate_to(20, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, values_of(log)) == (20, 20, [])


def test_truncation_below_deleted_records_leaves_a_log_that_begins_at_its_end(disk: Disk, tmp_path: Path) -> None:
    config = LogConfig()
    log = open_log(disk, tmp_path, config)
    for _ in range(10):
        append(log, batch([b"x"]))
    log.advance_high_watermark(10)
    log.delete_records_before(8)
    log.truncate_to(5, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    append(log, batch([b"after"]))
    log.close()
    again = open_log(disk, tmp_path, config)
    assert (again.log_start_offset, values_of(again)) == (5, [(5, b"after")])
    again.abandon()


# --- flushing, rolling


def test_flushing_is_counted_only_for_bytes_that_were_there(log: PartitionLog) -> None:
    assert log.unflushed() is None
    append(log, batch())
    work = log.unflushed()
    assert work is not None
    append(log, batch())
    log.mark_flushed(work)
    assert log.recovery_point == 1
    failed = log.unflushed()
    assert failed is not None
    log.mark_flushed(failed, done=False)
    assert log.recovery_point == 1
    stale = log.unflushed()
    assert stale is not None
    log.truncate_to(1, now_ms=NOW_MS)
    append(log, batch())
    log.mark_flushed(stale)
    assert log.recovery_point == 1


def test_segments_roll_by_time(log: PartitionLog) -> None:
    log.config = LogConfig(segment_ms_max=1000)
    append(log, batch(times_ms=[NOW_MS]))
    append(log, batch(times_ms=[NOW_MS + 1000]))
    assert len(log.segments) == 1
    append(log, batch(times_ms=[NOW_MS + 1001]))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segments_without_timestamps_roll_by_age(log: PartitionLog) -> None:
    log.config = LogConfig(segment_ms_max=1000)
    for age_ms in (0, 600, 1000, 1001):
        append(log, batch(times_ms=[-1]), now_ms=NOW_MS + age_ms)
    assert [segment.base_offset for segment in log.segments] == [0, 3]


def test_topic_configuration_is_read() -> None:
    config = LogConfig.from_topic_config(
        {
            "cleanup.policy": "compact, delete",
            "retention.ms": "-1",
            "min.cleanable.dirty.ratio": "0.1",
            "message.timestamp.type": "LogAppendTime",
            "segment.bytes": "100",
            "unclean.leader.election.enable": "true",
        }
    )
    assert (config.is_compacted, config.is_deleted, config.retention_ms) == (True, True, -1)
    assert (config.dirty_ratio_min, config.segment_bytes_max) == (0.1, 100)
    assert config.timestamp_type is TimestampType.LOG_APPEND_TIME


@pytest.mark.parametrize(
    ("key", "text"),
    [("retention.ms", "-2"), ("retention.ms", "x"), ("cleanup.policy", "shrink"), ("message.timestamp.type", "Now")],
)
def test_bad_topic_configuration_is_named(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=key):
        LogConfig.from_topic_config({key: text})

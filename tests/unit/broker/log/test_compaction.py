"""Compaction: what stays, what goes, when, and a crash at every step (C1 to C6)."""

from dataclasses import replace
from pathlib import Path

import pytest

from semel.broker.log.compaction import CompactionStep, compaction_run, plan_compaction
from semel.broker.log.config import LogConfig
from semel.broker.log.partition_log import PartitionLog
from semel.broker.log.producer_state import ProducerEntry
from semel.protocol.compression import Codec
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import BatchHeader, DraftRecord, Marker, check_batch, encode_batch, iter_headers
from semel.world.disk import Disk
from semel.world.real_disk import RealDisk
from semel.world.rng import SeededRng
from semel.world.virtual_disk import VirtualDisk
from tests.unit.broker.log.model import (
    FOLDER,
    NOW_MS,
    append,
    batch,
    compact_now,
    end_transaction,
    nonsense,
    open_log,
    producers_of,
    read_all,
)

RETENTION_MS = 1000
CONFIG = LogConfig(
    segment_bytes_max=600,
    index_interval_bytes=100,
    is_compacted=True,
    is_deleted=False,
    dirty_ratio_min=0.0,
    delete_retention_ms=RETENTION_MS,
)


@pytest.fixture(params=["real", "virtual"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return RealDisk() if request.param == "real" else VirtualDisk(SeededRng(1))


def put(log: PartitionLog, key: str, value: str | None, *, codec: Codec = Codec.NONE) -> int:
    data = batch([None if value is None else value.encode()], keys=[key.encode()], codec=codec)
    return append(log, data).base_offset


def pad(log: PartitionLog) -> None:
    """Start a new segment, so that all before it may be compacted."""
    log.roll(NOW_MS)
    put(log, "pad", "pad")


def table_of(log: PartitionLog) -> dict[bytes, bytes]:
    """What a read_committed reader of the whole topic ends up with."""
    table: dict[bytes, bytes] = {}
    for record in read_all(log, committed=True):
        assert record.key is not None
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table


def headers_of(log: PartitionLog) -> list[BatchHeader]:
    data = log.read(log.log_start_offset, bytes_max=1 << 20).read()
    for position, header in iter_headers(data):
        check_batch(data, header, position)
    return [header for _, header in iter_headers(data)]


def rows_of(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in read_all(log)]


@pytest.mark.parametrize("codec", list(Codec))
def test_the_last_value_of_each_key_stays_at_its_offset(disk: Disk, tmp_path: Path, codec: Codec) -> None:
    log = open_log(disk, tmp_path, CONFIG)
    for number in range(40):
        keys = [b"k%d" % (number % 3), b"k%d" % (number % 7)]
        append(log, batch([b"a%d" % number, b"b%d" % number], keys=keys, codec=codec))
    pad(log)
    before, rows, end = table_of(log), rows_of(log), log.log_end_offset
    size_bytes = log.size_bytes
    assert compact_now(log, NOW_MS)
    newest = {key: offset for offset, key, _ in rows}
    assert rows_of(log) == [row for row in rows if newest[row[1]] == row[0]]
    assert table_of(log) == before
    assert (log.log_end_offset, log.log_start_offset) == (end, 0)
    assert log.size_bytes < size_bytes / 2
    assert {header.codec for header in headers_of(log)[:-2]} == {codec}
    assert not compact_now(log, NOW_MS)
    log.abandon()
    again = open_log(disk, tmp_path, CONFIG)
    assert rows_of(again) == [row for row in rows if newest[row[1]] == row[0]]
    assert again.truncated_bytes == 0
    again.abandon()


def test_the_active_segment_is_left_alone(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, CONFIG)
    put(log, "k", "1")
    put(log, "k", "2")
    assert plan_compaction(log, NOW_MS) is None
    pad(log)
    put(log, "pad", "2")
    assert compact_now(log, NOW_MS)
    assert rows_of(log) == [(1, b"k", b"2"), (2, b"pad", b"pad"), (3, b"pad", b"2")]


def test_what_is_not_stable_is_left_alone(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, CONFIG)
    put(log, "k", "1")
    put(log, "k", "2")
    log.roll(NOW_MS)
    append(log, batch([b"open"], keys=[b"k"], producer_id=5, sequence=0, transactional=True))
    put(log, "k", "3")
    pad(log)
    plan = plan_compaction(log, NOW_MS)
    assert plan is not None
    assert plan.offset_limit == 2
    compact_now(log, NOW_MS)
    assert [row[0] for row in rows_of(log)] == [1, 2, 3, 4]
    log.state.high_watermark = 1
    log.state.cleaned_offset_next = 0
    assert plan_compaction(log, NOW_MS) is None


def test_dirty_ratio_and_lags_decide_when(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, CONFIG)
    for number in range(30):
        put(log, f"k{number}", "v" * 50)
    pad(log)
    compact_now(log, NOW_MS)
    put(log, "k1", "w")
    pad(log)
    log.config = LogConfig(is_compacted=True, dirty_ratio_min=0.5)
    assert plan_compaction(log, NOW_MS) is None
    log.config = LogConfig(is_compacted=True, dirty_ratio_min=0.01)
    assert plan_compaction(log, NOW_MS) is not None
    log.config = LogConfig(is_compacted=True, dirty_ratio_min=0.01, compaction_lag_ms_min=500)
    assert plan_compaction(log, NOW_MS + 499) is None
    assert plan_compaction(log, NOW_MS + 500) is not None
    log.config = LogConfig(is_compacted=True, dirty_ratio_min=0.5, compaction_lag_ms_max=500)
    assert plan_compaction(log, NOW_MS + 500) is None
    assert plan_compaction(log, NOW_MS + 501) is not None
    log.config = LogConfig(is_compacted=False, dirty_ratio_min=0.0)
    assert plan_compaction(log, NOW_MS) is None


def test_tombstones_stay_until_their_horizon(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, CONFIG)
    put(log, "k", "1")
    put(log, "k", None)
    put(log, "other", "1")
    pad(log)
    compact_now(log, NOW_MS)
    assert (1, b"k", None) in rows_of(log)
    assert [header.base_timestamp_ms for header in headers_of(log) if header.has_delete_horizon] == [
        NOW_MS + RETENTION_MS
    ]
    assert [record.timestamp_ms for record in read_all(log)] == [NOW_MS] * 3
    pad(log)
    compact_now(log, NOW_MS + RETENTION_MS - 1)
    assert (1, b"k", None) in rows_of(log)
    pad(log)
    compact_now(log, NOW_MS + RETENTION_MS)
    assert [row for row in rows_of(log) if row[1] == b"k"] == []


def transactional(log: PartitionLog, producer_id: int, sequence: int, key: str, value: str) -> None:
    append(
        log,
        batch([value.encode()], keys=[key.encode()], producer_id=producer_id, sequence=sequence, transactional=True),
    )


def test_aborted_records_go_and_do_not_hide_older_values(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, CONFIG)
    put(log, "k", "good")
    transactional(log, 1, 0, "k", "aborted")
    transactional(log, 2, 0, "j", "committed")
    end_transaction(log, 1, Marker.ABORT)
    end_transaction(log, 2, Marker.COMMIT)
    transactional(log, 1, 1, "x", "later")
    end_transaction(log, 1, Marker.COMMIT)
    pad(log)
    compact_now(log, NOW_MS)
    rows = [(key, value) for _, key, value in rows_of(log)]
    assert rows == [(b"k", b"good"), (b"j", b"committed"), (b"x", b"later"), (b"pad", b"pad")]


def test_markers_stay_while_their_transaction_has_a_batch_and_a_while_after(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, CONFIG)
    transactional(log, 1, 0, "k", "1")
    end_transaction(log, 1, Marker.COMMIT)  # offset 1
    transactional(log, 1, 1, "j", "1")
    end_transaction(log, 1, Marker.ABORT)  # offset 3
    transactional(log, 1, 2, "j", "2")
    end_transaction(log, 1, Marker.COMMIT)  # offset 5
    pad(log)
    log.aborted_transactions(0, 99)
    compact_now(log, NOW_MS)
    assert _markers(log) == [1, 3, 5]
    assert [one.last_offset for one in log.aborted_transactions(0, 99)] == [3]
    put(log, "k", "2")
    pad(log)
    compact_now(log, NOW_MS + 1)
    assert _markers(log) == [1, 3, 5]
    assert log.aborted_transactions(0, 99) == []  # the marker outlives the records it was about
    pad(log)
    compact_now(log, NOW_MS + 1 + RETENTION_MS)
    assert 3 not in _markers(log)
    pad(log)
    compact_now(log, NOW_MS + 1 + 2 * RETENTION_MS)
    assert _markers(log) == [5]


def _markers(log: PartitionLog) -> list[int]:
    return [header.base_offset for header in headers_of(log) if header.is_control and header.record_count]


def test_the_last_batch_of_a_producer_stays_though_empty(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, CONFIG)
    for number in range(4):
        append(log, batch([b"%d" % number], keys=[b"k"], producer_id=1, sequence=number))
    put(log, "k", "newest")
    put(log, "z", "z")
    pad(log)
    compact_now(log, NOW_MS)
    empty = [header for header in headers_of(log) if header.producer_id == 1]
    assert [(header.base_offset, header.record_count, header.last_sequence) for header in empty] == [(3, 0, 3)]
    log.abandon()
    for name in disk.list_dir(tmp_path / FOLDER):
        if name.endswith(".snapshot"):
            disk.remove(tmp_path / FOLDER / name)
    again = open_log(disk, tmp_path, CONFIG)
    repeat = batch([b"3"], keys=[b"k"], producer_id=1, sequence=3)
    assert append(again, repeat).duplicate
    with pytest.raises(Exception, match="expected 4") as caught:
        append(again, batch([b"x"], keys=[b"k"], producer_id=1, sequence=9))
    assert getattr(caught.value, "code", None) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_marker_that_fences_a_producer_stays(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, CONFIG)
    transactional(log, 1, 0, "k", "1")
    end_transaction(log, 1, Marker.ABORT, producer_epoch=6)
    put(log, "k", "2")
    for round_number in range(3):
        pad(log)
        compact_now(log, NOW_MS + round_number * 2 * RETENTION_MS)
    log.abandon()
    for name in disk.list_dir(tmp_path / FOLDER):
        if name.endswith(".snapshot"):
            disk.remove(tmp_path / FOLDER / name)
    again = open_log(disk, tmp_path, CONFIG)
    assert again.producers.entries[1].producer_epoch == 6
    assert [row[2] for row in rows_of(again) if row[1] == b"k"] == [b"2"]


def test_the_last_offset_of_the_compacted_part_stays(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, CONFIG)
    put(log, "k", "1")
    transactional(log, 1, 0, "k", "aborted")
    end_transaction(log, 1, Marker.ABORT)
    transactional(log, 2, 0, "k", "aborted")
    log.roll(NOW_MS)
    end_transaction(log, 2, Marker.ABORT)
    end_transaction(log, 1, Marker.COMMIT, producer_epoch=4)
    pad(log)
    log.producers.entries.clear()
    compact_now(log, NOW_MS)
    pad(log)
    compact_now(log, NOW_MS + 5 * RETENTION_MS)
    assert log.segments[0].offset_next == log.segments[1].base_offset


def test_small_neighbours_are_joined(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, CONFIG)
    for number in range(40):
        put(log, f"k{number % 3}", "v" * 60)
    pad(log)
    assert len(log.segments) > 8
    compact_now(log, NOW_MS)
    pad(log)
    compact_now(log, NOW_MS)
    assert len(log.segments) <= 3
    assert set(table_of(log)) == {b"k0", b"k1", b"k2", b"pad"}


def test_too_many_keys_are_done_in_several_runs(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, CONFIG)
    for number in range(60):
        put(log, f"k{number % 20}", f"{number}" * 20)
    pad(log)
    before = table_of(log)
    runs = 0
    while (plan := plan_compaction(log, NOW_MS)) and runs < 50:
        for _ in compaction_run(log, plan, NOW_MS, keys_max=5):
            pass
        assert table_of(log) == before
        runs += 1
    assert 1 < runs < 50


@pytest.mark.parametrize("pauses", [1, 3, 11])
@pytest.mark.parametrize("is_truncated", [True, False])
def test_a_log_cut_meanwhile_is_left_as_it_is(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: int, *, is_truncated: bool
) -> None:
    monkeypatch.setattr("semel.broker.log.compaction._PAUSE_BYTES", 1)
    log = open_log(disk, tmp_path, CONFIG)
    for number in range(20):
        put(log, "k", f"{number}" * 50)
    pad(log)
    plan = plan_compaction(log, NOW_MS)
    assert plan is not None
    run = compaction_run(log, plan, NOW_MS)
    for _ in range(pauses):
        next(run)
    if is_truncated:
        log.truncate_to(9, now_ms=NOW_MS)
    else:
        log.delete_records_before(9)
    rows = rows_of(log)
    for _ in run:
        pass
    assert rows_of(log) == rows
    assert not any("cleaned" in name for name in disk.list_dir(log.folder))
    log.abandon()


def test_a_run_that_is_given_up_leaves_nothing_behind(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.broker.log.compaction._PAUSE_BYTES", 1)
    log = open_log(disk, tmp_path, CONFIG)
    for number in range(20):
        put(log, "k", f"{number}" * 50)
    pad(log)
    rows = rows_of(log)
    plan = plan_compaction(log, NOW_MS)
    assert plan is not None
    run = compaction_run(log, plan, NOW_MS)
    while not any("cleaned" in name for name in disk.list_dir(log.folder)):
        next(run)
    run.close()
    assert not any("cleaned" in name for name in disk.list_dir(log.folder))
    assert rows_of(log) == rows


def test_slices_of_replaced_segments_stay_readable(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, CONFIG)
    for number in range(20):
        put(log, "k", f"{number}" * 50)
    pad(log)
    with log.read(0, bytes_max=400) as piece:
        before = piece.slices[0].read()
        compact_now(log, NOW_MS)
        assert piece.slices[0].read() == before


def test_a_batch_that_nobody_can_decode_is_left_as_it_is(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, LogConfig())
    put(log, "k", "1")
    append(log, nonsense())
    put(log, "k", "2")
    log.config = CONFIG
    pad(log)
    compact_now(log, NOW_MS)
    assert [header.base_offset for header in headers_of(log)] == [1, 2, 3]


STEPS = 50


@pytest.fixture
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pause so often that a batch of a few hundred records is a large one."""
    monkeypatch.setattr("semel.protocol.record_scan.STEPS_BETWEEN_PAUSES", STEPS)
    monkeypatch.setattr("semel.broker.log.compaction_filter.STEPS_BETWEEN_PAUSES", STEPS)
    monkeypatch.setattr("semel.broker.log.compaction._STEPS_BETWEEN_PAUSES", STEPS)


@pytest.mark.usefixtures("short_steps")
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_one_large_batch_has_pauses_in_it_and_may_be_cut_at_each(disk: Disk, tmp_path: Path, codec: Codec) -> None:
    config = replace(CONFIG, segment_bytes_max=1 << 30)
    log = open_log(disk, tmp_path, config)
    count = 3 * STEPS
    values = [None if number == count - 1 else b"v" for number in range(count)]
    append(log, batch(values, keys=[b"k%d" % (number // 2) for number in range(count)], codec=codec))
    pad(log)
    rows = rows_of(log)
    pauses = 0
    while True:
        plan = plan_compaction(log, NOW_MS)
        assert plan is not None
        run = compaction_run(log, plan, NOW_MS)
        stopped = [None for _ in zip(range(pauses), run, strict=False)]
        if len(stopped) < pauses:
            break
        run.close()
        assert rows_of(log) == rows
        assert not any("cleaned" in name for name in disk.list_dir(log.folder))
        pauses += 1
    assert pauses > 12  # two walks, noting the keys, the choice, and writing what is left
    assert rows_of(log) == [row for number, row in enumerate(rows) if number % 2 or number >= count]
    log.abandon()
    again = open_log(disk, tmp_path, config)
    assert rows_of(again) == [row for number, row in enumerate(rows) if number % 2 or number >= count]
    again.abandon()


@pytest.mark.usefixtures("short_steps")
def test_records_with_many_headers_are_copied_with_pauses(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, replace(CONFIG, segment_bytes_max=1 << 30))
    headers = (("", None),) * (3 * STEPS)
    drafts = [DraftRecord(key=key, value=b"v", timestamp_ms=NOW_MS, headers=headers) for key in (b"a", b"b", b"a")]
    append(log, memoryview(bytearray(encode_batch(drafts))))
    pad(log)
    kept = read_all(log)[1:]
    plan = plan_compaction(log, NOW_MS)
    assert plan is not None
    assert len(list(compaction_run(log, plan, NOW_MS))) > 18
    assert read_all(log) == kept
    log.abandon()


class StopHere(Exception):
    """The process dies."""


def _crash_at(log: PartitionLog, count: int, now_ms: int) -> CompactionStep | None:
    """Die at the `count`th step of a compaction; None when there are fewer."""
    steps: list[CompactionStep] = []

    def reached(step: CompactionStep) -> None:
        steps.append(step)
        if len(steps) == count:
            raise StopHere

    try:
        compact_now(log, now_ms, on_step=reached)
    except StopHere:
        return steps[-1]
    return None


@pytest.mark.parametrize("keep_unsynced", [True, False])
def test_a_crash_at_any_step_loses_nothing(tmp_path: Path, *, keep_unsynced: bool) -> None:
    seen: set[CompactionStep] = set()
    for count in range(1, 100):
        disk = VirtualDisk(SeededRng(count))
        log = _busy_log(disk, tmp_path)
        before, producers, end = table_of(log), producers_of(log), log.log_end_offset
        step = _crash_at(log, count, NOW_MS + 10 * RETENTION_MS)
        disk.crash(keep_unsynced=keep_unsynced)
        again = open_log(disk, tmp_path, CONFIG)
        again.advance_high_watermark(again.log_end_offset)
        assert table_of(again) == before
        assert again.log_end_offset == end
        assert _last_sequences(producers_of(again)) == _last_sequences(producers)
        assert again.truncated_bytes == 0
        assert not [name for name in disk.list_dir(again.folder) if name.endswith((".cleaned", ".swap"))]
        compact_now(again, NOW_MS + 20 * RETENTION_MS)
        assert table_of(again) == before
        if step is None:
            break
        seen.add(step)
    assert seen == set(CompactionStep)


def _last_sequences(producers: dict[int, ProducerEntry]) -> dict[int, tuple[int, int]]:
    return {key: (one.producer_epoch, one.last_sequence) for key, one in producers.items()}


def _busy_log(disk: VirtualDisk, root: Path) -> PartitionLog:
    """Keys set, deleted with their tombstones past the horizon, transactions; all of it on the disk."""
    log = open_log(disk, root, CONFIG)
    for number in range(12):
        put(log, f"k{number % 5}", f"{number}" * 30)
    for number in range(0, 5, 2):
        put(log, f"k{number}", None)
    pad(log)
    compact_now(log, NOW_MS)  # gives the tombstones their horizon
    for number in range(6):
        transactional(log, 1, number, f"t{number % 2}", f"{number}" * 30)
        end_transaction(log, 1, Marker.ABORT if number % 3 == 2 else Marker.COMMIT)
    put(log, "k1", None)
    pad(log)
    work = log.unflushed()
    assert work is not None
    for file in work.files:
        disk.sync_now(file)
    log.mark_flushed(work)
    log.checkpoint()
    return log


def test_others_are_served_between_two_batches_of_many_records(disk: Disk, tmp_path: Path) -> None:
    log = open_log(disk, tmp_path, replace(CONFIG, segment_bytes_max=1 << 20))
    for number in range(4):
        keys = [f"{number}-{key}".encode() for key in range(2_000)]
        append(log, batch([b"v"] * len(keys), keys=keys, codec=Codec.ZSTD))
    pad(log)
    plan = plan_compaction(log, NOW_MS)
    assert plan is not None
    pauses = sum(1 for _ in compaction_run(log, plan, NOW_MS))
    assert pauses >= 2 * 4
    assert len(read_all(log)) == 4 * 2_000 + 1

"""Random histories of a compacted topic, kills included, against the list of all its records (C1, C2, C6)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from semel.broker.log.config import LogConfig
from semel.broker.log.files import SNAPSHOT
from semel.broker.log.partition_log import PartitionLog
from semel.protocol.compression import Codec
from semel.protocol.record_batch import Marker
from semel.world.rng import SeededRng
from semel.world.virtual_disk import VirtualDisk
from tests.unit.broker.log.model import FOLDER, NOW_MS, append, batch, compact_now, end_transaction, open_log, read_all

ROOT = Path("/data")
RETENTION_MS = 100
Change = tuple[bytes, bytes | None]


@dataclass
class Row:
    """One record ever written."""

    offset: int
    change: Change
    is_visible: bool


@dataclass
class Model:
    """Every record ever written and how its transaction ended."""

    disk: VirtualDisk
    config: LogConfig
    log: PartitionLog
    rows: list[Row] = field(default_factory=list)
    pending: dict[int, list[Row]] = field(default_factory=dict)
    now_ms: int = NOW_MS

    def put(self, producer_id: int, changes: list[Change], codec: Codec) -> None:
        entry = self.log.producers.entries.get(producer_id)
        data = batch(
            [value for _, value in changes],
            keys=[key for key, _ in changes],
            producer_id=producer_id,
            sequence=-1 if producer_id < 0 else (entry.last_sequence + 1 if entry else 0),
            transactional=producer_id >= 0,
            codec=codec,
        )
        base_offset = append(self.log, data).base_offset
        rows = [Row(base_offset + number, change, producer_id < 0) for number, change in enumerate(changes)]
        self.rows += rows
        if producer_id >= 0:
            self.pending.setdefault(producer_id, []).extend(rows)

    def end(self, producer_id: int, marker: Marker) -> None:
        for row in self.pending.get(producer_id, []):
            row.is_visible = marker is Marker.COMMIT
        if self.pending.pop(producer_id, None):
            end_transaction(self.log, producer_id, marker)

    def compact(self) -> None:
        self.now_ms += RETENTION_MS // 2
        compact_now(self.log, self.now_ms)

    def roll(self) -> None:
        if self.log.segments[-1].size_bytes:
            self.log.roll(NOW_MS)

    def kill(self) -> None:
        self.disk.crash(keep_unsynced=True)
        end = self.log.log_end_offset
        self.log = open_log(self.disk, ROOT, self.config)
        self.log.advance_high_watermark(self.log.log_end_offset)
        assert (self.log.truncated_bytes, self.log.log_end_offset) == (0, end)

    def forget_snapshots(self) -> None:
        before = self.sequences()
        for name in self.disk.list_dir(ROOT / FOLDER):
            if name.endswith(SNAPSHOT):
                self.disk.remove(ROOT / FOLDER / name)
        self.kill()
        assert self.sequences() == before

    def sequences(self) -> dict[int, tuple[int, int]]:
        return {key: (one.producer_epoch, one.last_sequence) for key, one in self.log.producers.entries.items()}

    def check(self) -> None:
        stable = self.log.last_stable_offset
        assert stable == min((rows[0].offset for rows in self.pending.values()), default=self.log.log_end_offset)
        expected = _table([row.change for row in self.rows if row.is_visible and row.offset < stable])
        records = read_all(self.log, committed=True)
        assert _table([(one.key or b"", one.value) for one in records if one.offset < stable]) == expected
        known = {row.offset: row.change for row in self.rows}
        assert all(known[one.offset] == (one.key, one.value) for one in records)


def _table(changes: list[Change]) -> dict[bytes, bytes]:
    newest = dict(changes)
    return {key: value for key, value in newest.items() if value is not None}


Op = Callable[[Model], None]


def _put(producer_id: int, changes: list[Change], codec: Codec) -> Op:
    return lambda model: model.put(producer_id, changes, codec)


def _end(producer_id: int, marker: Marker) -> Op:
    return lambda model: model.end(producer_id, marker)


CHANGES = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.one_of(st.none(), st.binary(max_size=60))), min_size=1, max_size=3
)
PUT = st.builds(_put, st.sampled_from([-1, 1, 2]), CHANGES, st.sampled_from([Codec.NONE, Codec.LZ4]))
END = st.builds(_end, st.sampled_from([1, 2]), st.sampled_from(list(Marker)))
OTHER: list[Op] = [Model.compact, Model.compact, Model.roll, Model.roll, Model.kill, Model.forget_snapshots]
OPS = st.lists(st.one_of(PUT, PUT, END, st.sampled_from(OTHER)), max_size=40)


@given(seed=st.integers(0, 2**32), segment_bytes=st.sampled_from([300, 1000]), ops=OPS)
def test_a_compacted_topic_reads_as_if_it_had_not_been(seed: int, segment_bytes: int, ops: list[Op]) -> None:
    disk = VirtualDisk(SeededRng(seed))
    config = LogConfig(
        segment_bytes_max=segment_bytes, is_compacted=True, dirty_ratio_min=0.0, delete_retention_ms=RETENTION_MS
    )
    model = Model(disk=disk, config=config, log=open_log(disk, ROOT, config))
    for op in ops:
        op(model)
        model.check()
    model.roll()
    model.compact()
    model.forget_snapshots()
    model.check()

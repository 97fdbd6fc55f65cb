"""Random histories of one log, crashes included, against a plain list (L1, L3, L6, I1, I2)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from semel.broker.log.config import LogConfig
from semel.broker.log.files import INDEX_SUFFIXES, SNAPSHOT
from semel.broker.log.partition_log import PartitionLog
from semel.broker.log.recovery import EPOCH_FILE
from semel.protocol.compression import Codec
from semel.protocol.record_batch import Marker
from semel.world.rng import SeededRng
from semel.world.virtual_disk import VirtualDisk
from tests.unit.broker.log.model import (
    FOLDER,
    NOW_MS,
    append,
    batch,
    end_transaction,
    facts_of,
    has_open_transaction,
    open_log,
    values_of,
)

ROOT = Path("/data")
PLAIN, IDEMPOTENT, TRANSACTIONAL = 0, 10, 20


@dataclass
class Model:
    """What the log must hold, and what of it a crash may take."""

    disk: VirtualDisk
    config: LogConfig
    log: PartitionLog
    values: list[tuple[int, bytes | None]] = field(default_factory=list)
    ends: list[int] = field(default_factory=lambda: [0])  # where batches end, each a place the log may be cut at
    synced: int = 0
    count: int = 0
    leader_epoch: int = 0
    has_lost_segments: bool = False

    def add(self, producer_id: int, records: int, codec: Codec) -> None:
        values = [b"%d.%d" % (self.count, number) * (1 + self.count % 9) for number in range(records)]
        self.count += 1
        entry = self.log.producers.entries.get(producer_id)
        sequence = (entry.last_sequence + 1) if entry else 0
        data = batch(
            values,
            producer_id=producer_id,
            sequence=-1 if producer_id < 0 else sequence,
            transactional=producer_id >= TRANSACTIONAL,
            codec=codec,
        )
        result = append(self.log, data, leader_epoch=self.leader_epoch)
        assert result.base_offset == self.ends[-1]
        assert not result.duplicate
        self.values += [(result.base_offset + number, value) for number, value in enumerate(values)]
        self.ends.append(self.log.log_end_offset)
        if producer_id >= 0:
            again = append(self.log, data, leader_epoch=self.leader_epoch)
            assert (again.base_offset, again.duplicate) == (result.base_offset, True)

    def end(self, producer_id: int, marker: Marker) -> None:
        if has_open_transaction(self.log.producers, producer_id):
            end_transaction(self.log, producer_id, marker)
            self.ends.append(self.log.log_end_offset)

    def sync(self) -> None:
        work = self.log.unflushed()
        if work is not None:
            for file in work.files:
                self.disk.sync_now(file)
            self.log.mark_flushed(work)
        self.synced = self.log.log_end_offset

    def cut(self, offset: int) -> None:
        assert offset in self.ends or offset == self.log.log_start_offset
        self.values = [one for one in self.values if one[0] < offset]
        self.ends = [end for end in self.ends if end < offset] + [offset]
        self.synced = min(self.synced, offset)

    def truncate(self, back: int) -> None:
        offset = max(self.ends[max(0, len(self.ends) - 1 - back)], self.log.log_start_offset)
        if offset in self.ends:
            self.log.truncate_to(offset, now_ms=NOW_MS)
            self.cut(offset)
            self.leader_epoch += 1

    def delete_records(self, back: int) -> None:
        offset = max(0, self.log.log_end_offset - back)
        start = self.log.delete_records_before(offset)
        self.values = [one for one in self.values if one[0] >= start]
        self.has_lost_segments |= self.log.segments[0].base_offset > 0

    def close(self) -> None:
        self.log.close()
        self.synced = self.ends[-1]
        self.reopen(clean=True)

    def kill(self) -> None:
        before = facts_of(self.log)
        self.disk.crash(keep_unsynced=True)
        self.reopen(clean=False)
        assert facts_of(self.log) == before or self.has_lost_segments

    def crash(self, *, torn: bool) -> None:
        self.disk.crash(torn=torn)
        self.reopen(clean=False)

    def reopen(self, *, clean: bool) -> None:
        self.log = open_log(self.disk, ROOT, self.config, clean=clean)
        self.log.advance_high_watermark(self.log.log_end_offset)
        assert self.log.log_end_offset >= min(self.synced, self.ends[-1])
        self.cut(self.log.log_end_offset)

    def check(self) -> None:
        start = self.log.log_start_offset
        assert values_of(self.log) == [one for one in self.values if one[0] >= start]
        assert self.log.log_end_offset == self.ends[-1]

    def check_rebuilt(self) -> None:
        """Without any file but the logs themselves, the same is found."""
        before = facts_of(self.log)
        self.log.abandon()
        folder = ROOT / FOLDER
        for name in self.disk.list_dir(folder):
            if name.endswith((*INDEX_SUFFIXES, SNAPSHOT, EPOCH_FILE)):
                self.disk.remove(folder / name)
        self.reopen(clean=False)
        after = facts_of(self.log)
        if self.has_lost_segments:
            assert after.values == before.values
        else:
            assert after == before


Op = Callable[[Model], None]


def _add(producer_id: int, records: int, codec: Codec) -> Op:
    return lambda model: model.add(producer_id, records, codec)


def _end(producer_id: int, marker: Marker) -> Op:
    return lambda model: model.end(producer_id, marker)


PRODUCERS = st.sampled_from([-1, IDEMPOTENT, IDEMPOTENT + 1, TRANSACTIONAL, TRANSACTIONAL + 1])
ADD = st.builds(_add, PRODUCERS, st.integers(1, 4), st.sampled_from(list(Codec)))
END = st.builds(_end, st.sampled_from([TRANSACTIONAL, TRANSACTIONAL + 1]), st.sampled_from(list(Marker)))
OTHER: list[Op] = [
    Model.sync,
    Model.close,
    Model.kill,
    lambda model: model.crash(torn=True),
    lambda model: model.crash(torn=False),
    lambda model: model.log.checkpoint(),
    lambda model: model.truncate(1),
    lambda model: model.truncate(4),
    lambda model: model.delete_records(3),
    lambda model: setattr(model, "leader_epoch", model.leader_epoch + 1),
]
OPS = st.lists(st.one_of(ADD, ADD, ADD, END, st.sampled_from(OTHER)), max_size=40)


@given(seed=st.integers(0, 2**32), segment_bytes=st.sampled_from([300, 700, 1 << 20]), ops=OPS)
def test_a_log_is_a_list_that_crashes_lose_only_the_unsynced_end_of(
    seed: int, segment_bytes: int, ops: list[Op]
) -> None:
    disk = VirtualDisk(SeededRng(seed))
    config = LogConfig(segment_bytes_max=segment_bytes, index_interval_bytes=120)
    model = Model(disk=disk, config=config, log=open_log(disk, ROOT, config))
    for op in ops:
        op(model)
        model.check()
    model.check_rebuilt()
    model.check()

"""A leader epoch that wrote nothing must not stay in the way: nobody else ever heard of it."""

from pathlib import Path

from semel.broker.log.config import LogConfig
from semel.broker.log.partition_log import PartitionLog
from semel.protocol.record_batch import DraftRecord, encode_batch
from semel.world import SeededRng, VirtualDisk


def test_cutting_at_the_end_forgets_leader_epochs_without_records() -> None:
    disk, folder = VirtualDisk(SeededRng(1)), Path("/orders-0")
    disk.make_dirs(folder)
    log = PartitionLog.open(disk, folder, LogConfig(), now_ms=1, clean=False)
    batch = encode_batch([DraftRecord(key=None, value=b"paid", timestamp_ms=1)])
    log.append_as_leader(memoryview(bytearray(batch)), leader_epoch=3, now_ms=1)
    log.assign_leader_epoch(7)
    log.truncate_to(log.log_end_offset, now_ms=1)
    assert (log.epochs.latest, log.log_end_offset) == (3, 1)

"""A copy job under fire: three copier JVMs, killed and replaced, while the brokers are killed and started again.

The schedule comes from a seed; the job ends when every input record was copied.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import semel
from semel.protocol.record_batch import DraftRecord, encode_batch
from tests.copy_job.filtering import rows_of
from tests.features.reading import committed_offset, fetched
from tests.support.java import java_command
from tests.support.stored import append_batch

PARTITIONS = 3
COPIERS = 3
KEYS = 50
BATCH = 500
SECONDS_MAX = 240.0
SOURCE, TARGET, GROUP = "source", "target", "copiers"
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
}


@dataclass
class Copier:
    """One JVM; what it says goes to a file, so that a full pipe never stops it."""

    command: list[str]
    said: Path
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        """Start it."""
        with self.said.open("ab") as out:
            self.process = subprocess.Popen(self.command, stdout=out, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        """End it with signal 9."""
        self.process.kill()
        self.process.wait(timeout=10)


@dataclass
class Faults:
    """What was done to the job, and what it did itself."""

    kills: int = 0
    restarts: int = 0
    said: Counter[str] = field(default_factory=Counter)


def fill(cluster: semel.Cluster, count: int) -> dict[int, list[tuple[bytes, bytes]]]:
    """Write the input: every value once, keys repeated; by partition."""
    rows: dict[int, list[tuple[bytes, bytes]]] = defaultdict(list)
    for number in range(count):
        key = number % KEYS
        rows[key % PARTITIONS].append((b"%d" % key, b"%d" % number))
    for partition, pairs in rows.items():
        for start in range(0, len(pairs), BATCH):
            drafts = [DraftRecord(key=k, value=v, timestamp_ms=1) for k, v in pairs[start : start + BATCH]]
            answer = append_batch(cluster, SOURCE, encode_batch(drafts), partition=partition)
            assert answer.error_code == 0, answer
    return rows


class CopyJob:
    """Copiers and the schedule of what happens to them."""

    def __init__(self, cluster: semel.Cluster, folder: Path, seed: int) -> None:
        """Start all copiers."""
        self._cluster = cluster
        self._folder = folder
        self._random = Random(seed)
        self._starts = 0
        self.faults = Faults()
        self._copiers = [self._start(index) for index in range(COPIERS)]

    def _start(self, index: int) -> Copier:
        self._starts += 1
        arguments = [self._cluster.bootstrap, SOURCE, TARGET, f"copier-{index}", str(self._starts)]
        return Copier(java_command("CopyJob", *arguments), self._folder / f"copier-{self._starts}")

    def run(self, ends: dict[int, int], pause_s: float) -> None:
        """Hurt the job after each tenth of the work, and whenever it has gone on for a while, until it is done."""
        deadline = time.monotonic() + SECONDS_MAX
        total = sum(ends.values())
        fault_at, fault_progress = time.monotonic() + 2 * pause_s, total // 10
        while (progress := self._copied(ends)) < total:
            assert time.monotonic() < deadline, f"not done: {self.faults}"
            if time.monotonic() >= fault_at or progress >= fault_progress:
                self._hurt()
                fault_at, fault_progress = time.monotonic() + pause_s, progress + total // 10
            time.sleep(0.02)

    def _copied(self, ends: dict[int, int]) -> int:
        return sum(max(0, committed_offset(self._cluster, GROUP, SOURCE, part)) for part in ends)

    def _hurt(self) -> None:
        if (self.faults.kills + self.faults.restarts) % 2:
            self._cluster.restart(self._random.randrange(1, 4))
            self.faults.restarts += 1
        else:
            index = self._random.randrange(COPIERS)
            self._copiers[index].kill()
            self._copiers[index] = self._start(index)
            self.faults.kills += 1

    def close(self) -> None:
        """Kill everything, and count what was said."""
        for copier in self._copiers:
            copier.kill()
        for said in self._folder.iterdir():
            self.faults.said.update(line.split()[0] for line in said.read_text().splitlines() if line)


def run_copy_job(cluster: semel.Cluster, records: int, *, seed: int, pause_s: float) -> tuple[Faults, Copied]:
    """Fill, copy under fire, read both topics."""
    rows = fill(cluster, records)
    with tempfile.TemporaryDirectory() as folder:
        job = CopyJob(cluster, Path(folder), seed)
        try:
            job.run({partition: len(pairs) for partition, pairs in rows.items()}, pause_s)
        finally:
            job.close()
    return job.faults, Copied(rows, read_all(cluster, committed=True), read_all(cluster, committed=False))


Rows = dict[int, list[tuple[bytes, bytes]]]


@dataclass(frozen=True)
class Copied:
    """Input, and the output as readers of both isolation levels see it."""

    source: Rows
    committed: Rows
    uncommitted: Rows

    def out_of_order(self) -> int:
        """Keys whose values did not keep their order."""
        return sum(by_key(self.source[part]) != by_key(self.committed[part]) for part in self.source)


def by_key(rows: list[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    """Values in order, by key."""
    found: dict[bytes, list[bytes]] = defaultdict(list)
    for key, value in rows:
        found[key].append(value)
    return found


def read_all(cluster: semel.Cluster, *, committed: bool) -> Rows:
    """The target topic."""
    return {partition: read_partition(cluster, partition, committed=committed) for partition in range(PARTITIONS)}


def read_partition(cluster: semel.Cluster, partition: int, *, committed: bool) -> list[tuple[bytes, bytes]]:
    """One partition of the target, filtered as a client does."""
    rows: list[tuple[bytes, bytes]] = []
    offset = 0
    while True:
        data = fetched(cluster, TARGET, partition, committed=committed, offset=offset)
        more, offset_next = rows_of(data, offset, committed=committed)
        if offset_next == offset:
            return rows
        rows += more
        offset = offset_next

"""What a shuffle brought: encoded batches of many tasks, given on in the order of the tasks and of each task's batches.

Keeps: rows of a key stay in the order that the tasks had them, whichever task's batches come first. A source
       partition that was split over several tasks has its pieces in the order of the tasks, so its keys keep theirs.
Why:   shuffles bring the output of the tasks in any order. Each task therefore ends what it sends to a writer with a
       row that says so; what comes before its turn is kept aside, in memory and from a limit on in a file. Without
       other machines the order is right by itself, and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

import pyarrow as pa

from semel.errors import SinkError
from semel.protocol.arrow_types import ArrowArray
from semel.sinks.kafka_targets import Targets
from semel.wire.produce import Batch
from semel.wire.topology import TopicPartition

SUMMARY = -1  # the target of a row that ends a task's batches and says how many rows the task encoded
HELD_BYTES_MAX = 64 << 20


class _Held(NamedTuple):
    """Where a batch that came before its turn lies."""

    target: int
    start: int
    size: int


class Arrivals:
    """Unpacks what came to one writer."""

    def __init__(self, targets: Targets) -> None:
        """Nothing has come yet."""
        self._partitions = list(targets)
        self._last: dict[tuple[int, int], int] = {}
        self._turn = 0
        self._held: dict[int, list[_Held]] = {}
        self._held_end = 0
        # How many rows each task encoded, of those that have ended.
        self.encoded: dict[int, int] = {}

    def unpack(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[TopicPartition, Batch]]:
        """Give every batch with the partition it goes to."""
        with SpooledTemporaryFile(max_size=HELD_BYTES_MAX) as aside:
            for batch in batches:
                yield from self._rows(batch, aside)
            for task in sorted(self._held):
                yield from self._release(task, aside)

    def _rows(
        self, batch: pa.RecordBatch, aside: SpooledTemporaryFile[bytes]
    ) -> Iterator[tuple[TopicPartition, Batch]]:
        target, task, number, records = (_whole(batch.column(index)) for index in (1, 2, 3, 4))
        cells = batch.column(5)
        for index in range(batch.num_rows):
            if target[index] == SUMMARY:
                self.encoded[task[index]] = records[index]
                while self._turn in self.encoded:
                    self._turn += 1
                    yield from self._release(self._turn, aside)
                continue
            self._check_order(task[index], target[index], number[index])
            content = memoryview(cells[index].as_buffer())
            if task[index] <= self._turn:
                yield self._partitions[target[index]], bytearray(content)
            else:
                aside.seek(self._held_end)
                aside.write(content)
                self._held.setdefault(task[index], []).append(_Held(target[index], self._held_end, len(content)))
                self._held_end += len(content)

    def _release(self, task: int, aside: SpooledTemporaryFile[bytes]) -> Iterator[tuple[TopicPartition, Batch]]:
        for one in self._held.pop(task, ()):
            aside.seek(one.start)
            yield self._partitions[one.target], bytearray(aside.read(one.size))

    def _check_order(self, task: int, target: int, number: int) -> None:
        key = task, target
        if self._last.get(key, -1) >= number:
            raise SinkError(f"the shuffle brought batch {number} of task {task} after {self._last[key]}")
        self._last[key] = number


def _whole(column: ArrowArray) -> list[int]:
    numbers: list[int] = column.to_numpy().tolist()
    return numbers

"""Puts encoded batches together that a shuffle brings in pieces, and in the order of their tasks.

Keeps: rows of a key stay in the order that the tasks had them, whichever task's batches come first. A source
       partition that was split over several tasks has its pieces in the order of the tasks, so its keys keep theirs.
Why:   shuffles bring the output of the tasks in any order. Each task therefore ends what it sends to a writer with a
       row that says so; what comes before its turn is kept aside, in memory and from a limit on in a file. Without
       other machines the order is right by itself, and nothing is kept. The pieces of a batch come one after another,
       so most of them lie side by side in one Arrow buffer and are one copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.errors import SinkError
from semel.protocol.arrow_types import ArrowArray
from semel.sinks.kafka.targets import Targets
from semel.wire.produce import Batch
from semel.wire.topology import TopicPartition

SUMMARY = -1  # the target of a row that ends a task's batches and says how many rows the task encoded
HELD_BYTES_MAX = 64 << 20


class _Name(NamedTuple):
    """Which batch a piece is of."""

    task: int
    target: int
    number: int

    def __str__(self) -> str:
        """As an error names it."""
        return f"batch {self.number} of task {self.task}"


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
        self._open: tuple[_Name, bytearray] | None = None
        self._turn = 0
        self._held: dict[int, list[_Held]] = {}
        self._held_end = 0
        # How many rows each task encoded, of those that have ended.
        self.encoded: dict[int, int] = {}
        self.row_bytes_max = 0

    def unpack(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[TopicPartition, Batch]]:
        """Give every batch with the partition it goes to."""
        with SpooledTemporaryFile(max_size=HELD_BYTES_MAX) as aside:
            for batch in batches:
                if batch.num_rows:
                    yield from self._rows(batch, aside)
            # A task that ended in the middle of a batch: Spark would not notice.
            if self._open is not None:
                raise SinkError(f"the shuffle did not bring all of {self._open[0]}")
            # A task that sent no end still counts; whether that is an error the driver sees by the counts.
            for task in sorted(self._held):
                yield from self._release(task, aside)

    def _rows(
        self, batch: pa.RecordBatch, aside: SpooledTemporaryFile[bytes]
    ) -> Iterator[tuple[TopicPartition, Batch]]:
        target, task, number, total = (_whole(batch.column(index)) for index in (1, 2, 3, 4))
        cells = batch.column(5)
        for start, end in pairwise(_edges(task, target, number)):
            name = _Name(int(task[start]), int(target[start]), int(number[start]))
            if name.target == SUMMARY:
                yield from self._end(name, int(total[start]), aside)
            elif (whole := self._join(name, _content(cells, start, end), int(total[start]))) is not None:
                yield from self._arrived(name, whole, aside)

    def _end(
        self, name: _Name, rows: int, aside: SpooledTemporaryFile[bytes]
    ) -> Iterator[tuple[TopicPartition, Batch]]:
        self.encoded[name.task] = rows
        self.row_bytes_max = max(self.row_bytes_max, name.number)
        while self._turn in self.encoded:
            self._turn += 1
            yield from self._release(self._turn, aside)

    def _join(self, name: _Name, content: memoryview, size: int) -> bytearray | None:
        """The batch, when this was the rest of it."""
        if self._open is None:
            self._check_order(name)
            self._open = name, bytearray(content)
        elif self._open[0] == name:
            self._open[1].extend(content)
        else:
            raise SinkError(f"the shuffle brought {name} in the middle of {self._open[0]}")
        whole = self._open[1]
        if len(whole) < size:
            return None
        if len(whole) > size:
            raise SinkError(f"the shuffle brought more than all of {name}")
        self._open = None
        return whole

    def _arrived(
        self, name: _Name, whole: bytearray, aside: SpooledTemporaryFile[bytes]
    ) -> Iterator[tuple[TopicPartition, Batch]]:
        if name.task <= self._turn:
            yield self._partitions[name.target], whole
            return
        aside.seek(self._held_end)
        aside.write(whole)
        self._held.setdefault(name.task, []).append(_Held(name.target, self._held_end, len(whole)))
        self._held_end += len(whole)

    def _release(self, task: int, aside: SpooledTemporaryFile[bytes]) -> Iterator[tuple[TopicPartition, Batch]]:
        for one in self._held.pop(task, ()):
            aside.seek(one.start)
            yield self._partitions[one.target], bytearray(aside.read(one.size))

    def _check_order(self, name: _Name) -> None:
        key = name.task, name.target
        if self._last.get(key, -1) >= name.number:
            raise SinkError(f"the shuffle brought {name} after batch {self._last[key]}")
        self._last[key] = name.number


def _whole(column: ArrowArray) -> npt.NDArray[np.int64]:
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _edges(*columns: npt.NDArray[np.int64]) -> list[int]:
    """Where rows of another batch begin, and where the last ends."""
    changes = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    edges: list[int] = [0, *(np.flatnonzero(changes) + 1).tolist(), len(columns[0])]
    return edges


def _content(cells: Any, start: int, end: int) -> memoryview:
    """The bytes of cells side by side."""
    _, offsets, content = cells.buffers()
    kind = np.int64 if pa.types.is_large_binary(cells.type) else np.int32
    ends = np.frombuffer(offsets, dtype=kind)
    return memoryview(content)[ends[cells.offset + start] : ends[cells.offset + end]]

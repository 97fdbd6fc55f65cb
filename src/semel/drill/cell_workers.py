"""Run cells in processes of their own, several at once if wanted; results come in the order of the cells.

Cells without Spark have a cluster of their own and go to the worker that is free. Cells with Spark share a session, a
cluster and a database, so one worker has them all, and begins with them. Leaving the block ends every worker and what
it has started; their temporary files are in one folder, which goes then.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TextIO

from semel.drill.cells import Cell, Observed
from semel.drill.commands import RunningCommand, last_lines
from semel.drill.run_folder import scratch_folder
from semel.drill.spark_ways import SparkFault
from semel.errors import EnvironmentFailure

END_S_MAX = 10.0
JOIN_S_MAX = 30.0
Result = tuple[int, Observed]


def is_with_spark(cell: Cell) -> bool:
    """Whether it needs a worker that has Spark."""
    return isinstance(cell.fault, SparkFault)


class CellWorker:
    """One process, started with its first cell."""

    def __init__(self, *, bootstrap: str = "", nodes: int = 0) -> None:
        """`bootstrap` is a cluster of Apache Kafka with so many nodes, for cells with Spark; empty: embedded ones."""
        self._bootstrap, self._nodes = bootstrap, nodes
        self._stack = ExitStack()
        self._running: RunningCommand | None = None
        self._output = -1
        self._lock = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> CellWorker:
        """Nothing runs yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it and what it has started."""
        with self._lock:
            self._is_closed = True
            self._end()

    def _end(self) -> None:
        if self._running is not None:
            # Asked first: a process that ends by itself stops its cluster, its database and its JVM in order.
            self._running.end(END_S_MAX)
        self._running = None
        self._stack.close()

    def run(self, cell: Cell, seed: int, _: Path | None = None) -> Observed:
        """Hand the cell over and wait; a worker that ended is the reason, and the next cell gets a new one."""
        try:
            with self._lock:
                if self._is_closed:
                    return Observed(reason="the drill has ended")
                if self._running is None:
                    self._start()
            self._questions.write(json.dumps({"cell": cell.id, "seed": seed}) + "\n")
            # The worker reads a line and waits: without this it would wait for ever.
            self._questions.flush()
            line = self._answers.readline()
        except OSError:  # it has ended, and its pipe with it
            line = ""
        if line:
            found = json.loads(line)
            return Observed(**{**found, "errors": tuple(found["errors"])})
        with self._lock:
            if self._is_closed:
                return Observed(reason="the drill has ended")
            told = last_lines(self._output)
            self._end()
        return Observed(reason=f"the process that ran it has ended: {told}")

    def _start(self) -> None:
        folder = self._stack.enter_context(scratch_folder())
        if os.geteuid() == 0:
            folder.chmod(0o711)  # PostgreSQL does not run as root, and has to reach its own folder in here
        output = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._output = output.fileno()
        asked, questions = os.pipe()
        answers, answered = os.pipe()
        self._questions = os.fdopen(questions, "w")
        self._stack.callback(_close, self._questions)
        self._answers = self._stack.enter_context(os.fdopen(answers))
        settings = {"answers": answered, "bootstrap": self._bootstrap, "nodes": self._nodes}
        command = [sys.executable, "-m", "semel.drill.cell_worker", json.dumps(settings)]
        try:
            self._running = RunningCommand(
                command, self._output, environment={"TMPDIR": str(folder)}, stdin=asked, kept=(answered,)
            )
        finally:
            os.close(asked)
            os.close(answered)


def _close(pipe: TextIO) -> None:
    with suppress(BrokenPipeError):  # a worker that has died did not read what was written last
        pipe.close()


def run_in_workers(cells: Sequence[Cell], seed: int, workers: Sequence[CellWorker]) -> Generator[Result, None, None]:
    """Run them all; results as they come, each with the number of its cell."""
    plain = deque(number for number, cell in enumerate(cells) if not is_with_spark(cell))
    spark = deque(number for number, cell in enumerate(cells) if is_with_spark(cell))
    done: queue.SimpleQueue[Result | BaseException] = queue.SimpleQueue()

    def work(worker: CellWorker, lanes: Sequence[deque[int]]) -> None:
        try:
            for number in _taken(lanes):
                done.put((number, worker.run(cells[number], seed)))
        except BaseException as error:  # noqa: BLE001 - raised for the one who waits for the results
            done.put(error)

    # The first worker begins with the cells that only one can run; they take longest.
    lanes = [[spark, plain], *([plain] for _ in workers[1:])]
    threads = [threading.Thread(target=work, args=args, daemon=True) for args in zip(workers, lanes, strict=True)]
    try:
        for thread in threads:
            thread.start()
        for _ in cells:
            found = done.get()
            if isinstance(found, BaseException):
                raise EnvironmentFailure(f"a worker of the drill failed: {found}") from found
            yield found
    finally:
        plain.clear()
        spark.clear()
        _end(workers, threads)


def _taken(lanes: Sequence[deque[int]]) -> Iterator[int]:
    """One number after the other, until the lanes are empty; others take from them as well."""
    for lane in lanes:
        while True:
            try:
                yield lane.popleft()
            except IndexError:
                break


def _end(workers: Sequence[CellWorker], threads: Sequence[threading.Thread]) -> None:
    for worker in workers:
        worker.__exit__()
    for thread in threads:
        if thread.ident is not None:
            thread.join(JOIN_S_MAX)

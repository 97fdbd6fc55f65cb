"""What goes wrong in a task, once: rows pass through, and at a chosen number the fault strikes.

A fault waits until part of the micro-batch lies in the output topic, so that there is something to repeat or to undo,
and leaves a file behind, so that the test knows it has struck.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from semel.wire.cluster import shared_cluster
from semel.wire.offsets import LATEST, list_offsets
from semel.wire.settings import WireSettings
from semel.wire.topology import Isolation, TopicPartition
from tests.support.waiting import eventually

SCHEMA = "key binary, value string"
WAIT_S_MAX = 90.0
STAGE_AGAIN = "stage-again"
SECOND_ATTEMPT = "second-attempt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`kind` strikes at the row with this number, when the output holds at least `landed_min` records."""

    kind: str
    number: int
    landed_min: int = 0

    @property
    def mark(self) -> str:
        """The name of the file that it leaves."""
        return f"{self.kind}-{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where it all takes place."""

    folder: str
    bootstrap: str
    output: str
    faults: tuple[Fault, ...]

    def mark(self, name: str) -> bool:
        """Leave a file; False when it was there already."""
        try:
            os.close(os.open(Path(self.folder) / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def marked(self, name: str) -> bool:
        """Whether the file is there."""
        return (Path(self.folder) / name).exists()

    def landed(self) -> int:
        """How many offsets the output topic has, of whatever transaction."""
        cluster = shared_cluster(WireSettings.from_options({"kafka.bootstrap.servers": self.bootstrap}))
        topic = cluster.topics(cluster.deadline(), [self.output])[self.output]
        ends = {TopicPartition(self.output, number): LATEST for number in range(len(topic.partitions))}
        found = list_offsets(cluster, ends, deadline=cluster.deadline(), isolation=Isolation.READ_UNCOMMITTED)
        return sum(row.offset for row in found.values())


def scene_of(settings: Mapping[str, object], folder: str) -> Scene:
    """Read the faults from what a driver program was given."""
    given = settings.get("faults") or []
    assert isinstance(given, list)
    return Scene(
        folder=folder,
        bootstrap=str(settings["bootstrap"]),
        output=str(settings["output"]),
        faults=tuple(Fault(**one) for one in given),
    )


def pass_rows(scene: Scene, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give rows on; in front of a fault's number, strike."""
    by_number = {fault.number: fault for fault in scene.faults}
    for batch in batches:
        numbers = [int(str(text).split(" ", 1)[0]) for text in batch.column("value").to_pylist()]
        given = 0
        for index, number in enumerate(numbers):
            if number in by_number:
                yield batch.slice(given, index - given)
                given = index
                strike(scene, by_number[number])
        yield batch.slice(given)


def strike(scene: Scene, fault: Fault) -> None:
    """Do what the fault is about, the first time it is met."""
    match fault.kind:
        case "slow-task":
            _wait_for_another_attempt(scene, fault)
            return
        case "files-lost":
            _lose_shuffle_files(scene, fault)
            return
    if scene.marked(fault.mark):
        return
    eventually(lambda: scene.landed() >= fault.landed_min, WAIT_S_MAX, what=f"{fault.landed_min} records landed")
    if not scene.mark(fault.mark):
        return
    match fault.kind:
        case "task-fails":
            raise RuntimeError("once")
        case "task-dies":
            os._exit(17)
        case "executor-dies":
            os.kill(executor_pid(), signal.SIGKILL)
            signal.pause()
        case _:
            raise ValueError(fault.kind)


def _wait_for_another_attempt(scene: Scene, fault: Fault) -> None:
    """The first attempt goes on only when a second one has come as far, and when that has written if it does."""
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        scene.mark(SECOND_ATTEMPT)
    eventually(lambda: scene.marked(SECOND_ATTEMPT), WAIT_S_MAX, what="a second attempt comes as far")
    eventually(lambda: scene.landed() >= fault.landed_min, WAIT_S_MAX, what=f"{fault.landed_min} records landed")
    scene.mark(fault.mark)


def _lose_shuffle_files(scene: Scene, fault: Fault) -> None:
    """Of three tasks on two cores: the first to come here waits, the second loses the files, the third finds none.

    So the stage is run again, and the first task goes on when its rows are being written by another one as well.
    """
    waits = f"waits-{fault.number}"
    if scene.mark("first"):
        scene.mark(waits)
        eventually(lambda: scene.marked(STAGE_AGAIN), WAIT_S_MAX, what="Spark runs the stage again")
    elif scene.marked(waits):
        scene.mark(STAGE_AGAIN)
    elif scene.mark(fault.mark):
        found = list(Path(scene.folder).rglob("shuffle_*.data"))
        assert found
        for path in found:
            path.unlink()


def executor_pid() -> int:
    """The JVM that started the daemon which this worker was forked from."""
    daemon = os.getppid()
    ran = subprocess.run(["ps", "-o", "ppid=", "-p", str(daemon)], capture_output=True, text=True, check=True)
    return int(ran.stdout)

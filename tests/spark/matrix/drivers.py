"""Start drivers of their own process (`driver_program.py`), wait for their end, and look at what they left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from semel.sinks.base import ignore_step
from tests.spark.matrix.driver_program import start_query
from tests.spark.matrix.faulty_rows import Fault
from tests.spark.sink_jobs import (
    CLIENT_S_MAX,
    KEYS,
    check_once,
    ledger_of,
    new_topics,
    number_of,
    outcome_of,
    read_all,
)

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).with_name("driver_program.py")
DRIVER_S_MAX = 240
SHOWN_CHARACTERS_MAX = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What came out, held against what went in."""

    lost: int
    doubled: int


@dataclass(slots=True, kw_only=True)
class Driven:
    """A pipeline whose drivers are processes of their own; each may be run again from the same checkpoint."""

    folder: Path
    bootstrap: str
    numbers: range
    settings: dict[str, Any] = field(default_factory=dict)
    replicas: int = 1
    source: str = ""
    output: str = ""

    def __post_init__(self) -> None:
        """Make the topics and fill the source: even numbers in one partition, odd ones in the other."""
        self.source, self.output = new_topics(self.bootstrap, 2, 3, replicas=self.replicas)
        send(self.bootstrap, self.source, self.numbers)

    @property
    def pipeline(self) -> str:
        """The pipeline's name."""
        return f"driven-{self.output}"

    def given(self, **more: Any) -> dict[str, Any]:
        """The settings of a driver."""
        return {
            "bootstrap": self.bootstrap,
            "source": self.source,
            "output": self.output,
            "pipeline": self.pipeline,
            "checkpoint": str(self.folder / "checkpoint"),
            "folder": str(self.folder),
            "partitioning": "keyed",
            "master": "local[2]",
            **self.settings,
            **more,
        }

    def start(self, **more: Any) -> subprocess.Popen[bytes]:
        """Start a driver in a process group of its own."""
        with (self.folder / "driver.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, str(PROGRAM), json.dumps(self.given(**more))],
                start_new_session=True,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=os.environ | {"PYTHONPATH": f"{ROOT}/src:{ROOT}"},
            )

    def drive(self, **more: Any) -> int:
        """Run a driver to its end; its exit status, negative for the signal that ended it."""
        return self.wait(self.start(**more))

    def wait(self, driver: subprocess.Popen[bytes]) -> int:
        """Wait for the end of a driver; what is left of its process group goes with it."""
        try:
            return driver.wait(DRIVER_S_MAX)
        finally:
            kill_group(driver)

    def finish(self, **more: Any) -> None:
        """Run a driver and expect that nothing goes wrong."""
        assert self.drive(**more) == 0, self.log()[-SHOWN_CHARACTERS_MAX:]

    def finish_in(self, spark: SparkSession) -> None:
        """The same in a session that is there: another driver than those before it, without the time to start one."""
        failure = outcome_of(start_query(spark, self.given(), ignore_step))
        assert failure is None, failure

    def log(self) -> str:
        """What all drivers printed."""
        return (self.folder / "driver.log").read_text(errors="replace")

    def struck(self, fault: Fault) -> bool:
        """Whether a fault has struck."""
        return (self.folder / fault.mark).exists()

    def check(self, *, ordered: bool) -> None:
        """Every row once, and every micro-batch in the ledger once."""
        check_once(read_all(self.bootstrap, self.output), self.numbers, ordered=ordered)
        last = ledger_of(self.bootstrap, self.pipeline).last
        assert last is not None
        assert last.number == last.micro_batch_id + 1

    def count(self) -> Counted:
        """How many numbers are missing, and how many records are more than one of their number."""
        seen = Counter(map(number_of, read_all(self.bootstrap, self.output)))
        return Counted(
            lost=sum(not seen[number] for number in self.numbers),
            doubled=sum(seen.values()) - len(seen),
        )


def kill_group(driver: subprocess.Popen[bytes]) -> None:
    """End a driver, its JVM and its workers, if any are left."""
    try:
        os.killpg(driver.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    driver.wait(CLIENT_S_MAX)


def send(bootstrap: str, topic: str, numbers: Iterable[int]) -> None:
    """Send numbered records, even ones to partition 0, odd ones to partition 1; a key stays in one partition."""
    client = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for number in numbers:
        key = number % (2 * KEYS)
        client.produce(topic, key=b"key %d" % key, value=b"%d" % number, partition=number % 2)
    assert client.flush(CLIENT_S_MAX) == 0

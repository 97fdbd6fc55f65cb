"""Whose processor time a piece of work took: Spark's JVM, its Python workers, the broker, the database.

Time on the clock depends on everything else that runs on the machine; processor time hardly does. It also says where a
job spends its effort, which is where it could be made faster.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

JVM, WORKERS, BROKER = "Spark's JVM", "Python workers", "broker"
DRIVER, DATABASE = "driver", "PostgreSQL"
WHOSE = (JVM, WORKERS, BROKER)
WITH_DATABASE = (DRIVER, JVM, WORKERS, DATABASE)
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """One line of /proc: itself, its parent, its own time and that of children which have ended, in seconds."""

    number: int
    parent: int
    own_s: float
    ended_s: float
    command: bytes


def _processes() -> Iterator[Process]:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            # A process that has just ended has no command line any more, but its name and its time.
            command = (entry / "cmdline").read_bytes() or name.encode()
        except OSError:
            continue
        fields = rest.split()
        times = [int(field) / TICKS_PER_S for field in fields[11:15]]
        yield Process(int(entry.name), int(fields[1]), times[0] + times[1], times[2] + times[3], command)


def _descendants(root: int) -> Iterator[Process]:
    by_parent: dict[int, list[Process]] = {}
    for one in _processes():
        by_parent.setdefault(one.parent, []).append(one)
    waiting = [root]
    while waiting:
        for child in by_parent.get(waiting.pop(), []):
            waiting.append(child.number)
            yield child


def used_s(whose: tuple[str, ...] = WHOSE) -> dict[str, float]:
    """Processor seconds so far of everybody that this process has started; workers that have ended count as well.

    "driver" is this process itself.
    """
    found = dict.fromkeys((*WHOSE, DATABASE), 0.0) | {DRIVER: time.process_time()}
    for one in _descendants(os.getpid()):
        if b"kafka.Kafka" in one.command:
            found[BROKER] += one.own_s
        elif one.command.startswith(b"postgres") or b"bin/postgres\0" in one.command:
            # Each session is a process; the server collects the time of those that have ended.
            found[DATABASE] += one.own_s + one.ended_s
        elif b"org.apache.spark.deploy.SparkSubmit" in one.command:
            found[JVM] += one.own_s
            found[WORKERS] += one.ended_s
        elif b"pyspark" in one.command or b"semel.spark" in one.command:
            found[WORKERS] += one.own_s + one.ended_s
    return {name: found[name] for name in whose}

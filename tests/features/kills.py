"""Kill copying processes at chosen or random steps, let a last one finish, and count what came out."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest

from semel.guarantee import Guarantee
from tests.features.clusters import Kafka, lost, repeated
from tests.features.copy_worker import Job, job_line
from tests.support.waiting import is_readable

ROOT = Path(__file__).resolve().parents[2]
ANSWER_S_MAX = 60
KILLED = -9


class Workers:
    """The process that forks copying children."""

    def __init__(self) -> None:
        """Start it."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.features.copy_worker"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def run(self, job: Job) -> int:
        """Run one child to its end; 0 is done, -9 killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(job_line(job))
        assert is_readable(self._process.stdout, ANSWER_S_MAX), f"a child neither ends nor dies: {job}"
        code = int(self._process.stdout.readline())
        assert code in (0, KILLED), f"a child failed: {job}"
        return code

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(ANSWER_S_MAX)


@pytest.fixture(scope="package")
def workers() -> Iterator[Workers]:
    started = Workers()
    yield started
    started.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to copy records."""

    name: str
    guarantee: Guarantee
    to_store: bool = False
    offsets_apart: bool = False
    steps: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


WAYS = (
    Way(
        name="at most once",
        guarantee=Guarantee.AT_MOST_ONCE,
        steps=("polled", "committed-before", "sent", "processed"),
    ),
    Way(
        name="at least once",
        guarantee=Guarantee.AT_LEAST_ONCE,
        steps=("polled", "sent", "processed", "committed-after"),
    ),
    Way(
        name="exactly once, transaction",
        guarantee=Guarantee.EXACTLY_ONCE,
        steps=("polled", "begun", "sent", "processed", "offsets-sent", "committing", "committed"),
    ),
    Way(
        name="exactly once, store",
        guarantee=Guarantee.EXACTLY_ONCE,
        to_store=True,
        steps=("polled", "begun", "sent", "processed", "offsets-sent", "committing", "committed"),
    ),
)

OFFSETS_APART = Way(
    name="transactions with the offsets apart",
    guarantee=Guarantee.EXACTLY_ONCE,
    offsets_apart=True,
    steps=("committed",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Toll:
    """What the kills did."""

    kills: int
    records: int
    lost: int
    repeated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copying:
    """One source and target, copied by one process after the other."""

    kafka: Kafka
    workers: Workers
    way: Way
    folder: Path

    def run(self, deaths: Iterable[tuple[int, str]], *, records: int) -> Toll:
        """Die as told, then finish; each death is the count of a step and the step's name, or any step."""
        source, target = self.kafka.topic(2), self.kafka.topic(2)
        wanted = self.kafka.fill(source, records)
        if self.way.guarantee is Guarantee.AT_MOST_ONCE:
            self.kafka.commit_start(source, source, 2)
        ends, kills = self.kafka.ends(source), 0
        for kill_at, step in (*deaths, (0, "")):
            job = self._job(source, target)
            kills += self.workers.run(replace(job, kill_at=kill_at, kill_step=step, ends=ends)) == KILLED
        found = self._found(target)
        return Toll(kills=kills, records=records, lost=lost(wanted, found), repeated=repeated(found))

    def _job(self, source: str, target: str) -> Job:
        return Job(
            guarantee=self.way.guarantee,
            bootstrap=self.kafka.bootstrap,
            source=source,
            target=target,
            group=source,
            offsets_apart=self.way.offsets_apart,
            store=str(self.folder / "results.db") if self.way.to_store else "",
        )

    def _found(self, target: str) -> Counter[str]:
        if not self.way.to_store:
            return self.kafka.counts(target)
        connection = sqlite3.connect(self.folder / "results.db")
        found = Counter(str(line) for (line,) in connection.execute("SELECT line FROM results"))
        connection.close()
        return found


def random_deaths(seed: int, count: int) -> list[tuple[int, str]]:
    """Anywhere in the first three batches of a life."""
    rng = Random(seed)
    return [(rng.randint(1, 25), "") for _ in range(count)]

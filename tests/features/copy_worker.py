"""A process that copies records from topic to topic with semel's clients, and kills itself at a chosen step.

`python -m tests.features.copy_worker` reads one job a line (JSON) and forks a child for each; the child's end is one
line of answer. So a job costs a fork, not a start of Python, and each has threads and sockets of its own to lose.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import NoReturn

import semel
from semel.clients import consumer as _consumer  # noqa: F401 - imported before the fork
from semel.clients import producer as _producer  # noqa: F401
from semel.clients.library import confluent
from semel.clients.records import Batch
from semel.guarantee import Guarantee

PROCESSED = "processed"
SENT = "sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a child does, and when it dies: at its `kill_at`-th step, or never when that is 0."""

    guarantee: str
    bootstrap: str
    source: str
    target: str
    group: str
    store: str = ""
    offsets_apart: bool = False  # the offsets are not in the producer's transaction
    kill_at: int = 0
    kill_step: str = ""  # count only steps of this name
    batch_records: int = 4
    ends: tuple[int, ...] = ()  # where the source's partitions end
    idle_ms_max: int = 4000


class KillAtStep:
    """Counts steps, and ends the process at the chosen one."""

    def __init__(self, job: Job) -> None:
        self._left, self._name = job.kill_at, job.kill_step

    def __call__(self, step: str) -> None:
        if self._name and step != self._name:
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Remaining:
    """Knows when the source is read to its end, so that nobody has to wait for nothing to come."""

    def __init__(self, job: Job) -> None:
        self._left = set(enumerate(job.ends))

    def is_over(self, batch: Batch) -> bool:
        self._left -= {(place.partition, offset) for place, offset in batch.offsets.items()}
        return not self._left


def settings(job: Job) -> dict[str, object]:
    """A static member: its successor takes its place at once instead of waiting for the session to end."""
    return {"group.instance.id": f"{job.group}-worker", "session.timeout.ms": 6000, "fetch.wait.max.ms": 20}


def copy_weakly(job: Job, step: Callable[[str], None]) -> None:
    """At most once or at least once: the consumer decides when it commits."""
    guarantee, remaining = Guarantee(job.guarantee), Remaining(job)
    with (
        semel.Producer(job.bootstrap, guarantee=guarantee, settings={"linger.ms": 0}) as producer,
        semel.Consumer(
            job.bootstrap, [job.source], group=job.group, guarantee=guarantee, settings=settings(job), on_step=step
        ) as consumer,
    ):
        for batch in consumer.batches(records_max=job.batch_records, idle_ms_max=job.idle_ms_max):
            for record in batch:
                producer.send(job.target, record.value).result()
                step(SENT)
            step(PROCESSED)
            if remaining.is_over(batch):
                if guarantee is Guarantee.AT_LEAST_ONCE:
                    consumer.commit()
                break


def copy_in_transactions(job: Job, step: Callable[[str], None]) -> None:
    """Exactly once: offsets in the producer's transaction."""
    remaining = Remaining(job)
    producer = semel.Producer(
        job.bootstrap,
        guarantee=Guarantee.EXACTLY_ONCE,
        transactional_id=job.group,
        settings={"linger.ms": 0},
        on_step=step,
    )
    with semel.Consumer(
        job.bootstrap,
        [job.source],
        group=job.group,
        guarantee=Guarantee.AT_LEAST_ONCE if job.offsets_apart else Guarantee.EXACTLY_ONCE,
        settings=settings(job),
        on_step=step,
    ) as consumer:
        for batch in consumer.batches(records_max=job.batch_records, idle_ms_max=job.idle_ms_max):
            with producer.transaction() as tx:
                for record in batch:
                    tx.send(job.target, record.value)
                    step(SENT)
                step(PROCESSED)
                if not job.offsets_apart:
                    tx.commit_offsets(consumer)
            if remaining.is_over(batch):
                break
    producer.close()


def copy_to_store(job: Job, step: Callable[[str], None]) -> None:
    """Exactly once: offsets in the store's transaction."""
    remaining = Remaining(job)
    with (
        semel.SqliteStore(job.store, on_step=step) as store,
        semel.Consumer(
            job.bootstrap,
            [job.source],
            group=job.group,
            guarantee=Guarantee.EXACTLY_ONCE,
            store=store,
            settings=settings(job),
            on_step=step,
        ) as consumer,
    ):
        store.make("CREATE TABLE IF NOT EXISTS results (line text)")
        for batch in consumer.batches(records_max=job.batch_records, idle_ms_max=job.idle_ms_max):
            with store.transaction(batch) as t:
                for record in batch:
                    t.execute("INSERT INTO results VALUES (?)", [(record.value or b"").decode()])
                    step(SENT)
                step(PROCESSED)
            if remaining.is_over(batch):
                break


def run(job: Job) -> None:
    """Do the job until nothing comes any more."""
    at_step = KillAtStep(job)
    if job.store:
        copy_to_store(job, at_step)
    elif job.guarantee == Guarantee.EXACTLY_ONCE:
        copy_in_transactions(job, at_step)
    else:
        copy_weakly(job, at_step)


def child(job: Job) -> NoReturn:
    """Never returns into the server's loop."""
    try:
        run(job)
    except BaseException as error:  # noqa: BLE001 - told to whoever started us, then the process ends
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(3)
    os._exit(0)


def serve() -> None:
    """Fork a child for each line; 0 is done, -9 killed, 3 failed."""
    confluent()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            child(Job(**json.loads(line)))
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def job_line(job: Job) -> str:
    """As the server reads it."""
    return json.dumps(asdict(job)) + "\n"


if __name__ == "__main__":
    serve()

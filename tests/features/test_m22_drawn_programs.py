"""M22 Programs drawn by chance: a worker is left, interrupted, rebalanced, cancelled or killed at any record.

At any record, too, an operator restores a backup of the store, or deletes the topic and creates it again, or the work
fails and the topic is compacted before it is read again. Each program is a list of lives of one worker, each with an
act at one record; then the worker is left in peace until all is done. What came out is counted by a reader of its own:
the database, the topic, the list of what was processed. Of a compacted topic the newest value of each key must be
there, and older ones may be missing.

Keeps: K4 an unfinished record is neither counted as done nor skipped; K5 a partition that was taken away takes its
       offsets along; K6 under exactly once results and offsets of a batch go together; K10 an offset that was read
       from one topic is not taken for one of another topic of the same name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import semel
from semel.clients.producer import Transactional
from semel.engine.postgres import PostgresServer
from tests.features.clusters import SETTINGS, Kafka
from tests.features.drawn_lives import run, run_async
from tests.features.drawn_programs import (
    ACTS,
    EXACTLY,
    LEAST,
    MOST,
    POSTGRES,
    RECORDS,
    SQLITE,
    TRANSACTION,
    Life,
    Program,
)

CLEANER = {"log.cleaner.backoff.ms": "20"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedServers:
    """What all programs share, for it takes long to make."""

    kafka: Kafka
    producers: dict[str, semel.Producer[Transactional]]
    runner: asyncio.Runner
    task_producer: semel.AsyncProducer[Transactional]
    filler: Producer
    conninfo: str


@pytest.fixture(scope="module")
def shared(postgres: PostgresServer) -> Iterator[SharedServers]:
    with semel.Cluster(brokers=1, config=SETTINGS | CLEANER) as cluster, ExitStack() as stack:
        kafka = Kafka(name="embedded", bootstrap=cluster.bootstrap)
        producers = {
            name: stack.enter_context(
                semel.Producer(kafka.bootstrap, guarantee=EXACTLY, transactional_id=name, settings={"linger.ms": 0})
            )
            for name in ("one", "two")
        }
        runner = stack.enter_context(asyncio.Runner())
        tasks = semel.AsyncProducer(kafka.bootstrap, guarantee=EXACTLY, transactional_id="t", settings={"linger.ms": 0})
        runner.run(tasks.__aenter__())
        filler = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0, "log_level": 0})
        yield SharedServers(
            kafka=kafka,
            producers=producers,
            runner=runner,
            task_producer=tasks,
            filler=filler,
            conninfo=postgres.conninfo,
        )
        runner.run(tasks.close())


def judge(shared: SharedServers, kind: str, lives: list[Life], *, in_a_task: bool) -> None:
    kafka = shared.kafka
    topic = kafka.topic()
    target = kafka.topic() if kind == TRANSACTION else ""
    with ExitStack() as folder_and_stores:
        folder = folder_and_stores.enter_context(TemporaryDirectory())
        program = Program(
            kind=kind,
            kafka=kafka,
            topic=topic,
            target=target,
            path=Path(folder) / "s.db",
            conninfo=shared.conninfo,
            producers=shared.producers,
            task_producer=shared.task_producer,
        )
        folder_and_stores.callback(program.stores.close)
        program.fill(shared.filler, "")
        kafka.commit_start(topic, topic)
        program.prepare()
        if in_a_task:
            shared.runner.run(run_async(program, lives))
        else:
            run(program, lives)
        found = program.results()
    assert set(found) <= program.written
    if kind != MOST:
        assert set(found) >= set(program.wanted.values()), "something was lost"
    if kind != LEAST:
        assert max(found.values(), default=1) == 1, "something was repeated"


def programs(*, lives_max: int, examples_max: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Draw kinds of workers and their lives."""
    life = st.builds(Life, st.sampled_from(ACTS), st.integers(0, RECORDS - 1))
    drawn = given(
        kind=st.sampled_from((SQLITE, TRANSACTION, POSTGRES, LEAST, MOST)),
        lives=st.lists(life, min_size=1, max_size=lives_max),
        in_a_task=st.booleans(),
    )
    return lambda test: settings(suppress_health_check=list(HealthCheck), max_examples=examples_max)(drawn(test))


@programs(lives_max=2, examples_max=30)
def test_drawn_programs_keep_their_guarantee(
    shared: SharedServers, kind: str, lives: list[Life], in_a_task: bool
) -> None:
    judge(shared, kind, lives, in_a_task=in_a_task)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@programs(lives_max=4, examples_max=500)
def test_many_drawn_programs_keep_their_guarantee(
    shared: SharedServers, kind: str, lives: list[Life], in_a_task: bool
) -> None:
    judge(shared, kind, lives, in_a_task=in_a_task)

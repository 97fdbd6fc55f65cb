"""A consumer is cut off by Ctrl-C, a callback that raises, or a `close` from elsewhere; the program goes on, or ends.

Keeps: K4 an unfinished record is neither counted as done nor skipped.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

import semel
from semel.clients.library import fork_refusal
from semel.clients.topic_lives import TopicLives
from semel.errors import ConfigError
from semel.guarantee import Guarantee
from tests.features.clusters import SETTINGS, Kafka
from tests.features.storing import InTasks, Reads
from tests.unit.clients.messages import A, batch

LEAST: Final = Guarantee.AT_LEAST_ONCE
EXACTLY: Final = Guarantee.EXACTLY_ONCE
QUICK = {"fetch.wait.max.ms": 20, "log_level": 0}
CUT = ("consumer.py", "membership.py", "fetched.py", "batch_reader.py", "progress.py")
SOON_S = 5.0


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with semel.Cluster(brokers=1, config=SETTINGS) as cluster:
        yield Kafka(name="embedded", bootstrap=cluster.bootstrap)


def cut_off_at(line: int) -> Callable[[FrameType, str, object], Any]:
    """A trace function that raises at the line of this number, of those that a poll runs."""
    passed = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal passed
        if not frame.f_code.co_filename.endswith(CUT):
            return None
        if event == "line":
            passed += 1
            if passed == line:
                raise KeyboardInterrupt
        return trace

    return trace


@pytest.mark.quick(1)
def test_an_interrupt_at_any_line_loses_nothing_and_doubles_nothing(kafka: Kafka, tmp_path: Path) -> None:
    topic, interrupts, line = kafka.topic(2), 0, 0
    store = semel.SqliteStore(tmp_path / "s.db")
    store.make("CREATE TABLE results (value text)")
    lines = range(2, 160, 3)
    consumer = semel.Consumer(kafka.bootstrap, [topic], group=topic, guarantee=EXACTLY, settings=QUICK, store=store)
    with consumer, semel.Producer(kafka.bootstrap, guarantee=LEAST) as producer:
        for line in lines:
            for partition in range(2):
                producer.send(topic, f"{line}-{partition}", partition=partition).result()
            before = sys.gettrace()
            sys.settrace(cut_off_at(line))
            try:
                for found in consumer.batches(records_max=1, idle_ms_max=100):
                    with store.transaction(found) as t:
                        t.execute("INSERT INTO results VALUES (?)", [str((found[0].value or b"").decode())])
            except KeyboardInterrupt:
                interrupts += 1
            finally:
                sys.settrace(before)
        for found in consumer.batches(idle_ms_max=1_000):
            with store.transaction(found) as t:
                t.executemany("INSERT INTO results VALUES (?)", [[(one.value or b"").decode()] for one in found])
    with closing(store.connect()) as connection:
        results = [value for (value,) in connection.execute("SELECT value FROM results").fetchall()]
    store.close()
    assert interrupts > len(lines) / 2
    assert sorted(results) == sorted(f"{line}-{partition}" for line in lines for partition in range(2))


@pytest.mark.parametrize("callback", ["on_commit", "stats_cb"])
@pytest.mark.parametrize("tasks", [False, True], ids=["threads", "tasks"])
def test_a_callback_that_raises_is_told_and_loses_nothing(kafka: Kafka, callback: str, tasks: bool) -> None:
    topic, raised, values, calls = kafka.topic(), 0, list[int](), 0

    def fail_sometimes(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls < 20 and calls % 3 == 0:
            raise ZeroDivisionError

    settings = {**QUICK, callback: fail_sometimes, "statistics.interval.ms": 20}
    consumer: Reads
    if tasks:
        consumer = InTasks(
            semel.AsyncConsumer(kafka.bootstrap, [topic], group=topic, guarantee=LEAST, settings=settings)
        )
    else:
        consumer = semel.Consumer(kafka.bootstrap, [topic], group=topic, guarantee=LEAST, settings=settings)
    filled, records = threading.Thread(target=fill_slowly, args=(kafka, topic)), 1_000
    filled.start()
    deadline = time.monotonic() + 60
    while len(set(values)) < records and time.monotonic() < deadline:
        try:
            for found in consumer.batches(records_max=20, idle_ms_max=2_000):
                values += [int(value or b"") for value in found.values()]
        except ZeroDivisionError:
            raised += 1
    filled.join()
    began = time.monotonic()
    consumer.close()
    assert time.monotonic() - began < SOON_S
    assert raised
    assert sorted(set(values)) == list(range(records))


def fill_slowly(kafka: Kafka, topic: str) -> None:
    with semel.Producer(kafka.bootstrap, guarantee=LEAST) as producer:
        for number in range(1_000):
            producer.send(topic, str(number))
            if number % 50 == 0:
                producer.flush()
                time.sleep(0.02)


def test_another_thread_closes_a_consumer_that_waits_for_records(kafka: Kafka) -> None:
    topic, ends = kafka.topic(), list[BaseException]()
    consumer = semel.Consumer(kafka.bootstrap, [topic], group=topic, guarantee=LEAST, settings=QUICK)

    def loop() -> None:
        try:
            list(consumer.batches())
        except ConfigError as error:
            ends.append(error)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    time.sleep(0.5)
    began = time.monotonic()
    assert consumer.assignment is not None, "who only asks gets a turn as well"
    consumer.close()
    thread.join(SOON_S)
    assert not thread.is_alive()
    assert time.monotonic() - began < SOON_S
    assert "this consumer is closed" in str(ends[0])


@pytest.mark.parametrize("program", ["loop", "commit"])
def test_a_signal_closes_the_consumer_whose_call_it_interrupts(
    kafka: Kafka, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic()
    kafka.fill(topic, 1)
    consumer = semel.Consumer(kafka.bootstrap, [topic], group=topic, guarantee=LEAST, settings=QUICK)
    before = signal.signal(signal.SIGALRM, lambda *_: consumer.close())
    try:
        batches = consumer.batches()
        next(batches)
        if program == "loop":
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(ConfigError, match="this consumer is closed"):
                next(batches)
        else:
            ask = consumer._member.commits._ask

            def interrupted(*given: Any) -> None:
                signal.raise_signal(signal.SIGALRM)
                ask(*given)

            monkeypatch.setattr(consumer._member.commits, "_ask", interrupted)
            consumer.commit()  # it was made, so that it has no error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert consumer._member._closing, "the group is left"
    assert kafka.committed(topic, topic) == 1
    consumer.close()


def test_tasks_close_a_consumer_that_waits_for_records(kafka: Kafka) -> None:
    topic = kafka.topic()

    async def work() -> float:
        consumer = semel.AsyncConsumer(kafka.bootstrap, [topic], group=topic, guarantee=LEAST, settings=QUICK)
        async with consumer:
            waits = asyncio.create_task(anext(consumer.batches()))
            await asyncio.sleep(0.5)
            began = time.monotonic()
            await consumer.close()
            with pytest.raises(ConfigError, match="this consumer is closed"):
                await waits
            return time.monotonic() - began

    assert asyncio.run(work()) < SOON_S


@pytest.mark.parametrize("with_store", [False, True], ids=["transaction", "store"])
def test_the_batch_of_a_parent_goes_into_nothing_of_its_child(
    with_store: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = semel.SqliteStore(tmp_path / "s.db") if with_store else None
    consumer = semel.Consumer("127.0.0.1:1", ["t"], group="g", guarantee=EXACTLY, store=store, settings=QUICK)
    consumer._progress.hand_out(batch((A, 5)))
    # As if the topics had been asked for a moment ago, which needs no answer of the cluster.
    monkeypatch.setattr(TopicLives, "confirm", lambda *_, **__: None)
    consumer._ended = fork_refusal("consumer")  # as a fork sets it
    commit = consumer.confirm_topics if with_store else partial(consumer.offsets_for_transaction, object())
    with pytest.raises(ConfigError, match="was made in another process"):
        commit()
    consumer._ended = None
    consumer.close()

"""M20 Both group protocols, and callbacks of the user's own beside semel's.

Keeps: K4 an unfinished record is neither counted as done nor skipped; K5 a partition that was taken away takes its
       offsets along.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import semel
from semel.guarantee import Guarantee
from tests.features.clusters import Kafka
from tests.support.sqlite import ask
from tests.support.waiting import eventually

RECORDS, TRIES_MAX = 40, 300
PROTOCOLS = ("classic", "consumer")


def consumer_of(kafka: Kafka, topic: str, protocol: str, guarantee: str, **options: Any) -> semel.Consumer:
    settings = {"group.protocol": protocol, "fetch.wait.max.ms": 20, "log_level": 0}
    return semel.Consumer(kafka.bootstrap, [topic], group=topic, guarantee=guarantee, settings=settings, **options)


@pytest.mark.full
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_second_member_takes_over_half_and_every_record_comes_once(
    kafka: Kafka, tmp_path: Path, protocol: str
) -> None:
    topic, over = kafka.topic(4), threading.Event()
    wanted = kafka.fill(topic, RECORDS, keyed=True)

    def work(consumer: semel.Consumer, store: semel.SqliteStore) -> None:
        while not over.is_set():
            for batch in consumer.batches(records_max=3, idle_ms_max=200):
                with store.transaction(batch) as t:
                    for record in batch:
                        t.execute("INSERT INTO results VALUES (?)", [(record.value or b"").decode()])

    with ExitStack() as stack:
        stores = [stack.enter_context(semel.SqliteStore(tmp_path / "s.db")) for _ in range(2)]
        stores[0].make("CREATE TABLE results (line text)")
        members = [
            stack.enter_context(consumer_of(kafka, topic, protocol, "exactly_once", store=store)) for store in stores
        ]
        threads = [threading.Thread(target=work, args=pair) for pair in zip(members, stores, strict=True)]
        for thread in threads:
            thread.start()

        def found() -> list[str]:
            return sorted((line for (line,) in ask(tmp_path / "s.db", "SELECT line FROM results")), key=int)

        try:
            eventually(lambda: all(member.assignment for member in members), 60, what="both have partitions")
            wanted += kafka.fill(topic, RECORDS, keyed=True)
            eventually(lambda: len(found()) >= 2 * RECORDS, 60, what="everything was read")
        finally:
            over.set()
            for thread in threads:
                thread.join(60)
    assert found_lines(tmp_path) == sorted(wanted, key=int)


def found_lines(folder: Path) -> list[str]:
    return sorted((line for (line,) in ask(folder / "s.db", "SELECT line FROM results")), key=int)


@pytest.mark.quick(2)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_user_s_on_commit_hears_of_every_commit(kafka: Kafka, protocol: str) -> None:
    topic, heard = kafka.topic(), list[int]()
    kafka.fill(topic, 10)
    settings = {
        "group.protocol": protocol,
        "on_commit": lambda _, places: heard.extend(one.offset for one in places),
        "fetch.wait.max.ms": 20,
        "log_level": 0,
    }
    with semel.Consumer(
        kafka.bootstrap, [topic], group=topic, guarantee=Guarantee.AT_LEAST_ONCE, settings=settings
    ) as consumer:

        def is_heard() -> bool:
            """Commits are answered while more is asked for."""
            for _ in consumer.batches(records_max=2, idle_ms_max=100):
                pass
            return 10 in heard

        eventually(is_heard, 60, what="the last commit was told")
    assert kafka.committed(topic, topic) == 10
    assert len(heard) > 1


@pytest.mark.full
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_tasks_have_both_protocols_and_their_callback(kafka: Kafka, protocol: str) -> None:
    topic, heard = kafka.topic(), list[int]()
    kafka.fill(topic, 10)
    settings = {
        "group.protocol": protocol,
        "on_commit": lambda _, places: heard.extend(one.offset for one in places),
        "fetch.wait.max.ms": 20,
        "log_level": 0,
    }

    async def main() -> None:
        async with semel.AsyncConsumer(
            kafka.bootstrap, [topic], group=topic, guarantee=Guarantee.AT_LEAST_ONCE, settings=settings
        ) as consumer:
            for _ in range(TRIES_MAX):
                async for _ in consumer.batches(records_max=2, idle_ms_max=100):
                    pass
                if 10 in heard:
                    return
        raise AssertionError(f"the last commit was not told: {heard}")

    asyncio.run(main())
    assert kafka.committed(topic, topic) == 10
    assert len(heard) > 1

"""semel's clients beside bare confluent-kafka with the same settings, on one embedded broker in its own process.

A ratio is semel's rate over the bare library's in the same round, more is better: median (smallest .. largest). The
bare loops are what somebody writes who wants to know what became of a record: a delivery report for each send, a look
at each message's error, offsets committed behind each batch. Records have 100 bytes. "results kept" holds on to the
report of every record until the end and looks at it then: semel's Delivery with its place and time, the library's
message with its offset. It has no target.

"copy" is consume, process, produce in transactions of up to a thousand records, offsets included; both have reports of
failures only, to say why a transaction failed. "store" is what it costs to keep offsets in an SQLite file with the
results, against a loop that keeps only the results there.
"""

from __future__ import annotations

import gc
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

import semel
from bench.measure.librdkafka import WAIT_S_MAX, check_log_end, fresh_topic
from bench.measure.rounds import Figures, Options, Samples, Spread, print_table, ratio, run_rounds, write_json
from bench.measure.servers import EmbeddedServer
from semel.clients.setting_names import Role
from semel.clients.settings import client_settings
from semel.errors import EnvironmentFailure
from semel.guarantee import Guarantee

RECORDS = 400_000
QUICK_SHARE = 20
CHUNK = 1_000
VALUE = b"s" * 100
SEMEL, BARE = "semel", "bare confluent-kafka"
TARGET = 0.9
KEPT = "send, results kept"
TUNED = {"linger.ms": 5, "queue.buffering.max.messages": 1_000_000}
READING = {"fetch.wait.max.ms": 50, "queued.min.messages": 200_000}


def settings_of(role: Role, guarantee: Guarantee, bootstrap: str, **given: object) -> dict[str, Any]:
    """What semel would set, for the bare library."""
    named = {name.replace("_", "."): value for name, value in given.items()}
    return client_settings(role, guarantee, bootstrap, named | (TUNED if role is Role.PRODUCER else READING))


def send_bare(bootstrap: str, topic: str, guarantee: Guarantee, records: int) -> float:
    """Produce with a delivery report each; what a careful user keeps of them is a count and the errors."""
    producer = Producer(settings_of(Role.PRODUCER, guarantee, bootstrap))
    delivered, errors = 0, list[KafkaError]()

    def report(error: KafkaError | None, _: Message) -> None:
        nonlocal delivered
        if error is None:
            delivered += 1
        else:
            errors.append(error)

    producer.produce(topic, VALUE, on_delivery=report)
    producer.flush(WAIT_S_MAX)
    began = time.perf_counter()
    for number in range(records):
        producer.produce(topic, VALUE, on_delivery=report)
        if not number % CHUNK:
            producer.poll(0)
    producer.flush(WAIT_S_MAX)
    taken = time.perf_counter() - began
    if errors or delivered != records + 1:
        raise EnvironmentFailure(f"{delivered} of {records + 1} records were delivered")
    return records / taken


def send_semel(bootstrap: str, topic: str, guarantee: Guarantee, records: int) -> float:
    """The same: flush raises when a record failed that nobody looked at."""
    with semel.Producer(bootstrap, guarantee=guarantee, settings=TUNED) as producer:
        producer.send(topic, VALUE).result()
        began = time.perf_counter()
        for _ in range(records):
            producer.send(topic, VALUE)
        producer.flush(WAIT_S_MAX)
        return records / (time.perf_counter() - began)


def send_and_keep(bootstrap: str, topic: str, guarantee: Guarantee, records: int) -> float:
    """Hold on to every result."""
    with semel.Producer(bootstrap, guarantee=guarantee, settings=TUNED) as producer:
        producer.send(topic, VALUE).result()
        began = time.perf_counter()
        sent = [producer.send(topic, VALUE) for _ in range(records)]
        producer.flush(WAIT_S_MAX)
        offsets = {one.result().offset for one in sent}
        taken = time.perf_counter() - began
    if len(offsets) != records:
        raise EnvironmentFailure(f"{len(offsets)} of {records} records were delivered")
    return records / taken


def keep_bare(bootstrap: str, topic: str, guarantee: Guarantee, records: int) -> float:
    """Hold on to every message."""
    producer = Producer(settings_of(Role.PRODUCER, guarantee, bootstrap))
    kept = list[tuple[KafkaError | None, Message]]()

    def report(error: KafkaError | None, message: Message) -> None:
        kept.append((error, message))

    producer.produce(topic, VALUE)
    producer.flush(WAIT_S_MAX)
    began = time.perf_counter()
    for number in range(records):
        producer.produce(topic, VALUE, on_delivery=report)
        if not number % CHUNK:
            producer.poll(0)
    producer.flush(WAIT_S_MAX)
    offsets = {message.offset() for error, message in kept if error is None}
    taken = time.perf_counter() - began
    if len(offsets) != records:
        raise EnvironmentFailure(f"{len(offsets)} of {records} records were delivered")
    return records / taken


def read_bare(bootstrap: str, topic: str, records: int) -> float:
    """Consume at least once: errors looked at, values taken, offsets committed behind each batch."""
    given = settings_of(Role.CONSUMER, Guarantee.AT_LEAST_ONCE, bootstrap, group_id=f"{topic}-bare")
    consumer = Consumer(given)
    consumer.subscribe([topic])
    got, began, taken_bytes = 0, 0.0, 0
    while got < records:
        messages = consumer.consume(CHUNK, 0) or consumer.consume(1, 0.1)
        began = began or (time.perf_counter() if messages else 0.0)
        for message in messages:
            if message.error() is not None:
                raise EnvironmentFailure(str(message.error()))
            taken_bytes += len(message.value() or b"")
        got += len(messages)
        if messages:
            last = messages[-1]
            place = TopicPartition(topic, last.partition() or 0, (last.offset() or 0) + 1)
            consumer.commit(offsets=[place], asynchronous=True)
    rate = got / (time.perf_counter() - began)
    consumer.close()
    return rate


def read_semel(bootstrap: str, topic: str, records: int) -> float:
    """The same with semel.Consumer."""
    got, began, taken_bytes = 0, 0.0, 0
    with semel.Consumer(
        bootstrap, [topic], group=f"{topic}-semel", guarantee=Guarantee.AT_LEAST_ONCE, settings=READING
    ) as consumer:
        for batch in consumer.batches(records_max=CHUNK):
            began = began or time.perf_counter()
            for value in batch.values():
                taken_bytes += len(value or b"")
            got += len(batch)
            if got >= records:
                break
        return got / (time.perf_counter() - began)


def copy_bare(bootstrap: str, topic: str, target: str, records: int) -> float:
    """Consume, process, produce by hand."""
    consumer = Consumer(settings_of(Role.CONSUMER, Guarantee.EXACTLY_ONCE, bootstrap, group_id=f"{topic}-copy-bare"))
    given = settings_of(Role.PRODUCER, Guarantee.EXACTLY_ONCE, bootstrap, transactional_id=f"{topic}-bare")
    errors: list[KafkaError] = []
    producer = Producer({**given, "delivery.report.only.error": True, "on_delivery": lambda e, _: errors.append(e)})
    producer.init_transactions(WAIT_S_MAX)
    consumer.subscribe([topic])
    got, began = 0, 0.0
    while got < records:
        messages = consumer.consume(CHUNK, 0) or consumer.consume(1, 0.1)
        if not messages:
            continue
        began = began or time.perf_counter()
        producer.begin_transaction()
        for message in messages:
            if message.error() is not None:
                raise EnvironmentFailure(str(message.error()))
            producer.produce(target, message.value())
        place = TopicPartition(topic, messages[-1].partition() or 0, (messages[-1].offset() or 0) + 1)
        producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), WAIT_S_MAX)
        producer.commit_transaction(WAIT_S_MAX)
        got += len(messages)
    rate = got / (time.perf_counter() - began)
    consumer.close()
    return rate


def copy_semel(bootstrap: str, topic: str, target: str, records: int) -> float:
    """The same with semel's classes."""
    got, began = 0, 0.0
    with (
        semel.Producer(
            bootstrap, guarantee=Guarantee.EXACTLY_ONCE, transactional_id=f"{topic}-semel", settings=TUNED
        ) as producer,
        semel.Consumer(
            bootstrap, [topic], group=f"{topic}-copy-semel", guarantee=Guarantee.EXACTLY_ONCE, settings=READING
        ) as consumer,
    ):
        for batch in consumer.batches(records_max=CHUNK):
            began = began or time.perf_counter()
            with producer.transaction() as tx:
                for value in batch.values():
                    tx.send(target, value)
                tx.commit_offsets(consumer)
            got += len(batch)
            if got >= records:
                break
        return got / (time.perf_counter() - began)


@contextmanager
def fresh_folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as folder:
        yield Path(folder)


def store_bare(bootstrap: str, topic: str, records: int) -> float:
    """Results in SQLite, offsets in the group: at least once."""
    consumer = Consumer(settings_of(Role.CONSUMER, Guarantee.AT_LEAST_ONCE, bootstrap, group_id=f"{topic}-store-bare"))
    consumer.subscribe([topic])
    got, began = 0, 0.0
    with fresh_folder() as folder:
        database = sqlite3.connect(folder / "results.db", isolation_level=None)
        database.execute("CREATE TABLE results (line blob)")
        while got < records:
            messages = consumer.consume(CHUNK, 0) or consumer.consume(1, 0.1)
            if not messages:
                continue
            began = began or time.perf_counter()
            database.execute("BEGIN IMMEDIATE")
            for message in messages:
                database.execute("INSERT INTO results VALUES (?)", [message.value()])
            database.execute("COMMIT")
            place = TopicPartition(topic, messages[-1].partition() or 0, (messages[-1].offset() or 0) + 1)
            consumer.commit(offsets=[place], asynchronous=True)
            got += len(messages)
        rate = got / (time.perf_counter() - began)
        database.close()
    consumer.close()
    return rate


def store_semel(bootstrap: str, topic: str, records: int) -> float:
    """Results and offsets in SQLite: exactly once."""
    got, began = 0, 0.0
    with (
        fresh_folder() as folder,
        semel.SqliteStore(folder / "results.db") as store,
        semel.Consumer(
            bootstrap,
            [topic],
            group=f"{topic}-store-semel",
            guarantee=Guarantee.EXACTLY_ONCE,
            store=store,
            settings=READING,
        ) as consumer,
    ):
        store.make("CREATE TABLE results (line blob)")
        for batch in consumer.batches(records_max=CHUNK):
            began = began or time.perf_counter()
            with store.transaction(batch) as t:
                for value in batch.values():
                    t.execute("INSERT INTO results VALUES (?)", [value])
            got += len(batch)
            if got >= records:
                break
        return got / (time.perf_counter() - began)


def run_once(bootstrap: str, who: str, records: int) -> Figures:
    """Every row for one of the two."""
    is_semel = who == SEMEL
    send: Callable[..., float] = send_semel if is_semel else send_bare
    figures: dict[str, float] = {}
    with fresh_topic(bootstrap) as topic, fresh_topic(bootstrap) as other, fresh_topic(bootstrap) as target:
        figures["send, at least once"] = send(bootstrap, other, Guarantee.AT_LEAST_ONCE, records)
        keep = send_and_keep if is_semel else keep_bare
        figures[KEPT] = keep(bootstrap, other, Guarantee.EXACTLY_ONCE, records // 4)
        figures["send, exactly once"] = send(bootstrap, topic, Guarantee.EXACTLY_ONCE, records)
        check_log_end(bootstrap, topic, records + 1)
        figures["consume in batches"] = (read_semel if is_semel else read_bare)(bootstrap, topic, records)
        copy = copy_semel if is_semel else copy_bare
        figures["copy in transactions"] = copy(bootstrap, topic, target, records // 2)
        figures["consume to a store"] = (store_semel if is_semel else store_bare)(bootstrap, topic, records // 2)
    return figures


def measure(options: Options) -> Samples:
    """Both in turns."""
    records = RECORDS // QUICK_SHARE if options.quick else RECORDS
    server = EmbeddedServer()
    bootstrap = server.start().bootstrap
    # An application has not imported what this bench has. The collector would walk all of it again and again, because
    # of the objects that one of the two makes for each record.
    gc.freeze()
    try:
        return run_rounds((SEMEL, BARE), lambda who: run_once(bootstrap, who, records), options.rounds, label="clients")
    finally:
        server.stop()


def main() -> None:
    """Measure and print."""
    options = Options.parse("Measure semel's clients beside bare confluent-kafka.")
    samples = measure(options)
    print(f"semel over bare confluent-kafka, {options.note}")
    lines, results = [], []
    for name, row in samples.items():
        spread = ratio(row[SEMEL], row[BARE])
        target = None if name == KEPT else TARGET
        verdict = "" if target is None else "met" if spread.median >= target else "missed"
        here = [f"{Spread.of(row[who]).median / 1000:.0f} k/s" for who in (SEMEL, BARE)]
        lines.append([name, str(spread), "" if target is None else f">= {target:g}", verdict, *here])
        results.append({"name": name, "ratio": asdict(spread), "target": target, "figures": dict(row)})
    print_table(["", "ratio", "target", "verdict", f"{SEMEL} here", f"{BARE} here"], lines)
    write_json(options, "clients", {"results": results})


if __name__ == "__main__":
    main()

"""What rows do with librdkafka (through confluent-kafka): produce, read back, send one at a time.

Records are handed over a thousand at a time, so that the client, which shares the machine with the broker, is as light
as it can be. There are no delivery reports in the measured loops; the end of the log says afterwards whether every
record arrived, once.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from semel.errors import EnvironmentFailure

WAIT_S_MAX = 120.0
CHUNK_RECORDS = 1_000
FULL_QUEUE_WAIT_S = 0.005
QUIET = {"log_level": 2}


@contextmanager
def fresh_topic(bootstrap: str, replication_factor: int = 1, partitions: int = 1) -> Iterator[str]:
    """A topic that is gone afterwards."""
    name = f"bench-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.create_topics([NewTopic(name, partitions, replication_factor)])[name].result(WAIT_S_MAX)
    try:
        yield name
    finally:
        admin.delete_topics([name])[name].result(WAIT_S_MAX)


@contextmanager
def reader(bootstrap: str) -> Iterator[Consumer]:
    """A consumer outside of any group's work."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **QUIET,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def check_log_end(bootstrap: str, topic: str, offset_next: int) -> None:
    """Refuse a figure that was got by losing or doubling records."""
    with reader(bootstrap) as consumer:
        _, found = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S_MAX)
    if found != offset_next:
        raise EnvironmentFailure(f"the log of {topic} ends at {found}, not at {offset_next}")


class Sender:
    """A producer that sends the same value again and again to partition 0."""

    def __init__(self, bootstrap: str, topic: str, value_bytes: int, **settings: str | int | bool) -> None:
        """Dots of the settings' names are written as underscores; everybody waits for all replicas."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        base = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "max.in.flight": 5}
        self.producer = Producer({**base, **QUIET, **named})
        self.topic = topic
        self.sent = 0
        self._chunk = [{"value": b"s" * value_bytes}] * CHUNK_RECORDS

    def connect(self) -> None:
        """Send one record, so that connections, metadata and the producer id are there."""
        self.producer.produce(self.topic, self._chunk[0]["value"], partition=0)
        self.sent += 1
        self.flush()

    def send_chunk(self) -> None:
        """Hand over up to a thousand records; when the queue is full, wait a little."""
        taken = self.producer.produce_batch(self.topic, self._chunk, partition=0)
        self.sent += taken
        self.producer.poll(0 if taken == CHUNK_RECORDS else FULL_QUEUE_WAIT_S)

    def flush(self) -> None:
        """Wait until everything was acknowledged."""
        if left := self.producer.flush(WAIT_S_MAX):
            raise EnvironmentFailure(f"{left} records were not acknowledged within {WAIT_S_MAX:.0f} s")


def produce_rate(bootstrap: str, topic: str, value_bytes: int, records: int) -> float:
    """Records acknowledged in a second, idempotent, from the first to the last of about `records`."""
    sender = Sender(bootstrap, topic, value_bytes, enable_idempotence=True)
    sender.connect()
    started = time.perf_counter()
    while sender.sent < records:
        sender.send_chunk()
    sender.flush()
    rate = (sender.sent - 1) / (time.perf_counter() - started)
    check_log_end(bootstrap, topic, sender.sent)
    return rate


def consume_rate(bootstrap: str, topic: str, records: int) -> float:
    """Records read in a second, from the connected consumer's start at offset 0 to the last of `records`."""
    with reader(bootstrap) as consumer:
        consumer.list_topics(topic, timeout=WAIT_S_MAX)
        started = time.perf_counter()
        consumer.assign([TopicPartition(topic, 0, 0)])
        got = 0
        while got < records:
            got += len(consumer.consume(10_000, 0.1))
            if time.perf_counter() - started > WAIT_S_MAX:
                raise EnvironmentFailure(f"only {got} of {records} records came within {WAIT_S_MAX:.0f} s")
        return got / (time.perf_counter() - started)


@dataclass(slots=True)
class Receipt:
    """The delivery report of the one record in flight."""

    reports: int = 0
    errors: list[str] = field(default_factory=list)

    def __call__(self, error: KafkaError | None, _: Message) -> None:
        """Take a report from the client."""
        self.reports += 1
        if error is not None:
            self.errors.append(str(error))


def send_one(sender: Sender) -> None:
    """Send one record and wait for its delivery report."""
    receipt = Receipt()
    deadline = time.perf_counter() + WAIT_S_MAX
    sender.producer.produce(sender.topic, b"s" * 100, partition=0, on_delivery=receipt)
    while not receipt.reports:
        sender.producer.poll(1.0)
        if time.perf_counter() > deadline:
            raise EnvironmentFailure(f"a record was not acknowledged within {WAIT_S_MAX:.0f} s")
    if receipt.errors:
        raise EnvironmentFailure(f"a record was refused: {receipt.errors[0]}")


def send_latencies(sender: Sender, sends: int) -> list[float]:
    """Seconds from send to delivery report, one record in flight, sorted."""
    taken: list[float] = []
    for _ in range(sends):
        started = time.perf_counter()
        send_one(sender)
        taken.append(time.perf_counter() - started)
    return sorted(taken)


def percentile(ordered: list[float], share: float) -> float:
    """The value that this share of the ordered values does not exceed."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

"""The cluster's process is killed (SIGKILL) again and again during load: what was acknowledged is there, once.

One cluster with flush policy `every` in a process of its own; an idempotent producer writes numbered records and notes
which were acknowledged, a group commits offsets. The process is killed at a random moment and started again on the
same data and port. At the end every acknowledged record must be in the log exactly once, nothing may be there that was
not sent, and the committed offset must be the last one that was acknowledged (or one that was under way).
"""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from semel.world.ports import free_ports
from tests.support.waiting import is_readable

TOPIC = "orders"
PARTITIONS = 3
WAIT_S_MAX = 60.0
ROUND_RECORDS_MAX = 4_000
# A client that notices at once that the process is back; the defaults wait for up to ten seconds.
QUICK = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "retry.backoff.ms": 20, "log_level": 0}


class Server:
    """The cluster's process."""

    def __init__(self, data: Path, port: int) -> None:
        self._command = [sys.executable, "-m", "semel", "cluster", "start", "--brokers", "1", "--port", str(port)]
        self._command += ["--data", str(data), "--flush", "every", "--topics", f"{TOPIC}:{PARTITIONS}:1"]
        self._environment = {**os.environ, "SEMEL_CACHE": str(data.parent / "cache")}
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        line = self._process.stdout.readline() if is_readable(self._process.stdout, WAIT_S_MAX) else ""
        assert line.strip(), f"the cluster did not start again: {self._process.stderr.read()}"

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=WAIT_S_MAX)


@contextmanager
def running(data: Path, port: int) -> Iterator[Server]:
    server = Server(data, port)
    server.start()
    try:
        yield server
    finally:
        server.kill()


class Book:
    """What was sent and what was acknowledged."""

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged: set[int] = set()
        self.failed: set[int] = set()

    def send(self, producer: Producer, count: int) -> None:
        for _ in range(count):
            number = self.sent
            self.sent += 1
            producer.produce(TOPIC, key=str(number % 97), value=str(number), on_delivery=self._note)
            producer.poll(0)

    def _note(self, error: KafkaError | None, message: Message) -> None:
        number = int(message.value() or b"-1")
        (self.acknowledged if error is None else self.failed).add(number)


def read_all(bootstrap: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "audit", "log_level": 0})
    numbers: list[int] = []
    for partition in range(PARTITIONS):
        low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=WAIT_S_MAX)
        consumer.assign([TopicPartition(TOPIC, partition, low)])
        offset = low
        while offset < high:
            messages = consumer.consume(min(10_000, high - offset), timeout=WAIT_S_MAX)
            assert messages, f"partition {partition} ends at {high}, nothing came after {offset}"
            for message in messages:
                assert message.error() is None
                offset = (message.offset() or 0) + 1
                numbers.append(int(message.value() or b"-1"))
    consumer.close()
    return numbers


class Committer:
    """Commits growing offsets for a group, and notes what was acknowledged and what may have been."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer({**QUICK, "bootstrap.servers": bootstrap, "group.id": "resume"})
        self.acknowledged = 0
        self.tried = 0

    def commit(self) -> None:
        self.tried += 1
        try:
            self._consumer.commit(offsets=[TopicPartition(TOPIC, 0, self.tried)], asynchronous=False)
        except KafkaException:
            return
        self.acknowledged = self.tried

    def committed(self) -> int:
        found = self._consumer.committed([TopicPartition(TOPIC, 0)], timeout=WAIT_S_MAX)
        return int(found[0].offset)

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kills", [pytest.param(20, marks=pytest.mark.full), pytest.param(200, marks=pytest.mark.soak)])
def test_what_was_acknowledged_survives_every_kill(tmp_path: Path, kills: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    draw = random.Random(seed)
    port = free_ports(1)[0]
    bootstrap = f"127.0.0.1:{port}"
    book = Book()
    settings = {
        **QUICK,
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "message.timeout.ms": 120_000,
        "linger.ms": 1,
        "batch.num.messages": 50,
    }
    kills_under_load = 0
    with running(tmp_path / "data", port) as server:
        producer, committer = Producer(settings), Committer(bootstrap)
        for _ in range(kills):
            committer.commit()
            before = len(book.acknowledged)
            book.send(producer, draw.randint(200, ROUND_RECORDS_MAX))
            wanted = before + draw.randint(0, book.sent - before)
            while len(book.acknowledged) < wanted:
                producer.poll(0.001)
            kills_under_load += len(producer) > 0
            server.kill()
            server.start()
        assert producer.flush(WAIT_S_MAX * 2) == 0
        kept = committer.committed()
        committer.close()
        found = Counter(read_all(bootstrap))
    summary = f"seed {seed}: {kills} kills, {kills_under_load} under load, {book.sent} sent, {len(found)} found"
    sys.stdout.write(summary + "\n")
    assert kills_under_load >= kills // 2, "too few kills met records under way to show anything"
    assert not book.failed
    assert len(book.acknowledged) == book.sent
    assert book.acknowledged - found.keys() == set(), "acknowledged records are lost"
    assert [number for number, times in found.items() if times > 1] == [], "records are doubled"
    assert found.keys() <= set(range(book.sent)), "records nobody sent"
    assert committer.acknowledged <= kept <= committer.tried

"""Three brokers, three replicas, min.insync.replicas=2, and every few seconds one broker is killed, stopped or cut off.

An idempotent producer writes numbered records and notes which were acknowledged; a transactional one writes pairs to
two partitions and notes which transactions were committed, aborted, or left with an unknown end. When all is healed
each acknowledged record must be there once, each committed pair once and whole, nothing of an aborted one, and of an
unknown one both halves or none (R8, R10, T2).
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

import semel
from semel.broker.metadata.cluster_state import PartitionState
from tests.support.waiting import eventually

TOPIC = "orders"
PARTITIONS = 3
BROKERS = (1, 2, 3)
PAUSE_S = 3.5  # longer than the broker's session, so that others take over
HEALTHY_S = 1.0
WAIT_S_MAX = 120.0
QUICK = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "socket.timeout.ms": 4000,
    "topic.metadata.refresh.interval.ms": 1000,
    "log_level": 0,
}


class Writing:
    """An idempotent producer in a thread: numbered records, as fast as they are acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: set[int] = set()
        self.sent = 0
        self.refused: list[KafkaError] = []
        settings = {**QUICK, "bootstrap.servers": bootstrap, "enable.idempotence": True}
        settings |= {"message.timeout.ms": int(WAIT_S_MAX * 1000), "request.timeout.ms": 4000, "linger.ms": 2}
        self._producer = Producer(settings)

    def run(self, go_on: Callable[[], bool]) -> None:
        while go_on():
            for _ in range(20):
                self._send(self.sent)
                self.sent += 1
            self._producer.poll(0.02)
            while len(self._producer) > 500 and go_on():
                self._producer.poll(0.05)
        assert self._producer.flush(WAIT_S_MAX) == 0

    def _send(self, number: int) -> None:
        def heard(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self.acknowledged.add(number)
            else:
                self.refused.append(error)

        self._producer.produce(TOPIC, f"plain {number}", partition=number % PARTITIONS, on_delivery=heard)


class Transacting:
    """A transactional producer in a thread: two records in two partitions each time, now and then aborted."""

    def __init__(self, bootstrap: str) -> None:
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.unknown: set[int] = set()
        self.begun = 0
        self._settings = {**QUICK, "bootstrap.servers": bootstrap, "transactional.id": "pairs"}
        self._settings |= {"transaction.timeout.ms": 10_000, "request.timeout.ms": 4000, "linger.ms": 0}

    def run(self, go_on: Callable[[], bool]) -> None:
        while go_on():
            producer = Producer(self._settings)
            try:
                self._initialise(producer)
                while go_on():
                    self._transact(producer)
            except KafkaException:
                continue  # a producer that cannot go on is replaced; the next one settles what this one left

    def _initialise(self, producer: Producer) -> None:
        _insist(lambda: producer.init_transactions(10.0))

    def _transact(self, producer: Producer) -> None:
        number, self.begun = self.begun, self.begun + 1
        producer.begin_transaction()
        self.unknown.add(number)
        producer.produce(TOPIC, f"pair {number} left", partition=number % PARTITIONS)
        producer.produce(TOPIC, f"pair {number} right", partition=(number + 1) % PARTITIONS)
        if number % 7 == 0:
            self._abort(producer, number)
            return
        try:
            _insist(lambda: producer.commit_transaction(10.0))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._abort(producer, number)
        else:
            self._end(number, self.committed)

    def _abort(self, producer: Producer, number: int) -> None:
        _insist(lambda: producer.abort_transaction(10.0))
        self._end(number, self.aborted)

    def _end(self, number: int, outcome: set[int]) -> None:
        self.unknown.discard(number)
        outcome.add(number)


def _insist(call: Callable[[], None]) -> None:
    """Repeat a call that the client says may be repeated."""
    while True:
        try:
            call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return


class Faults:
    """Every few seconds one broker is in trouble; how often each kind was."""

    def __init__(self, cluster: semel.Cluster, seed: int) -> None:
        self._cluster = cluster
        self._rng = random.Random(seed)
        self.fired: Counter[str] = Counter()

    def run(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        kinds = (self._kill, self._pause, self._isolate, self._kill_controller)
        while time.monotonic() < deadline:
            self._wait_healthy()
            kind = kinds[sum(self.fired.values()) % len(kinds)]
            kind(self._rng.choice(BROKERS))
            self.fired[kind.__name__] += 1
            _rest(HEALTHY_S)
        self._wait_healthy()

    def _kill(self, broker_id: int) -> None:
        self._cluster.kill(broker_id)
        _rest(self._rng.uniform(0.1, 2.0))
        self._cluster.restart(broker_id)

    def _pause(self, broker_id: int) -> None:
        self._cluster.pause(broker_id)
        _rest(PAUSE_S)
        self._cluster.resume(broker_id)

    def _isolate(self, broker_id: int) -> None:
        for other in (0, *BROKERS):
            if other != broker_id:
                self._cluster.split(broker_id, other)
        _rest(PAUSE_S)
        self._cluster.heal()

    def _kill_controller(self, broker_id: int) -> None:
        self._cluster.kill_controller()
        self._cluster.kill(broker_id)
        _rest(PAUSE_S)
        self._cluster.restart(broker_id)

    def _wait_healthy(self) -> None:
        eventually(lambda: all(len(place.isr) == 3 for place in places(self._cluster)), WAIT_S_MAX, what="all in sync")


def _rest(seconds: float) -> None:
    """How long a fault lasts; nothing is expected of this time."""
    threading.Event().wait(seconds)


def places(cluster: semel.Cluster) -> tuple[PartitionState, ...]:
    return cluster.core.state.topics[TOPIC].partitions


def read_all(bootstrap: str) -> Counter[str]:
    """Every committed value, up to the end."""
    settings = {**QUICK, "bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    found: Counter[str] = Counter()
    ended: set[int | None] = set()
    try:
        while len(ended) < PARTITIONS:
            message = consumer.poll(WAIT_S_MAX)
            assert message is not None, "no record and no end in time"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
            else:
                found[(message.value() or b"").decode()] += 1
    finally:
        consumer.close()
    return found


@contextmanager
def load(*writers: Writing | Transacting) -> Iterator[None]:
    """Let writers run in threads of their own until the block ends."""
    over = threading.Event()
    threads = [threading.Thread(target=one.run, args=(lambda: not over.is_set(),)) for one in writers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(2 * WAIT_S_MAX)
    assert not any(thread.is_alive() for thread in threads), "a writer did not come to its end"


@pytest.mark.full
@pytest.mark.parametrize(
    "seconds", [60, pytest.param(600, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])], ids=["short", "long"]
)
def test_what_was_acknowledged_is_there_once(seconds: int) -> None:
    config = {"min.insync.replicas": "2", "offsets.topic.num.partitions": "3"}
    with semel.Cluster(brokers=3, topics=[f"{TOPIC}:{PARTITIONS}:3"], config=config) as cluster:
        writing, transacting = Writing(cluster.bootstrap), Transacting(cluster.bootstrap)
        faults = Faults(cluster, seed=seconds)
        epochs = sum(place.leader_epoch for place in places(cluster))
        with load(writing, transacting):
            faults.run(seconds)
        assert sum(place.leader_epoch for place in places(cluster)) > epochs, "no leader ever changed"
        assert len(faults.fired) == 4, faults.fired
        found = read_all(cluster.bootstrap)
    judge_plain(writing, found)
    judge_pairs(transacting, found)
    sizes = {name: len(getattr(transacting, name)) for name in ("committed", "aborted", "unknown")}
    print(f"\n{seconds} s, {dict(faults.fired)}; {len(writing.acknowledged)} acknowledged; {sizes}")  # noqa: T201


def judge_plain(writing: Writing, found: Counter[str]) -> None:
    assert writing.refused == []
    assert len(writing.acknowledged) > 1000
    lost = [number for number in writing.acknowledged if not found[f"plain {number}"]]
    doubled = [number for number in range(writing.sent) if found[f"plain {number}"] > 1]
    assert (lost[:5], doubled[:5]) == ([], []), f"{len(lost)} lost, {len(doubled)} doubled of {writing.sent}"


def judge_pairs(transacting: Transacting, found: Counter[str]) -> None:
    def halves(number: int) -> tuple[int, int]:
        return found[f"pair {number} left"], found[f"pair {number} right"]

    assert len(transacting.committed) > 50
    assert transacting.aborted
    broken = {number: halves(number) for number in transacting.committed if halves(number) != (1, 1)}
    seen = {number: halves(number) for number in transacting.aborted if halves(number) != (0, 0)}
    torn = {number: halves(number) for number in transacting.unknown if halves(number) not in ((0, 0), (1, 1))}
    assert (broken, seen, torn) == ({}, {}, {})

"""M21 A topic is compacted under its readers: offsets without records are passed, and nothing else is.

Keeps: K4 an unfinished record is neither counted as done nor skipped; K7 results and offsets are in the store together
       or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import semel
from semel.clients.records import Batch
from semel.clients.stores import Store
from semel.guarantee import Guarantee
from tests.features.clusters import SETTINGS, WAIT_S_MAX, Kafka
from tests.features.storing import IDLE_MS, Opens, Reads, keep, kept, store_of, values
from tests.support.waiting import eventually

MOST, LEAST = Guarantee.AT_MOST_ONCE, Guarantee.AT_LEAST_ONCE
EXACTLY: Final = Guarantee.EXACTLY_ONCE
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "150", "min.cleanable.dirty.ratio": "0.01"}
KEYS, LAST = ("x", "y", "z"), "the last"


@pytest.fixture(scope="module")
def compacting() -> Iterator[Kafka]:
    with semel.Cluster(brokers=1, config=SETTINGS | {"log.cleaner.backoff.ms": "20"}) as cluster:
        yield Kafka(name="embedded", bootstrap=cluster.bootstrap)


@pytest.fixture
def topic(compacting: Kafka) -> str:
    """A value of each key is in it, and nothing is compacted yet."""
    name = f"{compacting.topic()}-compacted"
    admin = AdminClient({"bootstrap.servers": compacting.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, 1, 1, config=COMPACTED)])[name].result(WAIT_S_MAX)
    append(compacting, name, {key: f"{key} first" for key in KEYS})
    return name


def append(kafka: Kafka, topic: str, lines: dict[str, str]) -> None:
    """Each in a batch of its own, so that compaction can take each by itself."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0, "log_level": 0})
    for key, value in lines.items():
        producer.produce(topic, value, key)
        assert producer.flush(WAIT_S_MAX) == 0


def compact(kafka: Kafka, topic: str) -> None:
    """Every key gets another value, and the first ones are gone: also that at the reader's position."""
    append(kafka, topic, {key: f"{key} second" for key in KEYS} | {f"fill {n}": "fill" for n in range(3)} | {"e": LAST})
    eventually(lambda: not [one for one in kafka.values(topic) if "first" in one], WAIT_S_MAX, what="it is compacted")


class Way:
    """Where results go and how a batch of them is finished; what was kept is counted by somebody else."""

    def __init__(self, kafka: Kafka, topic: str, guarantee: Guarantee, store: Store | None, opened: Opens) -> None:
        self._opened = opened
        self.kafka, self.topic, self.guarantee, self.store = kafka, topic, guarantee, store
        self.processed: list[str] = []
        self.target = kafka.topic()

    def open(self) -> Reads:
        return self._opened(self.kafka, self.topic, self.guarantee, self.store, fetch_wait_max_ms=20)

    def finish(self, batch: Batch) -> None:
        if self.store is not None:
            keep(self.store, batch)
        elif self.guarantee is EXACTLY:
            assert isinstance(batch.owner, semel.Consumer)
            with (
                semel.Producer(self.kafka.bootstrap, guarantee=EXACTLY, transactional_id=self.topic) as producer,
                producer.transaction() as tx,
            ):
                for value in batch.values():
                    tx.send(self.target, value)
                tx.commit_offsets(batch.owner)
        else:
            self.processed += values(batch)
            if self.guarantee is LEAST:
                assert isinstance(batch.owner, semel.Consumer)
                batch.owner.commit()

    def results(self) -> list[str]:
        if self.store is not None:
            return sorted(kept(self.store))
        return sorted(self.kafka.values(self.target) if self.guarantee is EXACTLY else self.processed)


WAYS = {"most": MOST, "least": LEAST, "transaction": EXACTLY, "sqlite": EXACTLY, "postgres": EXACTLY}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, compacting: Kafka, topic: str, tmp_path: Path, opened: Opens) -> Iterator[Way]:
    compacting.commit_start(topic, topic)  # at most once does not choose by itself
    with ExitStack() as stack:
        is_store = request.param in ("sqlite", "postgres")
        store = stack.enter_context(store_of(request.param, request, tmp_path)) if is_store else None
        yield Way(compacting, topic, WAYS[request.param], store, opened)


def until_last(consumer: Reads, finish: Callable[[Batch], None]) -> None:
    for batch in consumer.batches(records_max=2, idle_ms_max=IDLE_MS):
        finish(batch)
        if LAST in values(batch):
            return
    raise AssertionError("the last record does not come")


@pytest.mark.quick(2)
def test_a_position_whose_record_is_gone_goes_on_with_the_next(compacting: Kafka, topic: str, way: Way) -> None:
    """One record is done when the reader stops; when it comes back, the next ones are gone."""
    with way.open() as consumer:
        batches = consumer.batches(records_max=1, idle_ms_max=IDLE_MS)
        way.finish(next(batches))
    compact(compacting, topic)
    with way.open() as consumer:
        until_last(consumer, way.finish)
    assert way.results() == sorted(["x first", *compacting.values(topic)])


@pytest.mark.quick(2)
def test_a_batch_that_is_read_again_has_what_is_left(compacting: Kafka, topic: str, way: Way) -> None:
    """The work fails, and compaction is quicker than the reader, which keeps running."""
    with way.open() as consumer:

        def fail(_: Batch) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            until_last(consumer, fail)
        compact(compacting, topic)
        until_last(consumer, way.finish)
    found = way.results()
    if way.guarantee is MOST:  # what the library had fetched before is handed out as it was
        found = [value for value in found if "first" not in value]
    assert found == sorted(compacting.values(topic))

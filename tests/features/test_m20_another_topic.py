"""M20 A topic is deleted and created again: its offsets mean other records now, and nobody skips any without a word.

Keeps: K10 an offset that was read from one topic is not taken for one of another topic of the same name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import semel
from semel.clients import topic_lives
from semel.clients.records import Batch
from semel.clients.stores import Store
from semel.errors import BrokerError
from semel.guarantee import Guarantee
from tests.features.clusters import SETTINGS, WAIT_S_MAX, Kafka
from tests.features.storing import IDLE_MS, Opens, Reads, consumer_of, keep, kept, values, work, write
from tests.support.waiting import eventually

READ, WRITTEN = 5, 10  # so that the old position is in the middle of the new topic
OLD = [f"a{number}" for number in range(READ)]
NEW = [f"b{number}" for number in range(WRITTEN)]
LEAST, EXACTLY, MOST = Guarantee.AT_LEAST_ONCE, Guarantee.EXACTLY_ONCE, Guarantee.AT_MOST_ONCE


def old_topic(kafka: Kafka) -> str:
    topic = kafka.topic()
    write(kafka, topic, OLD)
    return topic


def make_again(kafka: Kafka, topic: str) -> None:
    """Delete the topic and make another of its name, with more records than were read of the first."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    admin.delete_topics([topic])[topic].result(WAIT_S_MAX)

    def make() -> bool:
        try:
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(WAIT_S_MAX)
        except KafkaException:
            return False
        return True

    eventually(make, WAIT_S_MAX, what="the name is free")
    write(kafka, topic, NEW)


def work_until_told(consumer: Reads, finish: Callable[[Batch], object]) -> BrokerError:
    """Go on after any error, as a careless program does; before the new topic is there its absence is one, too."""

    def told() -> BrokerError | None:
        with pytest.raises(BrokerError) as caught:
            work(consumer, finish, "never written")
        return caught.value if "deleted and created again" in str(caught.value) else None

    return eventually(told, WAIT_S_MAX, what="the consumer says that the topic is another")


@pytest.mark.quick(1)
@pytest.mark.parametrize("is_running", [False, True], ids=["stopped", "running"])
def test_a_store_keeps_nothing_of_another_topic_until_it_is_told_to(
    kafka: Kafka, store: Store, is_running: bool, opened: Opens
) -> None:
    topic = old_topic(kafka)
    first = opened(kafka, topic, EXACTLY, store)
    assert work(first, lambda batch: keep(store, batch), OLD[-1]) == OLD
    if not is_running:
        first.close()
    make_again(kafka, topic)
    if is_running:
        work_until_told(first, lambda batch: keep(store, batch))
        work_until_told(first, lambda batch: keep(store, batch))  # and again, for whoever goes on
        first.close()
    with opened(kafka, topic, EXACTLY, store) as second:
        error = work_until_told(second, lambda batch: keep(store, batch))
        work_until_told(second, lambda batch: keep(store, batch))
    assert kept(store) == OLD
    way_out, other = error.next_command.split(", and ")[0], error.next_command.split("; or ")[1].split(", if")[0]
    assert other == f"store.adopt({topic!r}, {topic!r})"
    assert eval(way_out, {"store": store}) == 1  # word for word
    with opened(kafka, topic, EXACTLY, store) as third:
        assert work(third, lambda batch: keep(store, batch), NEW[-1]) == NEW
    assert kept(store) == sorted(OLD + NEW)


@pytest.mark.full
def test_offsets_that_are_right_for_the_new_topic_can_be_kept(embedded_kafka: Kafka, tmp_path: Path) -> None:
    """A topic that was restored elsewhere with the same records at the same offsets."""
    topic = old_topic(embedded_kafka)
    with semel.SqliteStore(tmp_path / "s.db") as store:
        store.make("CREATE TABLE lines (line text)")
        with consumer_of(embedded_kafka, topic, EXACTLY, store) as consumer:
            work(consumer, lambda batch: keep(store, batch), OLD[-1])
        make_again(embedded_kafka, topic)
        assert store.adopt(topic, topic) == 1
        for _ in range(2):
            with consumer_of(embedded_kafka, topic, EXACTLY, store) as consumer:
                assert work(consumer, lambda _: None, NEW[-1]) == NEW[READ:]


@pytest.mark.quick(1)
@pytest.mark.parametrize("guarantee", [LEAST, EXACTLY, MOST])
def test_a_group_reads_the_new_topic_from_its_beginning(kafka: Kafka, guarantee: Guarantee, opened: Opens) -> None:
    topic = old_topic(kafka)
    kafka.commit_start(topic, topic)
    with (
        semel.Producer(kafka.bootstrap, guarantee=Guarantee.EXACTLY_ONCE, transactional_id=topic) as producer,
        opened(kafka, topic, guarantee) as first,
    ):

        def finish(batch: Batch) -> None:
            if guarantee is EXACTLY:
                assert isinstance(batch.owner, semel.Consumer)
                with producer.transaction() as tx:
                    tx.commit_offsets(batch.owner)
            elif guarantee is LEAST:
                assert isinstance(batch.owner, semel.Consumer)
                batch.owner.commit()

        assert work(first, finish, OLD[-1]) == OLD
        make_again(kafka, topic)
        work_until_told(first, finish)
        work_until_told(first, finish)
        first.close()
        assert kafka.committed(topic, topic) < 0, "the group's offset was deleted with the topic"
        if guarantee is MOST:
            kafka.commit_start(topic, topic)
        with opened(kafka, topic, guarantee) as second:
            assert work(second, finish, NEW[-1]) == NEW


@pytest.mark.quick(1)
@pytest.mark.parametrize("guarantee", [LEAST, EXACTLY, MOST])
def test_an_offset_that_was_committed_in_the_moment_of_the_change_is_known_for_what_it_is(
    kafka: Kafka, guarantee: Guarantee, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody asks for the topic's id between the change and the commit: the offset says by itself what it is of."""
    monkeypatch.setattr(topic_lives, "ASKING_SHARE", 1e-9)
    monkeypatch.setattr(topic_lives, "QUIET_S_MAX", 3600)
    topic = old_topic(kafka)
    kafka.commit_start(topic, topic)
    with semel.Producer(kafka.bootstrap, guarantee=Guarantee.EXACTLY_ONCE, transactional_id=topic) as producer:

        def finish(consumer: semel.Consumer) -> None:
            if guarantee is EXACTLY:
                with producer.transaction() as tx:
                    tx.commit_offsets(consumer)
            elif guarantee is LEAST:
                consumer.commit()

        with consumer_of(kafka, topic, guarantee) as first:
            read = list[str]()
            while len(read) < READ:
                batch = first.next_batch(1, IDLE_MS)
                assert batch is not None
                read += values(batch)
                if len(read) == READ - (guarantee is MOST):  # at most once commits the next one when it is asked for
                    first.confirm_topics()
                    make_again(kafka, topic)
                finish(first)
            monkeypatch.undo()
            assert kafka.committed(topic, topic) == READ, "it was too late to refuse it"
        with consumer_of(kafka, topic, guarantee) as second:
            for _ in range(2):
                error = work_until_told(second, lambda _: finish(second))
        assert f"--group {topic} --topic {topic} --reset-offsets --to-earliest" in error.next_command
        assert "--to-current" in error.next_command
        kafka.commit_start(topic, topic)  # what these commands do, but for the tool
        with consumer_of(kafka, topic, guarantee) as third:
            assert work(third, lambda _: finish(third), NEW[-1]) == NEW


@pytest.mark.quick(1)
@pytest.mark.parametrize("guarantee", [LEAST, EXACTLY])
def test_offsets_of_a_batch_in_hand_are_not_committed_behind_the_change(
    kafka: Kafka, guarantee: Guarantee, opened: Opens
) -> None:
    """The group has not noticed anything yet: somebody asks before the commit."""
    topic, target = old_topic(kafka), kafka.topic()
    with (
        semel.Producer(kafka.bootstrap, guarantee=Guarantee.EXACTLY_ONCE, transactional_id=topic) as producer,
        opened(kafka, topic, guarantee) as consumer,
    ):

        def keep_in_kafka(batch: Batch) -> None:
            assert isinstance(batch.owner, semel.Consumer)
            with producer.transaction() as tx:
                for line in values(batch):
                    tx.send(target, line)
                tx.commit_offsets(batch.owner)

        batch = consumer.next_batch(1, IDLE_MS)
        assert batch is not None
        make_again(kafka, topic)
        with pytest.raises(BrokerError, match="deleted and created again"):
            keep_in_kafka(batch) if guarantee is EXACTLY else consumer.commit()
    assert kafka.committed(topic, topic) < 0
    assert kafka.values(target) == []


@pytest.mark.full
def test_the_asyncio_consumer_is_refused_as_well(embedded_kafka: Kafka) -> None:
    topic = old_topic(embedded_kafka)

    async def read() -> None:
        async with semel.AsyncConsumer(
            embedded_kafka.bootstrap, [topic], group=topic, guarantee=LEAST, settings={"log_level": 0}
        ) as consumer:
            async for batch in consumer.batches(idle_ms_max=IDLE_MS):
                if OLD[-1] in values(batch):
                    await consumer.commit()
                    await asyncio.to_thread(make_again, embedded_kafka, topic)

    with pytest.raises(BrokerError):
        asyncio.run(read())
    assert embedded_kafka.committed(topic, topic) < 0


@pytest.mark.quick(1)
def test_the_same_name_in_another_cluster_is_another_topic(embedded_kafka: Kafka, store: Store, opened: Opens) -> None:
    """A program is pointed at another cluster, with its store."""
    topic = old_topic(embedded_kafka)
    with opened(embedded_kafka, topic, EXACTLY, store) as consumer:
        work(consumer, lambda batch: keep(store, batch), OLD[-1])
    with semel.Cluster(brokers=1, topics=[topic], config=SETTINGS) as cluster:
        there = Kafka(name="embedded", bootstrap=cluster.bootstrap)
        write(there, topic, NEW)
        with opened(there, topic, EXACTLY, store) as consumer:
            for _ in range(2):
                with pytest.raises(BrokerError, match="is in another cluster now") as caught:
                    work(consumer, lambda batch: keep(store, batch), NEW[-1])
        assert kept(store) == OLD
        assert "store.forget(" in caught.value.next_command
        store.forget(topic, topic)
        with opened(there, topic, EXACTLY, store) as consumer:
            assert work(consumer, lambda batch: keep(store, batch), NEW[-1]) == NEW
    assert kept(store) == sorted(OLD + NEW)


@pytest.mark.full
def test_a_topic_that_is_gone_is_told(embedded_kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_lives, "GONE_S_MAX", 0.2)
    topic = old_topic(embedded_kafka)
    with consumer_of(embedded_kafka, topic, LEAST) as consumer:
        batch = consumer.next_batch(100, IDLE_MS)
        assert batch is not None
        admin = AdminClient({"bootstrap.servers": embedded_kafka.bootstrap, "log_level": 0})
        admin.delete_topics([topic])[topic].result(WAIT_S_MAX)
        with pytest.raises(BrokerError) as caught:
            consumer.commit()
    assert "make another" in caught.value.next_command

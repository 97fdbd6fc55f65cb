"""K10 asking which topic a name stands for: what happens when the answer is late, lost, or never comes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException

import semel
from semel.broker.runtime.intercept import After, DropRequest, DropResponse
from semel.clients import group_commits, membership, topic_lives
from semel.clients.records import Batch, Life
from semel.clients.topic_lives import NO_ID, TopicLives, another_life, topic_id_of
from semel.errors import BrokerError, ConfigError, Outcome
from semel.guarantee import Guarantee
from tests.features.clusters import SETTINGS, Kafka
from tests.support.waiting import eventually

LEAST, EXACTLY = Guarantee.AT_LEAST_ONCE, Guarantee.EXACTLY_ONCE
RECORDS = 3
IDLE_MS = 10_000
ALWAYS = 10_000
CUT, SILENCE = DropRequest(), DropRequest(then=After.SILENCE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config=SETTINGS) as started:
        yield started


@pytest.fixture
def kafka(cluster: semel.Cluster) -> Iterator[Kafka]:
    yield Kafka(name="embedded", bootstrap=cluster.bootstrap)
    cluster.disarm()


def filled(kafka: Kafka) -> str:
    topic = kafka.topic()
    kafka.fill(topic, RECORDS)
    return topic


def consumer_of(kafka: Kafka, topic: str, guarantee: Guarantee, **options: object) -> semel.Consumer:
    given = {"settings": {"log_level": 0}, "wait_ms_max": IDLE_MS} | options
    return semel.Consumer(kafka.bootstrap, [topic], group=topic, guarantee=guarantee, **given)  # type: ignore[arg-type]


@pytest.mark.full
@pytest.mark.parametrize("fault", [DropRequest(), DropResponse()])
def test_an_answer_that_is_lost_is_asked_for_again(cluster: semel.Cluster, kafka: Kafka, fault: DropRequest) -> None:
    topic = filled(kafka)
    with consumer_of(kafka, topic, LEAST) as consumer:
        assert consumer.next_batch(RECORDS, IDLE_MS) is not None
        hook = cluster.intercept("Metadata", fault, times=1)
        consumer.commit()
    assert hook.fired
    assert kafka.committed(topic, topic) == RECORDS


@pytest.mark.full
def test_a_connection_that_stays_silent_is_left(cluster: semel.Cluster, kafka: Kafka) -> None:
    """The library would wait for its answer for a minute."""
    topic = filled(kafka)
    with consumer_of(kafka, topic, LEAST, wait_ms_max=30_000) as consumer:
        assert consumer.next_batch(RECORDS, IDLE_MS) is not None
        hook = cluster.intercept("Metadata", SILENCE, times=1)
        consumer.commit()
    assert hook.fired
    assert kafka.committed(topic, topic) == RECORDS


def test_at_least_once_goes_on_reading_and_commits_later(
    cluster: semel.Cluster, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commits, "CONFIRM_S_MAX", 0.2)
    topic = filled(kafka)
    with consumer_of(kafka, topic, LEAST) as consumer:
        for batch in consumer.batches(records_max=1, idle_ms_max=IDLE_MS):
            if batch[0].offset == 0:
                hook = cluster.intercept("Metadata", CUT, times=ALWAYS)
            if batch[0].offset == RECORDS - 1:
                assert hook.fired
                cluster.disarm()
                eventually(lambda: committed(consumer), what="the consumer can commit again")
                break
    assert kafka.committed(topic, topic) == RECORDS


def committed(consumer: semel.Consumer) -> bool:
    try:
        consumer.commit()
    except BrokerError:
        return False
    return True


def test_a_store_is_not_locked_while_nobody_answers(
    cluster: semel.Cluster, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "FETCHED_AT_ONCE", 1)
    topic = filled(kafka)
    with (
        semel.SqliteStore(tmp_path / "s.db", busy_wait_ms_max=0) as store,
        consumer_of(kafka, topic, EXACTLY, store=store, wait_ms_max=1_000) as consumer,
    ):
        first = consumer.next_batch(1, IDLE_MS)
        assert first is not None
        with store.transaction(first):
            pass
        hook = cluster.intercept("Metadata", CUT, times=ALWAYS)
        batch = consumer.next_batch(1, IDLE_MS)  # fetched when nobody answers any more
        assert batch is not None
        with pytest.raises(BrokerError) as caught, store.transaction(batch):
            pytest.fail("nothing may begin")
        assert (caught.value.outcome, bool(hook.fired)) == (Outcome.DID_NOT_HAPPEN, True)
        store.make("CREATE TABLE other (line text)")
        cluster.disarm()
        again = eventually(lambda: next_of(consumer), what="the batch comes again")
        eventually(lambda: kept(store, again), what="and is kept")
        assert store.offsets(topic, [again[0].place], lambda _: -1) == {again[0].place: RECORDS}


class Asked(NamedTuple):
    """A question that was sent when the records of a batch were fetched, and whether another one is needed."""

    quiet_s_max: float  # how old an answer may be
    has_store: bool
    is_fetched_since: bool
    is_asked_again: bool


@pytest.mark.parametrize(
    "case",
    [
        Asked(600, has_store=False, is_fetched_since=False, is_asked_again=False),
        Asked(0, has_store=True, is_fetched_since=False, is_asked_again=False),
        Asked(0, has_store=False, is_fetched_since=False, is_asked_again=True),
        Asked(600, has_store=False, is_fetched_since=True, is_asked_again=True),
        Asked(600, has_store=True, is_fetched_since=True, is_asked_again=True),
    ],
    ids=str,
)
def test_the_question_was_sent_when_records_were_fetched(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Asked
) -> None:
    """Its answer counts for what was fetched before it; in a group's offsets for a moment only."""
    monkeypatch.setattr(topic_lives, "QUIET_S_MAX", case.quiet_s_max)
    topic = filled(kafka)
    with ExitStack() as opened:
        store = opened.enter_context(semel.SqliteStore(tmp_path / "s.db")) if case.has_store else None
        consumer = opened.enter_context(consumer_of(kafka, topic, EXACTLY, store=store))
        assert consumer.next_batch(RECORDS, IDLE_MS) is not None
        lives, asked = consumer._member.lives, list[list[str]]()
        ask = lives._ask

        def noted(topics: list[str], wait_s_max: float) -> object:
            asked.append(topics)
            return ask(topics, wait_s_max)

        monkeypatch.setattr(lives, "_ask", noted)
        if case.is_fetched_since:
            lives.doubt()
        consumer.confirm_topics()
        assert bool(asked) is case.is_asked_again


def next_of(consumer: semel.Consumer) -> Batch | None:
    try:
        return consumer.next_batch(RECORDS, IDLE_MS)
    except BrokerError:
        return None


def kept(store: semel.SqliteStore, batch: Batch) -> bool:
    try:
        with store.transaction(batch):
            return True
    except BrokerError:
        return False


def test_callbacks_stay_with_the_consumer(kafka: Kafka) -> None:
    """Another client of the library would call them with figures of its own."""
    topic, told = filled(kafka), list[str]()
    settings = {"log_level": 0, "statistics.interval.ms": 10, "stats_cb": told.append}
    with consumer_of(kafka, topic, LEAST, settings=settings) as consumer:
        assert consumer.next_batch(RECORDS, IDLE_MS) is not None
        consumer.commit()
        eventually(lambda: told or consumer.next_batch(RECORDS, 20), what="figures of the consumer")
    assert not [one for one in told if '"type":"producer"' in one.replace(" ", "")]


def test_one_limit_for_all_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that was sent ahead ends later than this wait; it may not be asked again with the whole limit."""
    lives, limits, now = TopicLives({"bootstrap.servers": "127.0.0.1:1"}, 5), list[float](), [100.0]
    lives.known = {"t": Life("id", "cluster")}

    def ask(topics: list[str], wait_s_max: float) -> dict[str, Future[object]]:
        limits.append(wait_s_max)
        answer: Future[object] = Future()
        now[0] += 3  # of which nothing comes
        answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return dict.fromkeys(topics, answer)

    monkeypatch.setattr(lives, "_ask", ask)
    monkeypatch.setattr("semel.clients.topic_lives.time.monotonic", lambda: now[0])
    with pytest.raises(BrokerError, match="nobody says which topic t is") as refused:
        lives.confirm()
    assert refused.value.outcome is Outcome.DID_NOT_HAPPEN
    assert limits == [5, 2]


def test_in_a_forked_child_nobody_answers() -> None:
    lives = TopicLives({"bootstrap.servers": "127.0.0.1:1"}, 1)
    lives.known = {"t": Life("id", "cluster")}
    lives.forked()
    with pytest.raises(ConfigError, match="was made in another process"):
        lives.confirm()


def test_a_member_without_partitions_asks_nobody() -> None:
    lives = TopicLives({"bootstrap.servers": "127.0.0.1:1"}, 1)
    assert lives.learn([]) == {}
    lives.confirm()


def test_ids_that_nobody_knows_say_nothing() -> None:
    assert topic_id_of(type("", (), {"topic_id": NO_ID})) == ""
    assert not Life().differs(Life("a", "b"))
    assert not Life("a", "").differs(Life("a", "b"))
    assert Life("a", "b").differs(Life("a", "c"))
    assert Life("", "b").filled(Life("a", "c")) == Life("a", "b")
    assert "another cluster" in str(another_life("t", Life("", "b"), Life("a", "c"), next_command=""))
    assert "created again" in str(another_life("t", Life("a", "b"), Life("d", "b"), next_command=""))

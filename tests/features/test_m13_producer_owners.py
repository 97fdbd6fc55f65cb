"""M13, M14 through semel.Producer: a transactional id has one owner, the newest, and work is not done twice.

Keeps: K2 an error says whether it may have happened; K3 a commit whose outcome is unknown is asked for again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

import semel
from semel.broker.runtime.intercept import Delay, DropRequest
from semel.clients.producer import Transactional
from semel.clients.steps import ClientStep, OnStep, ignore_step
from semel.errors import ConfigError, FencedError, Outcome, OutcomeUnknownError
from semel.guarantee import Guarantee
from tests.features.clusters import Kafka
from tests.support.waiting import eventually

EXACTLY: Final = Guarantee.EXACTLY_ONCE


def owner(kafka: Kafka, name: str, on_step: OnStep = ignore_step) -> semel.Producer[Transactional]:
    settings = {"linger.ms": 0, "log_level": 0}
    return semel.Producer(
        kafka.bootstrap,
        guarantee=EXACTLY,
        transactional_id=name,
        settings=settings,
        wait_ms_max=30_000,
        on_step=on_step,
    )


def impatient(producer: semel.Producer[Transactional]) -> semel.Producer[Transactional]:
    """Not when it takes its id over, but from now on."""
    assert producer._coordination is not None
    producer._coordination.wait_s_max = 0.7
    return producer


def send_in(producer: semel.Producer[Transactional], topic: str, value: str) -> None:
    with producer.transaction() as tx:
        tx.send(topic, value)


@pytest.mark.parametrize("has_id", [True, False], ids=["transactional id", "without"])
def test_a_restarted_producer_does_its_work_once(kafka: Kafka, has_id: bool) -> None:
    """The first one dies before it knows that its record arrived; its successor does the work again."""
    topic = kafka.topic()
    if has_id:
        first = owner(kafka, topic)
        transaction = first.transaction().__enter__()
        transaction.send(topic, "order 1")
        transaction.flush()
        send_in(owner(kafka, topic), topic, "order 1")
    else:
        for _ in range(2):
            with semel.Producer(kafka.bootstrap, guarantee=EXACTLY) as producer:
                producer.send(topic, "order 1").result()
    assert kafka.values(topic) == ["order 1"] * (1 if has_id else 2)


@pytest.mark.quick(2)
@pytest.mark.parametrize("paused_at", ["before begin", "after begin", "after send"])
def test_the_older_owner_is_fenced_and_writes_nothing(kafka: Kafka, paused_at: str) -> None:
    topic = kafka.topic()
    older = owner(kafka, topic)
    transaction = older.transaction()
    if paused_at != "before begin":
        transaction.__enter__()
    if paused_at == "after send":
        transaction.send(topic, "older 0")
        transaction.flush()
    newer = owner(kafka, topic)
    send_in(newer, topic, "newer")
    if paused_at == "before begin":
        transaction.__enter__()
    transaction.send(topic, "older 1")
    with pytest.raises(FencedError) as caught:
        transaction.__exit__(None, None, None)
    assert caught.value.outcome is Outcome.DID_NOT_HAPPEN
    with pytest.raises(FencedError, match="at its end"):
        send_in(older, topic, "older 2")
    send_in(newer, topic, "newer again")
    assert kafka.values(topic) == ["newer", "newer again"]


def test_with_two_ids_both_write(kafka: Kafka) -> None:
    topic = kafka.topic()
    for name in ("one", "two"):
        send_in(owner(kafka, f"{topic}-{name}"), topic, "order 1")
    assert kafka.values(topic) == ["order 1", "order 1"]


def test_an_exception_aborts_and_the_next_transaction_works(kafka: Kafka) -> None:
    topic = kafka.topic()
    producer = owner(kafka, topic)

    def fail() -> None:
        with producer.transaction() as tx:
            tx.send(topic, "aborted")
            producer.flush()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    send_in(producer, topic, "committed")
    assert kafka.values(topic) == ["committed"]
    assert kafka.values(topic, committed=False) == ["aborted", "committed"]


def test_a_transaction_is_used_inside_its_with_only(kafka: Kafka) -> None:
    topic = kafka.topic()
    producer = owner(kafka, topic)
    with pytest.raises(ConfigError, match="not open"):
        producer.transaction().send(topic, "x")
    with producer.transaction() as tx, pytest.raises(ConfigError, match="already open"):
        producer.transaction().__enter__()
    with pytest.raises(ConfigError, match="is over"):
        tx.send(topic, "x")
    assert kafka.values(topic) == []


def test_a_record_that_cannot_be_delivered_aborts_the_transaction(kafka: Kafka) -> None:
    topic = kafka.topic()
    producer = owner(kafka, topic)

    def send_badly() -> None:
        with producer.transaction() as tx:
            tx.send(topic, "bad", partition=7)  # the first: whether there is such a partition is not known yet
            tx.send(topic, "good")

    with pytest.raises(semel.SemelError) as caught:
        send_badly()
    assert caught.value.outcome is Outcome.DID_NOT_HAPPEN
    assert "UNKNOWN_PARTITION" in "".join(caught.value.__notes__), "the reason is told"
    assert kafka.values(topic) == []
    send_in(producer, topic, "good")
    assert kafka.values(topic) == ["good"]


def commit_without_answer(cluster: semel.Cluster, faulty: Kafka, topic: str) -> semel.Producer[Transactional]:
    """A producer whose commit got no answer in time."""
    producer = impatient(owner(faulty, topic))
    slow = cluster.intercept("EndTxn", Delay(ms=60_000, response=True), times=1)
    with pytest.raises(OutcomeUnknownError, match="settle"):
        send_in(producer, topic, "order 1")
    assert slow.fired == 1
    return producer


@pytest.mark.parametrize("by", ["settle", "the next transaction", "a new owner"])
def test_an_unknown_commit_is_asked_for_and_never_guessed(cluster: semel.Cluster, faulty: Kafka, by: str) -> None:
    topic = faulty.topic()
    producer = commit_without_answer(cluster, faulty, topic)
    cluster.disarm()
    if by == "settle":
        eventually(lambda: settled(producer), what="the commit is decided")
    elif by == "the next transaction":
        eventually(lambda: settled(producer), what="the commit is decided")
        send_in(producer, topic, "order 2")
    else:
        send_in(owner(faulty, topic), topic, "order 2")
    assert faulty.values(topic) == ["order 1"] + ([] if by == "settle" else ["order 2"])


def settled(producer: semel.Producer[Transactional]) -> bool:
    try:
        producer.settle()
    except OutcomeUnknownError:
        return False
    return True


def is_fenced(copy: Callable[[semel.Consumer], None], consumer: semel.Consumer) -> bool:
    try:
        copy(consumer)
    except OutcomeUnknownError:
        return False
    except FencedError:
        return True
    raise AssertionError("it copied, though nobody knows what became of the last batch")


def test_a_commit_that_never_arrived_is_aborted_by_the_next_owner(cluster: semel.Cluster, faulty: Kafka) -> None:
    topic = faulty.topic()
    steps: list[ClientStep] = []
    producer = impatient(owner(faulty, topic, steps.append))
    gone = cluster.intercept("EndTxn", DropRequest(), times=None)
    with pytest.raises(OutcomeUnknownError):
        send_in(producer, topic, "order 1")
    assert gone.fired > 0
    assert steps[-1] is ClientStep.COMMITTING
    successor = owner(faulty, topic)  # before the commit can arrive after all
    cluster.disarm()
    send_in(successor, topic, "order 2")
    assert faulty.values(topic) == ["order 2"], "the coordinator never heard of the commit, so it did not happen"


@pytest.mark.quick(1)
@pytest.mark.parametrize("happened", [True, False], ids=["it happened", "it did not"])
def test_a_batch_in_an_unknown_commit_is_handed_out_again_only_if_it_did_not_happen(
    cluster: semel.Cluster, faulty: Kafka, happened: bool
) -> None:
    """K3, K6: the consumer asks what became of the commit before it hands out anything."""
    source, target = faulty.topic(), faulty.topic()
    wanted = faulty.fill(source, 4)
    producer = impatient(owner(faulty, source))

    def copy(consumer: semel.Consumer) -> None:
        for batch in consumer.batches(records_max=2, idle_ms_max=1500):
            with producer.transaction() as tx:
                for value in batch.values():
                    tx.send(target, value)
                tx.commit_offsets(consumer)

    with semel.Consumer(faulty.bootstrap, [source], group=source, guarantee=EXACTLY) as consumer:
        hook = cluster.intercept("EndTxn", Delay(ms=60_000, response=True) if happened else DropRequest(), times=None)
        for _ in range(2):
            with pytest.raises(OutcomeUnknownError):
                copy(consumer)
        assert hook.fired > 0
        if happened:
            cluster.disarm()
            eventually(lambda: settled(producer), what="the commit is decided")
            copy(consumer)
        else:
            with owner(faulty, source):  # takes the id over and aborts, so that the commit can never happen
                pass
            cluster.disarm()
            eventually(lambda: is_fenced(copy, consumer), what="the coordinator has said who owns the id")
            producer = owner(faulty, source)
            with semel.Consumer(faulty.bootstrap, [source], group=source, guarantee=EXACTLY) as successor:
                consumer.close()
                copy(successor)
    assert faulty.values(target) == wanted

"""A loop, a batch or a transaction is left before its end: by an exception, `break`, `return` or a closed generator.

Keeps: K4 an unfinished record is neither counted as done nor skipped; K6 under exactly once results and offsets of a
       batch go together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

import semel
from semel.clients.producer import Transactional
from semel.clients.records import Batch, Record
from semel.clients.steps import ClientStep
from semel.clients.stores import Store
from semel.errors import GuaranteeError
from semel.guarantee import Guarantee
from tests.features.clusters import SETTINGS, Kafka
from tests.features.storing import InTasks, Reads

LEAST: Final = Guarantee.AT_LEAST_ONCE
EXACTLY: Final = Guarantee.EXACTLY_ONCE
RECORDS, LEFT_AT = 5, 3
QUICK = {"fetch.wait.max.ms": 20, "log_level": 0}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with semel.Cluster(brokers=1, config=SETTINGS) as cluster:
        yield Kafka(name="embedded", bootstrap=cluster.bootstrap)


@pytest.fixture
def topic(kafka: Kafka) -> str:
    made = kafka.topic()
    kafka.fill(made, RECORDS)
    return made


def consumer_of(kafka: Kafka, topic: str, guarantee: Guarantee = LEAST, store: Store | None = None) -> semel.Consumer:
    return semel.Consumer(kafka.bootstrap, [topic], group=topic, guarantee=guarantee, settings=QUICK, store=store)


def batches_of(consumer: Reads) -> Iterator[Batch]:
    return consumer.batches(idle_ms_max=20_000)


def fail_at(record: Record, offset: int = LEFT_AT) -> None:
    if record.offset == offset:
        raise ZeroDivisionError


def work_in_batches(consumer: semel.Consumer) -> None:
    try:
        for batch in batches_of(consumer):
            for record in batch:
                fail_at(record)
    finally:
        consumer.commit()


def work_on_records(consumer: semel.Consumer) -> None:
    try:
        for record in consumer.records(idle_ms_max=20_000):
            fail_at(record)
    finally:
        consumer.commit()


@pytest.mark.parametrize(("work", "committed"), [(work_in_batches, -1001), (work_on_records, LEFT_AT)])
def test_a_commit_that_cleans_up_after_an_error_counts_what_was_done(
    kafka: Kafka, topic: str, work: Callable[[semel.Consumer], None], committed: int
) -> None:
    with consumer_of(kafka, topic) as consumer:
        with pytest.raises(ZeroDivisionError):
            work(consumer)
        assert kafka.committed(topic, topic) == committed
        assert next(batches_of(consumer))[0].offset == max(committed, 0), "and goes on there"


def test_a_commit_behind_a_loop_that_was_left_is_refused(kafka: Kafka, topic: str) -> None:
    with consumer_of(kafka, topic) as consumer:
        for _ in batches_of(consumer):
            break
        with pytest.raises(GuaranteeError, match="after the loop was left") as caught:
            consumer.commit()
        assert "before break" in caught.value.you_want
        batches = batches_of(consumer)
        assert len(list(next(batches))) == RECORDS
        consumer.commit()
    assert kafka.committed(topic, topic) == RECORDS


def test_a_commit_in_the_middle_of_a_batch_is_refused(kafka: Kafka, topic: str) -> None:
    with consumer_of(kafka, topic) as consumer:
        batches = batches_of(consumer)
        records = iter(next(batches))
        next(records)
        with pytest.raises(GuaranteeError, match="at record 1 of 5") as caught:
            consumer.commit()
        assert "consumer.records()" in caught.value.you_want
        assert kafka.committed(topic, topic) < 0
        assert len(list(records)) == RECORDS - 1
        consumer.commit()
    assert kafka.committed(topic, topic) == RECORDS


def test_a_next_batch_after_a_loop_that_was_left_is_refused(kafka: Kafka, topic: str) -> None:
    with consumer_of(kafka, topic) as consumer:
        batches = batches_of(consumer)
        for record in next(batches):
            if record.offset == LEFT_AT:
                break
        with pytest.raises(GuaranteeError, match=f"left at record {LEFT_AT + 1} of {RECORDS}"):
            next(batches)
        seen = [record.offset for record in next(batches_of(consumer))]
    assert seen == list(range(RECORDS))
    assert kafka.committed(topic, topic) < 0


def test_an_old_loop_says_nothing_about_a_new_one_s_batch(kafka: Kafka, topic: str) -> None:
    with consumer_of(kafka, topic) as consumer:
        old, new = consumer.batches(records_max=2, idle_ms_max=20_000), batches_of(consumer)
        next(old)
        batch = next(new)
        old.close()  # type: ignore[attr-defined]
        assert batch[0].offset == 0
        consumer.commit()
    assert kafka.committed(topic, topic) == batch[-1].offset + 1


class InStore:
    """Results in a database with the offsets."""

    def __init__(self, kafka: Kafka, topic: str, store: Store, *, in_a_task: bool = False) -> None:
        self.store = store
        self.store.make("DROP TABLE IF EXISTS results", "CREATE TABLE results (line text)")
        self.consumer: Reads = (
            InTasks(
                semel.AsyncConsumer(
                    kafka.bootstrap, [topic], group=topic, guarantee=EXACTLY, settings=QUICK, store=store
                )
            )
            if in_a_task
            else consumer_of(kafka, topic, EXACTLY, store)
        )

    def until(self, left_at: int) -> Iterator[int]:
        """Work; left at a record by `return`, which ends the transaction as if its work were done."""
        for batch in batches_of(self.consumer):
            with self.store.transaction(batch) as t:
                for record in batch:
                    if record.offset == left_at:
                        return
                    t.execute(
                        f"INSERT INTO results VALUES ({self.store.dialect.mark})", [(record.value or b"").decode()]
                    )
                    yield record.offset
            if batch[-1].offset == RECORDS - 1:
                return

    def results(self) -> list[str]:
        with closing(self.store.connect()) as connection:
            return [line for (line,) in connection.execute("SELECT line FROM results").fetchall()]

    def close(self) -> None:
        self.consumer.close()
        self.store.close()


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "step", [ClientStep.BEGUN, ClientStep.OFFSETS_SENT, ClientStep.COMMITTING, ClientStep.COMMITTED]
)
def test_an_interrupt_inside_a_store_s_transaction_leaves_nothing_open(
    kafka: Kafka, topic: str, tmp_path: Path, step: ClientStep
) -> None:
    """Behind the commit as well: the offsets in the database tell that it happened."""
    work, left = InStore(kafka, topic, semel.SqliteStore(tmp_path / "s.db")), [step]

    def interrupt(reached: ClientStep) -> None:
        if [reached] == left:
            left.clear()
            raise KeyboardInterrupt

    work.store._on_step = interrupt
    with pytest.raises(KeyboardInterrupt):
        list(work.until(-1))
    if step is not ClientStep.COMMITTED:
        list(work.until(-1))
    else:
        assert next(work.consumer.batches(idle_ms_max=300), None) is None
    assert work.results() == [str(number) for number in range(RECORDS)]
    work.close()


class InTransaction:
    """Results in a topic, in transactions."""

    def __init__(self, kafka: Kafka, topic: str, *, offsets_first: bool) -> None:
        self.kafka, self.target, self.offsets_first = kafka, kafka.topic(), offsets_first
        self.producer: semel.Producer[Transactional] = semel.Producer(
            kafka.bootstrap, guarantee=EXACTLY, transactional_id=topic
        )
        self.consumer = consumer_of(kafka, topic, EXACTLY)

    def until(self, left_at: int) -> Iterator[int]:
        """As in the other class."""
        for batch in batches_of(self.consumer):
            with self.producer.transaction() as tx:
                if self.offsets_first:
                    tx.commit_offsets(self.consumer)
                for record in batch:
                    if record.offset == left_at:
                        return
                    tx.send(self.target, record.value)
                    yield record.offset
                if not self.offsets_first:
                    tx.commit_offsets(self.consumer)
            if batch[-1].offset == RECORDS - 1:
                return

    def results(self) -> list[str]:
        return self.kafka.values(self.target)

    def close(self) -> None:
        self.consumer.close()
        self.producer.close()


@pytest.fixture(params=["sqlite", "postgres", "offsets last", "offsets first", "sqlite, tasks", "postgres, tasks"])
def work(request: pytest.FixtureRequest, kafka: Kafka, topic: str, tmp_path: Path) -> Iterator[InStore | InTransaction]:
    made: InStore | InTransaction
    in_a_task = "tasks" in request.param
    if "sqlite" in request.param:
        made = InStore(kafka, topic, semel.SqliteStore(tmp_path / "s.db"), in_a_task=in_a_task)
    elif "postgres" in request.param:
        store = semel.PostgresStore(request.getfixturevalue("postgres").conninfo)
        made = InStore(kafka, topic, store, in_a_task=in_a_task)
    else:
        made = InTransaction(kafka, topic, offsets_first=request.param == "offsets first")
    yield made
    made.close()


@pytest.mark.quick(2)
@pytest.mark.parametrize("left_at", [LEFT_AT, RECORDS - 1], ids=["in the middle", "at the last record"])
def test_a_return_inside_a_transaction_is_refused_and_nothing_is_lost(
    work: InStore | InTransaction, left_at: int
) -> None:
    with pytest.raises(GuaranteeError, match="S046") as caught:
        list(work.until(left_at))
    assert "an exception, to undo" in caught.value.you_want
    assert work.results() == []
    list(work.until(-1))
    assert work.results() == [str(number) for number in range(RECORDS)]


@pytest.mark.quick(1)
def test_a_generator_that_is_closed_inside_a_transaction_undoes_it(work: InStore | InTransaction) -> None:
    lines = work.until(-1)
    assert next(lines) == 0
    lines.close()  # type: ignore[attr-defined]
    assert work.results() == []
    list(work.until(-1))
    assert work.results() == [str(number) for number in range(RECORDS)]


@pytest.mark.parametrize("is_finished", [False, True], ids=["second loop", "same loop"])
def test_a_batch_that_is_handed_out_again_is_not_committed_as_well(kafka: Kafka, topic: str, is_finished: bool) -> None:
    """More is asked for while the transaction with its offsets is open: it comes again, so that this is not its end."""
    work = InTransaction(kafka, topic, offsets_first=True)
    batches = batches_of(work.consumer)

    def copy(batch: Batch) -> None:
        with work.producer.transaction() as tx:
            for record in batch:
                tx.send(work.target, record.value)
            tx.commit_offsets(work.consumer)
            if is_finished:
                with pytest.raises(GuaranteeError, match="kept nowhere"):
                    next(batches)
            else:
                others = batches_of(work.consumer)
                assert next(others)[0].offset == 0

    with pytest.raises(GuaranteeError, match="S046") as caught:
        copy(next(batches))
    assert "was given up" in caught.value.you_wrote
    assert work.results() == []
    list(work.until(-1))
    assert work.results() == [str(number) for number in range(RECORDS)]
    work.close()


def test_a_batch_is_in_one_transaction_alone(kafka: Kafka, topic: str) -> None:
    """One of two could be committed and the other undone: the batch would come again for both."""
    work = InTransaction(kafka, topic, offsets_first=True)
    other: semel.Producer[Transactional] = semel.Producer(kafka.bootstrap, guarantee=EXACTLY, transactional_id="other")
    batches = batches_of(work.consumer)
    assert len(next(batches)) == RECORDS

    def keep_twice() -> None:
        with other.transaction() as first:
            first.commit_offsets(work.consumer)
            with work.producer.transaction() as second:
                second.send(work.target, "done")
                second.commit_offsets(work.consumer)

    with pytest.raises(GuaranteeError, match="S046") as caught:
        keep_twice()
    assert "another producer's transaction" in caught.value.you_wrote
    assert work.results() == []
    list(work.until(-1))
    assert work.results() == [str(number) for number in range(RECORDS)]
    work.close()
    other.close()


@pytest.mark.parametrize("how", ["settled", "rewind"])
def test_an_interrupt_before_a_batch_hears_how_it_ended_is_no_doubt_for_ever(
    kafka: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    work = InTransaction(kafka, topic, offsets_first=True)

    def interrupt(_: Batch) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    def copy(batch: Batch) -> None:
        with work.producer.transaction() as tx:
            tx.commit_offsets(work.consumer)
            for value in batch.values():
                tx.send(work.target, value)
            if how == "rewind":
                raise ZeroDivisionError

    batches = batches_of(work.consumer)
    monkeypatch.setattr(work.consumer, how, interrupt)
    with pytest.raises(KeyboardInterrupt):
        copy(next(batches))
    if how == "rewind":
        list(work.until(-1))
    assert next(work.consumer.batches(idle_ms_max=300), None) is None
    assert work.results() == [str(number) for number in range(RECORDS)]
    work.close()


def test_a_consumer_may_be_closed_before_the_transaction_with_its_offsets(kafka: Kafka, topic: str) -> None:
    work = InTransaction(kafka, topic, offsets_first=True)
    with work.producer.transaction() as tx:
        tx.send(work.target, "done")
        batches = batches_of(work.consumer)
        assert len(next(batches)) == RECORDS
        tx.commit_offsets(work.consumer)
        work.consumer.close()
    assert (work.results(), kafka.committed(topic, topic)) == (["done"], RECORDS)
    work.close()


def test_records_may_be_skipped_on_purpose_inside_a_transaction(kafka: Kafka, topic: str, tmp_path: Path) -> None:
    work = InStore(kafka, topic, semel.SqliteStore(tmp_path / "s.db"))
    with work.store.transaction(next(batches := batches_of(work.consumer))) as t:
        assert t.batch is not None
        first, *_ = list(t.batch)
        t.execute("INSERT INTO results VALUES (?)", [str(first.offset)])
        for _ in t.batch:
            break
    del batches
    assert work.results() == ["0"]
    work.close()


def test_tasks_that_leave_are_treated_alike(kafka: Kafka, topic: str) -> None:
    target = kafka.topic()

    async def clean_up(consumer: semel.AsyncConsumer) -> None:
        try:
            async for batch in consumer.batches():
                for record in batch:
                    fail_at(record)
        finally:
            await consumer.commit()

    async def copy(producer: semel.AsyncProducer[Transactional], consumer: semel.AsyncConsumer, left_at: int) -> None:
        async for batch in consumer.batches():
            async with producer.transaction() as tx:
                for record in batch:
                    if record.offset == left_at:
                        return
                    await tx.send(target, record.value)
                await tx.commit_offsets(consumer)
            if batch[-1].offset == RECORDS - 1:
                return

    async def main() -> None:
        group = semel.AsyncConsumer(kafka.bootstrap, [topic], group=topic, guarantee=LEAST, settings=QUICK)
        async with group as consumer:
            with pytest.raises(ZeroDivisionError):
                await clean_up(consumer)
        assert kafka.committed(topic, topic) < 0
        async with (
            semel.AsyncProducer(kafka.bootstrap, guarantee=EXACTLY, transactional_id=topic) as producer,
            semel.AsyncConsumer(kafka.bootstrap, [topic], group=topic, guarantee=EXACTLY, settings=QUICK) as exact,
        ):
            with pytest.raises(GuaranteeError, match="transaction without offsets"):
                await copy(producer, exact, LEFT_AT)
            await copy(producer, exact, -1)

    asyncio.run(main())
    assert kafka.values(target) == [str(number) for number in range(RECORDS)]

"""M20 A rebalance in the middle of the work: duplicates without fencing; the loser's late commit is refused.

Keeps: K5 a partition that was taken away takes its offsets along; K8 of two members one commits to the store.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import semel
from semel.clients.membership import KEEP_ALIVE_POLL_S, Membership
from semel.clients.records import Batch
from semel.errors import FencedError
from semel.guarantee import Guarantee
from tests.features.clusters import Kafka
from tests.support.waiting import eventually

RECORDS = 6
HASTY_MS, PATIENT_MS = 700, 60_000  # how long a member may work on a batch
SESSION_MS_MAX = 10_000
NEVER_MS = 3_600_000
LEAST, EXACTLY = Guarantee.AT_LEAST_ONCE, Guarantee.EXACTLY_ONCE
AT_WORK: dict[semel.Consumer, Iterator[Batch]] = {}


@contextmanager
def member(
    kafka: Kafka,
    topic: str,
    guarantee: Guarantee,
    *,
    keep_alive_ms: int = NEVER_MS,
    poll_interval_ms: int = PATIENT_MS,
    store: semel.SqliteStore | None = None,
    instance: str | None = None,
) -> Iterator[semel.Consumer]:
    """A member that is expelled when it does not poll for long, unless it is kept alive."""
    session_ms = min(poll_interval_ms - 100, SESSION_MS_MAX)
    limits = {"max.poll.interval.ms": poll_interval_ms, "session.timeout.ms": session_ms, "heartbeat.interval.ms": 100}
    with semel.Consumer(
        kafka.bootstrap,
        [topic],
        group=topic,
        guarantee=guarantee,
        settings=limits | {"log_level": 0} | ({"group.instance.id": instance} if instance else {}),
        keep_alive_ms=keep_alive_ms,
        store=store,
    ) as consumer:
        yield consumer


def values(batch: Batch) -> list[str]:
    return [(value or b"").decode() for value in batch.values()]


def first_of(consumer: semel.Consumer, records: int = RECORDS) -> Batch:
    """Take a batch and keep it: the member is at work now, for its loop is not over."""
    AT_WORK[consumer] = consumer.batches(records_max=records, idle_ms_max=20_000)
    return next(AT_WORK[consumer])


def take_over(kafka: Kafka, topic: str, guarantee: Guarantee, stack: ExitStack) -> tuple[semel.Consumer, Batch]:
    """A second member that gets the partition because the first one was expelled."""
    second = stack.enter_context(member(kafka, topic, guarantee))
    return second, first_of(second)


def test_a_slow_member_is_expelled_and_its_late_commit_refused(kafka: Kafka) -> None:
    topic = kafka.topic()
    wanted = kafka.fill(topic, RECORDS)
    with ExitStack() as stack:
        slow = stack.enter_context(member(kafka, topic, LEAST, poll_interval_ms=HASTY_MS))
        work = first_of(slow)
        second, again = take_over(kafka, topic, LEAST, stack)
        assert values(work) == values(again) == wanted, "both did the work"
        with pytest.raises(FencedError, match="refused"):
            slow.commit()
        assert slow.commits_refused == 1
        assert kafka.committed(topic, topic) < 0
        second.commit()
        assert kafka.committed(topic, topic) == RECORDS


class Closing:
    """The library's client, which says how many rebalances were served when it is told to close."""

    def __init__(self, member: Membership) -> None:
        self.client, self.member = member.client, member
        self.served = -1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def close(self) -> None:
        self.served = self.member.revocations
        self.client.close()


@pytest.mark.quick(1)
@pytest.mark.parametrize("instance", [None, "one"], ids=["dynamic", "static"])
def test_an_expelled_member_hears_of_it_before_the_library_closes(kafka: Kafka, instance: str | None) -> None:
    """Heard of while closing it stops the whole process for ever, one time in a hundred."""
    topic = kafka.topic()
    kafka.fill(topic, RECORDS)
    with ExitStack() as stack:
        slow = stack.enter_context(member(kafka, topic, LEAST, poll_interval_ms=HASTY_MS, instance=instance))
        first_of(slow)
        take_over(kafka, topic, LEAST, stack)
        assert slow._member.revocations == 0, "it has not asked yet"
        closing = slow._member.client = Closing(slow._member)
        slow.close()
    assert closing.served == 1


@pytest.mark.full
def test_a_member_that_is_kept_alive_finishes_its_work_first(kafka: Kafka) -> None:
    """The second member gets the partition when the first has finished its batch, and nothing is done twice."""
    topic = kafka.topic()
    wanted = kafka.fill(topic, RECORDS)
    done, rest = list[str](), list[str]()
    with ExitStack() as stack:
        slow = stack.enter_context(member(kafka, topic, LEAST, keep_alive_ms=50, poll_interval_ms=2_500))
        work, batches = eventually(lambda: begun(slow), what="the first member has joined")
        alive = slow._member.keep_alive
        eventually(lambda: alive.polls * KEEP_ALIVE_POLL_S > 3, what="the member was kept alive past its limit")
        second = stack.enter_context(member(kafka, topic, LEAST, keep_alive_ms=50, poll_interval_ms=2_500))
        other = threading.Thread(target=lambda: rest.extend(read(second)))
        other.start()
        eventually(lambda: alive.is_awaited, what="the rebalance waits for the batch")
        done += values(work)
        done += [value for batch in batches for value in values(batch)]
        other.join(60)
    assert sorted(done + rest, key=int) == wanted, "each record was processed by one of the two"
    assert slow.commits_refused == 0


@pytest.mark.quick(1)
def test_a_batch_that_was_paused_and_given_up_is_read_again(kafka: Kafka) -> None:
    """The pause of the keep-alive must not undo the way back."""
    topic = kafka.topic()
    wanted = kafka.fill(topic, RECORDS)
    with member(kafka, topic, LEAST, keep_alive_ms=50) as consumer:
        work = first_of(consumer, RECORDS // 2)
        eventually(lambda: consumer._member.keep_alive.polls > 2, what="the partitions are paused")
        again = [value for batch in consumer.batches(idle_ms_max=2_500) for value in values(batch)]
    assert values(work) == wanted[: RECORDS // 2]
    assert again == wanted
    assert kafka.committed(topic, topic) == RECORDS


def begun(consumer: semel.Consumer) -> tuple[Batch, Iterator[Batch]] | None:
    """Its first batch and those that follow, if it had joined its group in time for one."""
    batches = consumer.batches(records_max=RECORDS // 2, idle_ms_max=2_500)
    work = next(batches, None)
    return None if work is None else (work, batches)


def read(consumer: semel.Consumer) -> list[str]:
    return [value for batch in consumer.batches(idle_ms_max=2_500) for value in values(batch)]


@pytest.mark.quick(2)
@pytest.mark.parametrize("exact", [True, False], ids=["offsets in the transaction", "offsets apart"])
def test_a_transaction_of_an_expelled_member_is_refused(kafka: Kafka, exact: bool) -> None:
    """Without offsets in the transaction the group cannot refuse it, and both copies are there for good."""
    topic, target = kafka.topic(), kafka.topic()
    wanted = kafka.fill(topic, RECORDS)
    guarantee = EXACTLY if exact else LEAST
    with ExitStack() as stack:
        slow = stack.enter_context(member(kafka, topic, guarantee, poll_interval_ms=HASTY_MS))
        work = first_of(slow)
        second, again = take_over(kafka, topic, guarantee, stack)
        copy(kafka, f"{topic}-second", target, again, second if exact else None)
        if exact:
            with pytest.raises(FencedError):
                copy(kafka, f"{topic}-slow", target, work, slow)
        else:
            copy(kafka, f"{topic}-slow", target, work, None)
    assert kafka.values(target) == wanted * (1 if exact else 2)


def copy(kafka: Kafka, name: str, target: str, batch: Batch, consumer: semel.Consumer | None) -> None:
    with (
        semel.Producer(kafka.bootstrap, guarantee=Guarantee.EXACTLY_ONCE, transactional_id=name) as producer,
        producer.transaction() as tx,
    ):
        for value in batch.values():
            tx.send(target, value)
        if consumer is not None:
            tx.commit_offsets(consumer)


def test_a_store_refuses_the_expelled_member(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic()
    wanted = kafka.fill(topic, RECORDS)
    with ExitStack() as stack:
        stores = [stack.enter_context(semel.SqliteStore(tmp_path / "s.db")) for _ in range(2)]
        stores[0].make("CREATE TABLE results (line text)")
        slow = stack.enter_context(member(kafka, topic, EXACTLY, poll_interval_ms=HASTY_MS, store=stores[0]))
        work = first_of(slow)
        second = stack.enter_context(member(kafka, topic, EXACTLY, store=stores[1]))
        keep(stores[1], first_of(second))
        with pytest.raises(FencedError, match="not where the batch begins"):
            keep(stores[0], work)
        with closing(stores[0].connect()) as connection:
            kept = [line for (line,) in connection.execute("SELECT line FROM results")]
    assert kept == wanted


def keep(store: semel.SqliteStore, batch: Batch) -> None:
    with store.transaction(batch) as t:
        for value in values(batch):
            t.execute("INSERT INTO results VALUES (?)", [value])

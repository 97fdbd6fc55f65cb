"""How clients are used and misused: threads, forks, full queues, closed clients, loops that are left.

Keeps: K4 an unfinished record is neither counted as done nor skipped; K6 under exactly once nothing is handed out while
       the offsets of the last batch are kept nowhere.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Final

import pytest

import semel
from semel.broker.runtime.intercept import AnswerError, Delay
from semel.clients.producer import Plain
from semel.errors import BrokerError, ConfigError, GuaranteeError, MissingExtraError, Outcome
from semel.guarantee import Guarantee
from semel.protocol.error_codes import ErrorCode
from semel.protocol.topic_partition import TopicPartition
from tests.features.clusters import SETTINGS, Kafka

MOST, LEAST, _ = Guarantee
EXACTLY: Final = Guarantee.EXACTLY_ONCE
NOWHERE = "127.0.0.1:1"
QUICK = {"fetch.wait.max.ms": 20}


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config=SETTINGS) as started:
        yield started


@pytest.fixture
def kafka(cluster: semel.Cluster) -> Iterator[Kafka]:
    yield Kafka(name="embedded", bootstrap=cluster.bootstrap)
    cluster.disarm()


def producer_of(kafka: Kafka, **settings: object) -> semel.Producer[Plain]:
    return semel.Producer(kafka.bootstrap, guarantee=LEAST, settings={"log_level": 0, **settings})


def consumer_of(kafka: Kafka, topic: str, guarantee: Guarantee = LEAST, **settings: object) -> semel.Consumer:
    return semel.Consumer(kafka.bootstrap, [topic], group=topic, guarantee=guarantee, settings=QUICK | settings)


def test_a_result_says_where_the_record_is(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    with producer_of(kafka) as producer:
        first, second = (producer.send(topic, b"v", partition=1, timestamp_ms=5, key="k") for _ in range(2))
        assert not first.done
        assert first.result() == (topic, 1, 0, 5)
        assert second.result().offset == 1
        assert (first.done, first.error()) == (True, None)


def test_headers_keys_nulls_and_times_arrive(kafka: Kafka) -> None:
    topic = kafka.topic()
    with producer_of(kafka) as producer:
        producer.send(topic, None, key=b"k", headers=[("a", b"1"), ("a", None)], timestamp_ms=1234)
        producer.send(topic, "text")
    with consumer_of(kafka, topic) as consumer:
        first, second = next(consumer.batches(idle_ms_max=20_000))
        assert (first.key, first.value, first.headers, first.timestamp_ms) == (
            b"k",
            None,
            [("a", b"1"), ("a", None)],
            1234,
        )
        assert (second.key, second.value, second.headers, second.offset) == (None, b"text", [], 1)
        assert first.place == TopicPartition(topic, 0)
        assert "text" not in repr(second), "what is in a record may be private"


@pytest.mark.parametrize("bad", [{"value": 5}, {"value": b"", "key": 1.5}, {"value": b"", "headers": [("a", 5)]}])
def test_what_is_no_record_is_refused(kafka: Kafka, bad: dict[str, object]) -> None:
    with producer_of(kafka) as producer, pytest.raises(ConfigError, match="cannot be sent"):
        producer.send("t", **bad)  # type: ignore[arg-type]


def send_all(producer: semel.Producer[Plain], topic: str, records: int) -> None:
    for number in range(records):
        producer.send(topic, str(number))


def test_a_full_queue_waits_and_then_says_so(cluster: semel.Cluster, kafka: Kafka) -> None:
    topic = kafka.topic()
    settings = {"queue.buffering.max.messages": 10, "linger.ms": 0, "log_level": 0}
    producer = semel.Producer(kafka.bootstrap, guarantee=LEAST, settings=settings, wait_ms_max=300)
    producer.send(topic, "first").result(20)
    slow = cluster.intercept("Produce", Delay(ms=60_000), times=None)
    with pytest.raises(BrokerError, match="queue was full") as caught:
        send_all(producer, topic, 20)
    assert (caught.value.outcome, slow.fired > 0) == (Outcome.DID_NOT_HAPPEN, True)
    with pytest.raises(BrokerError, match="no result") as unflushed:
        producer.flush()
    assert unflushed.value.outcome is Outcome.UNKNOWN
    cluster.disarm()
    producer.flush(20)
    producer.send(topic, "last").result(20)
    producer.close()
    assert sorted(kafka.values(topic)) == sorted(["first", *map(str, range(10)), "last"])


def test_more_records_than_the_queue_holds_all_arrive(kafka: Kafka) -> None:
    topic = kafka.topic()
    with producer_of(kafka, **{"queue.buffering.max.messages": 10, "linger.ms": 0}) as producer:
        sent = [producer.send(topic, str(number)) for number in range(500)]
        assert [one.result().offset for one in sent] == list(range(500))


def test_threads_share_a_producer(kafka: Kafka) -> None:
    topic = kafka.topic()
    errors: list[Exception] = []

    def send(name: str) -> None:
        try:
            sent = [producer.send(topic, f"{name}-{number}") for number in range(200)]
            assert len({one.result().offset for one in sent}) == 200
        except Exception as error:  # noqa: BLE001 - shown by the main thread
            errors.append(error)

    with producer_of(kafka) as producer:
        threads = [threading.Thread(target=send, args=(str(number),)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert errors == []
    assert sorted(kafka.values(topic)) == sorted(f"{name}-{number}" for name in range(4) for number in range(200))


FORKED = """
import os, sys, semel
producer = semel.Producer(sys.argv[1], guarantee="at_least_once")
producer.send(sys.argv[2], "parent").result()
owner = semel.Producer(sys.argv[1], guarantee="exactly_once", transactional_id=sys.argv[2])
consumer = semel.Consumer(sys.argv[1], [sys.argv[2]], group=sys.argv[2], guarantee="at_least_once")
uses = {
    "send": lambda: producer.send(sys.argv[2], "child"),
    "flush": producer.flush,
    "transaction": owner.transaction,
    "batches": lambda: next(consumer.batches()),
}
if os.fork() == 0:
    for name, use in uses.items():
        try:
            use()
        except semel.SemelError as error:
            print(name, "made in another process" in str(error))
    producer.close(), owner.close(), consumer.close()
    sys.exit()  # with all the ends of a process: nothing may hang
print("child", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
producer.send(sys.argv[2], "parent again").result()
producer.close(), owner.close(), consumer.close()
"""


def test_a_forked_child_gets_an_error_and_the_parent_goes_on(kafka: Kafka) -> None:
    topic = kafka.topic()
    ran = subprocess.run(
        [sys.executable, "-c", FORKED, kafka.bootstrap, topic], capture_output=True, text=True, timeout=60, check=False
    )
    said = ["send True", "flush True", "transaction True", "batches True", "child 0"]
    assert (ran.returncode, sorted(ran.stdout.splitlines())) == (0, sorted(said)), ran.stderr
    assert kafka.values(topic) == ["parent", "parent again"]


FORKED_TASKS = """
import asyncio, os, sys, semel
runner = asyncio.Runner()
consumer = semel.AsyncConsumer(sys.argv[1], [sys.argv[2]], group=sys.argv[2], guarantee="at_least_once")
producer = semel.AsyncProducer(sys.argv[1], guarantee="exactly_once", transactional_id=sys.argv[2])
plain = semel.AsyncProducer(sys.argv[1], guarantee="at_least_once")
for client in (consumer, producer, plain):
    runner.run(client.__aenter__())
async def transaction():
    async with producer.transaction():
        pass
uses = {
    "batches": lambda: anext(consumer.batches()),
    "commit": consumer.commit,
    "transaction": transaction,
    "flush": plain.flush,
}
async def use(name):
    try:
        await asyncio.wait_for(uses[name](), 20)
    except semel.SemelError as error:
        print(name, "made in another process" in str(error), flush=True)
if os.fork() == 0:
    for name in uses:
        asyncio.run(use(name))
    sys.exit()  # with all the ends of a process: nothing may hang
print("child", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
async def again():
    async with producer.transaction() as tx:
        await tx.send(sys.argv[2], "parent")
    print("parent", (await anext(consumer.batches(idle_ms_max=20_000)))[0].value)
    for client in (consumer, producer, plain):
        await client.close()
runner.run(again())
runner.close()
"""


def test_forked_tasks_get_an_error_and_the_parent_goes_on(kafka: Kafka) -> None:
    """The thread that does what blocks is not in the child: whatever is asked of it would never be done."""
    topic = kafka.topic()
    ran = subprocess.run(
        [sys.executable, "-c", FORKED_TASKS, kafka.bootstrap, topic],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = ["batches True", "commit True", "transaction True", "flush True", "child 0", "parent b'parent'"]
    assert (ran.returncode, ran.stdout.splitlines()) == (0, said), ran.stderr


def test_closed_clients_say_so(kafka: Kafka) -> None:
    topic = kafka.topic()
    producer, consumer = producer_of(kafka), consumer_of(kafka, topic)
    for client in (producer, consumer):
        client.close()
        client.close()
    with pytest.raises(ConfigError, match="producer is closed"):
        producer.send(topic, "x")
    with pytest.raises(ConfigError, match="consumer is closed"):
        next(consumer.batches())


def test_a_close_that_could_not_send_says_what_is_left_to_do() -> None:
    producer = semel.Producer(NOWHERE, guarantee=LEAST, settings={"log_level": 0}, wait_ms_max=100)
    producer.send("t", "x")
    with pytest.raises(BrokerError, match="1 records have no result") as caught:
        producer.close()
    assert caught.value.outcome is Outcome.UNKNOWN
    assert "this producer is closed" in caught.value.next_command


def test_a_missing_library_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from semel.clients import library

    library.confluent.cache_clear()
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[clients\]\""):
        semel.Producer(NOWHERE, guarantee=LEAST)


def test_importing_semel_imports_no_client() -> None:
    code = "import sys, semel, semel.clients.settings; sys.exit('confluent_kafka' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def read(consumer: semel.Consumer, stop_at: int | None = None, **options: int) -> list[int]:
    """Read records one by one; leave the loop at a record without finishing it."""
    seen = []
    for record in consumer.records(idle_ms_max=700, **options):
        if record.offset == stop_at:
            break
        seen.append(record.offset)
    return seen


def test_a_loop_that_is_left_goes_on_where_it_was_left(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.fill(topic, 10)
    with consumer_of(kafka, topic) as consumer:
        assert read(consumer, stop_at=4) == [0, 1, 2, 3]
        assert read(consumer, stop_at=8, records_max=3) == [4, 5, 6, 7]
    assert kafka.committed(topic, topic) == 8
    with consumer_of(kafka, topic) as consumer:
        assert read(consumer) == [8, 9]
    assert kafka.committed(topic, topic) == 10


def test_commit_counts_the_record_in_hand(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.fill(topic, 10)
    with consumer_of(kafka, topic) as consumer:
        for record in consumer:
            if record.offset == 4:
                consumer.commit()
                assert kafka.committed(topic, topic) == 5
                break
        assert read(consumer) == [5, 6, 7, 8, 9]


def test_an_exception_gives_the_batch_up(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.fill(topic, 6)

    def fail(consumer: semel.Consumer) -> None:
        for _ in consumer.batches(records_max=3):
            raise ZeroDivisionError

    with consumer_of(kafka, topic) as consumer:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                fail(consumer)
        assert read(consumer) == list(range(6))


def test_at_most_once_does_not_hand_out_twice_what_was_left(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.fill(topic, 6)
    kafka.commit_start(topic, topic)
    with consumer_of(kafka, topic, MOST) as consumer:
        assert read(consumer, stop_at=1, records_max=2) == [0]
        assert read(consumer, records_max=2) == [2, 3, 4, 5]


def test_exactly_once_hands_out_nothing_more_until_the_offsets_are_kept(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.fill(topic, 6)
    with consumer_of(kafka, topic, EXACTLY) as consumer:
        batches = consumer.batches(records_max=3)
        next(batches)
        with pytest.raises(GuaranteeError, match="S046") as caught:
            next(batches)
        assert "tx.commit_offsets(consumer)" in caught.value.you_want
        with pytest.raises(GuaranteeError, match="for record in consumer"):
            next(iter(consumer))
        with pytest.raises(GuaranteeError, match="S046"):
            consumer.commit()
        assert next(consumer.batches())[0].offset == 0, "and nothing is skipped"


def test_an_aborted_transaction_hands_its_batch_out_again(kafka: Kafka) -> None:
    topic, target = kafka.topic(), kafka.topic()
    wanted = kafka.fill(topic, 6)
    producer = semel.Producer(kafka.bootstrap, guarantee=EXACTLY, transactional_id=topic)

    def copy(consumer: semel.Consumer, *, fails: bool) -> None:
        for batch in consumer.batches(records_max=2, idle_ms_max=700):
            with producer.transaction() as tx:
                for value in batch.values():
                    tx.send(target, value)
                tx.commit_offsets(consumer)
                if fails:
                    raise ZeroDivisionError

    with producer, consumer_of(kafka, topic, EXACTLY) as consumer:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                copy(consumer, fails=True)
        copy(consumer, fails=False)
    assert kafka.values(target) == wanted
    assert kafka.committed(topic, topic) == 6


def test_offsets_of_weaker_consumers_have_no_place_in_a_transaction(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.fill(topic, 1)
    producer = semel.Producer(kafka.bootstrap, guarantee=EXACTLY, transactional_id=topic)
    with producer, consumer_of(kafka, topic) as consumer:
        next(consumer.batches())
        with pytest.raises(GuaranteeError, match="commit_offsets") as caught, producer.transaction() as tx:
            tx.commit_offsets(consumer)
    assert caught.value.rule == "S046"


@pytest.mark.parametrize(("topics", "match"), [("orders", "list of topics"), ([], "list of topics")])
def test_topics_are_a_list(topics: list[str], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        semel.Consumer(NOWHERE, topics, group="g", guarantee=LEAST)


def test_a_store_belongs_to_exactly_once(tmp_path: os.PathLike[str]) -> None:
    with pytest.raises(GuaranteeError, match="store"):
        semel.Consumer(NOWHERE, ["t"], group="g", guarantee=LEAST, store=semel.SqliteStore(f"{tmp_path}/s.db"))


def test_a_topic_that_is_not_there_is_an_error_not_a_wait(kafka: Kafka) -> None:
    with consumer_of(kafka, "not-there") as consumer, pytest.raises(BrokerError, match="cannot be read"):
        next(consumer.batches(idle_ms_max=20_000))


def test_records_that_are_gone_are_an_error_not_a_silent_skip(kafka: Kafka) -> None:
    """The group's position points behind the log: the library would begin again somewhere without a word."""
    topic = kafka.topic()
    kafka.fill(topic, 3)
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place

    member = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": topic})
    member.commit(offsets=[Place(topic, 0, 77)], asynchronous=False)
    member.close()
    with consumer_of(kafka, topic) as consumer, pytest.raises(BrokerError, match="AUTO_OFFSET_RESET"):
        next(consumer.batches(idle_ms_max=20_000))


def test_a_failure_that_nobody_looked_at_is_told_by_flush_once(cluster: semel.Cluster, kafka: Kafka) -> None:
    topic = kafka.topic()
    producer = producer_of(kafka)
    producer.send(topic, "good").result()
    refused = cluster.intercept("Produce", AnswerError(code=ErrorCode.INVALID_RECORD), times=None)
    for _ in range(2):
        producer.send(topic, "x")
    with pytest.raises(BrokerError, match="INVALID_RECORD") as caught:
        producer.flush(20)
    assert caught.value.outcome is Outcome.DID_NOT_HAPPEN
    assert caught.value.__notes__ == ["2 records failed; this is the first that nobody had looked at"]
    looked_at = producer.send(topic, "x")
    with pytest.raises(BrokerError):
        looked_at.result()
    producer.flush(20)
    producer.send(topic, "x")
    with pytest.raises(BrokerError):
        producer.close()
    assert refused.fired > 0
    assert kafka.values(topic) == ["good"]


def test_a_partition_that_was_given_up_is_not_counted_with_another(kafka: Kafka) -> None:
    """The library goes on telling the old position of a partition that was moved back and has read nothing since."""
    topic = kafka.topic(2)
    kafka.fill(topic, 40, keyed=True)
    with consumer_of(kafka, topic) as consumer:
        seen: set[int] = set()
        while seen != {0, 1}:  # give up batches until one of each partition was handed out
            batches = consumer.batches(idle_ms_max=20_000)
            seen |= {record.partition for record in next(batches)}
            if seen != {0, 1}:
                consumer.commit()
        before = [kafka.committed(topic, topic, number) for number in (0, 1)]
        batches = consumer.batches(records_max=1, idle_ms_max=20_000)
        record = next(batches)[0]
        consumer.commit()
        after = [kafka.committed(topic, topic, number) for number in (0, 1)]
    assert after[record.partition] == record.offset + 1
    assert after[1 - record.partition] == before[1 - record.partition]

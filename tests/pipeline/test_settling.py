"""Markers that never came: what a decided transaction left open is ended as it was decided, before anything is written.

Keeps: E21 of docs/DESIGN.md; without it rows that were aborted appear, or readers and the pipeline wait for good.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from semel.broker.api import k27_write_txn_markers
from semel.broker.api.k27_write_txn_markers import Write
from semel.broker.network.context import Context
from semel.cli import main
from semel.engine.apache import ApacheCluster
from semel.engine.embedded import Cluster
from semel.errors import BrokerError, SinkError
from semel.guarantee import Guarantee
from semel.pipeline import facts
from semel.pipeline.acts import Repair
from semel.protocol.coordinator_partition import GROUP_TOPIC
from semel.protocol.messages.write_txn_markers import WritableTxnMarker
from semel.sinks.base import MicroBatch
from semel.sinks.kafka import session as sessions
from semel.sinks.kafka import settling
from semel.sinks.kafka.session import KafkaSession
from semel.sinks.kafka.sink import KafkaOutput
from semel.sinks.recovery import Plan
from semel.wire.admin import TransactionInfo, describe_transaction
from semel.wire.cluster import WireCluster, shared_cluster
from semel.wire.group_offsets import committed_offsets
from semel.wire.produce import send_batches
from semel.wire.settings import WireSettings
from semel.wire.topology import TopicPartition
from semel.wire.transaction import TransactionClient
from tests.support.checkpoints import QUERY
from tests.support.recreating import recreate_topic
from tests.support.waiting import eventually
from tests.wire.records import batch_of

PARTITIONS = 3
WAIT_S = 30.0
APACHE_TRIES = 12
_numbers = count()


class Job:
    """A pipeline of one micro-batch after the other; each writes one row to every partition of its output."""

    def __init__(self, bootstrap: str) -> None:
        number = next(_numbers)
        self.bootstrap = bootstrap
        self.name, self.source, self.output = f"settled-{number}", f"settled-in-{number}", f"settled-out-{number}"
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        topics = [NewTopic(self.source, 1, 1), NewTopic(self.output, PARTITIONS, 1)]
        for future in admin.create_topics(topics).values():
            future.result(WAIT_S)
        self.places = [TopicPartition(self.output, index) for index in range(PARTITIONS)]
        eventually(lambda: len(self.wire.topics(self.wire.deadline(), [self.source, self.output])) == len(topics))

    @property
    def wire(self) -> WireCluster:
        return shared_cluster(WireSettings.from_options({"kafka.bootstrap.servers": self.bootstrap}))

    def session(self) -> KafkaSession:
        return KafkaOutput(self.bootstrap, self.output).open(self.name)

    def micro_batch(self, number: int) -> MicroBatch:
        source = TopicPartition(self.source, 0)
        return MicroBatch(
            pipeline=self.name,
            query_id=QUERY,
            id=number,
            guarantee=Guarantee.EXACTLY_ONCE,
            offsets={source: number + 1},
            offsets_before={source: number},
        )

    def write(self, session: KafkaSession, number: int) -> Plan:
        """Everything up to the end: rows are written, entries too."""
        self.producer, micro_batch = session.own(), self.micro_batch(number)
        session.read_ledger(micro_batch)
        decision = session.decide(micro_batch, is_stateful=False, checkpoint="")
        if decision.action is Plan.RUN:
            session.begin()
            rows = [(place, batch_of([f"{number}"], transactional=True)) for place in self.places]
            send_batches(session.cluster, rows, producer=self.producer, deadline=session.cluster.deadline())
            session.write_ledger(micro_batch)
        return decision.action

    def leave_open(self, session: KafkaSession, number: int, lose: Lose, lost: str, *, is_commit: bool = True) -> None:
        """Write a micro-batch and end it; these markers never come."""
        assert self.write(session, number) is Plan.RUN
        lose(self, lost)
        if is_commit:
            session.commit()
        else:
            session.abort()

    def run(self, session: KafkaSession, number: int) -> None:
        """As Spark would: run it or leave it out, as the ledger says."""
        action = self.write(session, number)
        assert action in (Plan.RUN, Plan.SKIP)
        if action is Plan.RUN:
            session.commit()

    def rows(self) -> Counter[tuple[int, str]]:
        """What a reader of committed records finds; it has to come to the end of the log."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "reader", "enable.partition.eof": True}
        settings |= {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        reader = Consumer(settings | {"fetch.wait.max.ms": 10})
        try:
            places = [Place(self.output, index, 0) for index in range(PARTITIONS)]
            reader.assign(places)
            found: Counter[tuple[int, str]] = Counter()
            ended: set[int] = set()

            def read() -> bool:
                record = reader.poll(0.2)
                if record is not None and record.error() is None:
                    found[record.partition() or 0, (record.value() or b"").decode()] += 1
                elif record is not None:
                    ended.add(record.partition() or 0)
                return len(ended) == PARTITIONS

            eventually(read, WAIT_S, what="the end of every partition")
        finally:
            reader.close()
        return found

    def check_exact(self, numbers: int) -> None:
        wanted = {(index, str(number)): 1 for index in range(PARTITIONS) for number in range(numbers)}
        assert self.rows() == wanted


@pytest.fixture(scope="module")
def brokers() -> Iterator[Cluster]:
    with Cluster(brokers=3, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture
def job(brokers: Cluster) -> Job:
    return Job(brokers.bootstrap)


Lost = Callable[[Job, TopicPartition], bool]
Lose = Callable[[Job, str], None]
LOST: dict[str, Lost] = {
    "all": lambda job, place: place.topic in (job.output, GROUP_TOPIC),
    "rows": lambda job, place: place.topic == job.output,
    "some rows": lambda job, place: place.topic == job.output and place.partition > 0,
    "entries": lambda _, place: place.topic == GROUP_TOPIC,
    "entries and some rows": lambda job, place: (
        place.topic == GROUP_TOPIC or (place.topic == job.output and place.partition > 0)
    ),
}


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Lose:
    """The coordinator believes that these markers of the open transaction were written, and they are not."""

    def arm(job: Job, lost: str) -> None:
        mine, append = job.producer, k27_write_txn_markers._append

        def append_others(context: Context, marker: WritableTxnMarker, write: Write) -> None:
            is_mine = (marker.producer_id, marker.producer_epoch) == (mine.producer_id, mine.producer_epoch)
            if not is_mine or not LOST[lost](job, TopicPartition(write.topic, write.index)):
                append(context, marker, write)

        monkeypatch.setattr(k27_write_txn_markers, "_append", append_others)

    return arm


def another_driver(job: Job, _: KafkaSession) -> KafkaSession:
    """Another driver."""
    return job.session()


def same(_: Job, session: KafkaSession) -> KafkaSession:
    """The driver lives."""
    return session


def after_a_dead_one(job: Job, _: KafkaSession) -> KafkaSession:
    """Another driver, after one that died when it had taken over: the coordinator tells nothing any more."""
    TransactionClient(job.wire, job.name, timeout_ms=60_000).begin(job.wire.deadline())
    return job.session()


@pytest.mark.parametrize("driver", [another_driver, same, after_a_dead_one])
@pytest.mark.parametrize("is_commit", [True, False], ids=["committed", "aborted"])
@pytest.mark.parametrize("lost", list(LOST))
def test_what_is_open_is_ended(
    job: Job,
    lose: Lose,
    lost: str,
    is_commit: bool,
    driver: Callable[[Job, KafkaSession], KafkaSession],
) -> None:
    first = job.session()
    job.run(first, 0)
    job.leave_open(first, 1, lose, lost, is_commit=is_commit)
    second = driver(job, first)
    job.run(second, 1)
    job.run(second, 2)
    job.check_exact(3)


def test_without_it_aborted_rows_appear(job: Job, lose: Lose, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "find_unsettled", lambda *_, **__: None)
    job.leave_open(job.session(), 0, lose, "rows", is_commit=False)
    job.run(job.session(), 0)
    assert set(job.rows().values()) == {2}


def test_without_it_the_pipeline_waits(job: Job, lose: Lose, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "find_unsettled", lambda *_, **__: None)
    job.leave_open(job.session(), 0, lose, "all")
    job.session().own()
    wire = job.wire
    with pytest.raises(BrokerError, match="UNSTABLE_OFFSET_COMMIT"):
        committed_offsets(wire, job.name, [TopicPartition(job.source, 0)], deadline=wire.deadline(1_000))


# --- the command


def command(job: Job, *more: str) -> list[str]:
    return ["pipeline", "repair", job.name, "--bootstrap", job.bootstrap, *more]


def test_repair_shows_and_then_ends(job: Job, lose: Lose, capsys: pytest.CaptureFixture[str]) -> None:
    job.leave_open(job.session(), 0, lose, "all")
    assert main(command(job, "--dry-run")) == 0
    shown = capsys.readouterr()
    assert f"{job.output}-0" in shown.out
    assert "committed (its coordinator says so)" in shown.out
    assert "nothing was changed" in shown.err
    assert main(command(job, "--yes", "--format", "json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["outcome"], told["done"], len(told["open"])) == ("committed", True, PARTITIONS + 1)
    job.check_exact(1)
    assert main(command(job)) == 0
    assert "nothing is open" in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["committed", "aborted"])
def test_repair_asks_where_nothing_tells(
    job: Job, lose: Lose, ending: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A partition that could not be read to its end may hold the marker."""
    job.leave_open(job.session(), 0, lose, "all")
    TransactionClient(job.wire, job.name, timeout_ms=60_000).begin(job.wire.deadline())
    monkeypatch.setattr(settling, "_by_markers", lambda *_: (None, "it is too large"))
    with pytest.raises(SinkError, match="nothing tells how it ended") as raised:
        job.session().own()
    words = (raised.value.next_command or "").split()
    assert main([*words[1:], "--yes"]) == 2
    assert "nothing was changed: say how, with --as" in capsys.readouterr().err
    assert main([*words[1:], "--yes", "--as", ending]) == 0
    assert job.write(job.session(), 0) is (Plan.SKIP if ending == "committed" else Plan.RUN)


def test_repair_does_not_contradict(job: Job, lose: Lose) -> None:
    job.leave_open(job.session(), 0, lose, "all")
    with pytest.raises(SinkError, match="was committed"):
        Repair(cluster=job.wire, name=job.name, is_commit=False).look()


def test_repair_of_what_runs_or_is_unknown(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(job)) == 3
    assert "no transaction was ever begun" in capsys.readouterr().err
    job.write(job.session(), 0)
    with pytest.raises(SinkError, match="its transaction is open"):
        Repair(cluster=job.wire, name=job.name).look()


# --- the status


def status(job: Job, capsys: pytest.CaptureFixture[str]) -> tuple[str, list[str]]:
    """The owner's line, and the partitions that the JSON names."""
    arguments = ["pipeline", "status", job.name, "--bootstrap", job.bootstrap]
    capsys.readouterr()
    main(arguments)
    shown = capsys.readouterr().out
    main([*arguments, "--format", "json"])
    named: list[str] = json.loads(capsys.readouterr().out)["owner"]["unsettled"]
    return next(line for line in shown.splitlines() if line.startswith("owner ")), named


@pytest.mark.parametrize("is_repaired", [True, False], ids=["repair", "next start"])
@pytest.mark.parametrize("is_commit", [True, False], ids=["committed", "aborted"])
@pytest.mark.parametrize("lost", list(LOST))
def test_the_status_names_what_is_open(
    job: Job, lose: Lose, capsys: pytest.CaptureFixture[str], *, lost: str, is_commit: bool, is_repaired: bool
) -> None:
    """E21: its coordinator calls the transaction complete, and readers of these partitions wait."""
    session = job.session()
    job.run(session, 0)
    assert status(job, capsys)[1] == []
    job.leave_open(session, 1, lose, lost, is_commit=is_commit)
    line, named = status(job, capsys)
    assert [name for name in named if not name.startswith(GROUP_TOPIC)] == [
        str(place) for place in job.places if LOST[lost](job, place)
    ]
    assert any(name.startswith(GROUP_TOPIC) for name in named) == LOST[lost](job, TopicPartition(GROUP_TOPIC, 0))
    ending = "committed" if is_commit else "aborted"
    assert f"its last transaction is decided ({ending}) and still open on {', '.join(named)}: the next start" in line
    words = line.partition("ends it, or ")[2].split()
    assert words == ["semel", *command(job)]
    if is_repaired:
        assert main([*words[1:], "--yes"]) == 0
    else:
        job.run(job.session(), 1)
    line, named = status(job, capsys)
    assert "no transaction is open" in line
    assert named == []


def test_the_status_of_an_end_that_was_being_told(
    job: Job, lose: Lose, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When its owner was asked for first, the coordinator had yet to tell the partitions, as far as it knows."""
    job.leave_open(job.session(), 0, lose, "rows", is_commit=False)
    eventually(lambda: facts.owner_of(job.wire, job.name).state == "CompleteAbort")  # type: ignore[union-attr]
    asked = count()

    def describe(*arguments: Any) -> TransactionInfo:
        info = describe_transaction(*arguments)
        return info if next(asked) % 3 else replace(info, state="PrepareAbort")

    monkeypatch.setattr(facts, "describe_transaction", describe)
    line, named = status(job, capsys)
    assert "CompleteAbort: its last transaction is decided (aborted) and still open on" in line
    assert named == [str(place) for place in job.places]


def test_the_status_where_nothing_tells(
    job: Job, lose: Lose, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A start would be refused, so that is what is forecast; one that owns nothing would not."""
    job.leave_open(job.session(), 0, lose, "rows")
    TransactionClient(job.wire, job.name, timeout_ms=60_000).begin(job.wire.deadline())
    monkeypatch.setattr(settling, "_by_markers", lambda *_: (None, "it is too large"))
    line, _ = status(job, capsys)
    assert "nothing tells how it ended (it is too large): a start is refused until semel pipeline repair" in line
    rows = {}
    for guarantee in Guarantee:
        main(
            ["pipeline", "status", job.name, "--bootstrap", job.bootstrap, "--guarantee", guarantee, "--format", "json"]
        )
        rows[guarantee] = {one["row"] for one in json.loads(capsys.readouterr().out)["next"]}
    assert rows[Guarantee.EXACTLY_ONCE] == rows[Guarantee.AT_MOST_ONCE] == {"owner"}
    assert "owner" not in rows[Guarantee.AT_LEAST_ONCE]


def test_a_driver_that_runs_has_nothing_unsettled(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins a transaction between two questions of the status: what is open then is its own."""
    session = job.session()
    job.run(session, 0)
    look = settling.look_everywhere

    def begins_meanwhile(*asked: Any, **more: Any) -> settling.Unsettled | None:
        job.write(session, 1)
        found = look(*asked, **more)
        assert found is not None
        return found

    monkeypatch.setattr(settling, "look_everywhere", begins_meanwhile)
    gathered = facts.with_unsettled(job.wire, facts.gather_facts(job.wire, job.name))
    assert (gathered.unsettled, gathered.not_looked, gathered.is_open) == (None, "", True)
    session.commit()
    job.check_exact(2)


# --- the output is replaced under a driver that runs


@pytest.mark.parametrize("partitions", [1, PARTITIONS, PARTITIONS + 1])
def test_the_output_is_created_again(job: Job, partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "TARGETS_AGE_MS_MAX", 0)
    session = job.session()
    job.run(session, 0)
    recreate_topic(job.bootstrap, job.output, partitions)
    with pytest.raises(SinkError, match="deleted and created again while it ran"):
        session.own()


# --- the real thing


@pytest.mark.parametrize("is_commit", [True, False], ids=["committed", "aborted"])
@pytest.mark.full
def test_a_node_is_killed_before_its_markers(is_commit: bool) -> None:
    """Apache Kafka's only node and the driver are killed right after the answer, until it happens."""
    with ApacheCluster() as apache:
        for _ in range(APACHE_TRIES):
            job = Job(apache.bootstrap)
            session = job.session()
            job.write(session, 0)
            if is_commit:
                session.commit()
            else:
                session.abort()
            apache.kill_node(1)
            apache.start_node(1)
            apache.wait_until_ready()
            is_open = Repair(cluster=job.wire, name=job.name).look() is not None
            job.run(job.session(), 0)
            job.check_exact(1)
            if is_open:
                return
    pytest.fail(f"{APACHE_TRIES} kills, and the coordinator told everybody each time")

"""What the tests of the Kafka sink share: topics with numbered records, queries through the sink, an outside reader."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import semel
from semel.sinks.base import CommitStep, OnStep, ignore_step
from semel.sinks.kafka.ledger import read_ledger
from semel.sinks.ledger import Ledger
from semel.wire.cluster import shared_cluster
from semel.wire.group_offsets import committed_offsets
from semel.wire.settings import WireSettings

STREAM_S_MAX = 120
CLIENT_S_MAX = 30.0
KEYS = 7
_numbers = count()


class Killed(Exception):
    """Stands for the death of a driver: the query ends here and its transaction stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """One record as an outside reader sees it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def new_topics(bootstrap: str, *partitions: int, config: dict[str, str] | None = None, replicas: int = 1) -> list[str]:
    """Create topics that no other test uses."""
    names = [f"sink-{next(_numbers)}" for _ in partitions]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic(name, size, replicas, config=config or {}) for name, size in zip(names, partitions, strict=True)]
    for future in admin.create_topics(wanted).values():
        future.result(CLIENT_S_MAX)
    return names


def fill(bootstrap: str, topic: str, numbers: Iterable[int], *, partitions: int = 3) -> None:
    """Send numbered records; all of one key go to one partition, in order."""
    client = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in numbers:
        key = number % KEYS
        client.produce(topic, key=b"key %d" % key, value=b"%d" % number, partition=key % partitions)
    assert client.flush(CLIENT_S_MAX) == 0


def read_all(bootstrap: str, *topics: str, isolation: str = "read_committed") -> list[Got]:
    """Read topics from first to last offset with another client."""
    client = _reader(bootstrap, isolation)
    try:
        return _drain(client, topics)
    finally:
        client.close()


def no_open_transaction(bootstrap: str, topic: str) -> bool:
    """Whether a reader of committed records sees as far as any other reader."""
    ends = []
    for isolation in ("read_committed", "read_uncommitted"):
        client = _reader(bootstrap, isolation)
        try:
            places = _places_of(client, [topic])
            ends.append([client.get_watermark_offsets(place, timeout=CLIENT_S_MAX)[1] for place in places])
        finally:
            client.close()
    return ends[0] == ends[1]


def _reader(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "outside",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,  # the end of a partition is told when a fetch comes back empty
        }
    )


def _places_of(client: Consumer, topics: Sequence[str]) -> list[TopicPartition]:
    return [
        TopicPartition(topic, number, 0)
        for topic in topics
        for number in client.list_topics(topic, timeout=CLIENT_S_MAX).topics[topic].partitions
    ]


def _drain(client: Consumer, topics: Sequence[str]) -> list[Got]:
    places = _places_of(client, topics)
    client.assign(places)
    open_ones = {(place.topic, place.partition) for place in places}
    found: list[Got] = []
    while open_ones:
        message = client.poll(CLIENT_S_MAX)
        assert message is not None, f"nothing came from {open_ones}"
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            open_ones.discard((message.topic(), message.partition()))
            continue
        found.append(_got(message))
    return found


def _got(message: Any) -> Got:
    return Got(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
        timestamp_ms=message.timestamp()[1],
    )


def ledger_of(bootstrap: str, pipeline: str) -> Ledger:
    """A pipeline's ledger as it stands now."""
    cluster = shared_cluster(WireSettings.from_options({"kafka.bootstrap.servers": bootstrap}))
    return read_ledger(pipeline, committed_offsets(cluster, pipeline, deadline=cluster.deadline()))


def number_of(one: Got) -> int:
    """The number a record was sent with: its value up to the first blank."""
    return int((one.value or b"-1").split(b" ", 1)[0])


def check_once(
    found: Sequence[Got], numbers: Iterable[int], *, ordered: bool, sent_to: Mapping[int, int] | None = None
) -> None:
    """Each number is there once; with `ordered`, those of one key stand in the order they were sent.

    A topic that grew has records of one key in two partitions, between which Kafka knows no order: `sent_to` says where
    each number was sent.
    """
    seen, wanted = Counter(map(number_of, found)), Counter(numbers)
    lost, extra = sorted((wanted - seen).elements()), sorted((seen - wanted).elements())
    assert (lost, extra) == ([], []), f"lost {lost}, more than once {extra}"
    if ordered:
        _check_order(found, sent_to or {})


def _check_order(found: Sequence[Got], sent_to: Mapping[int, int]) -> None:
    by_key: dict[bytes | None, list[Got]] = defaultdict(list)
    for one in found:
        by_key[one.key].append(one)
    for key, ones in by_key.items():
        assert len({one.partition for one in ones}) == 1, key
        stood = [number_of(one) for one in sorted(ones, key=lambda one: one.offset)]
        for origin in {sent_to.get(number) for number in stood}:
            of_one = [number for number in stood if sent_to.get(number) == origin]
            assert of_one == sorted(of_one), (key, origin)


@dataclass(slots=True, kw_only=True)
class Job:
    """A pipeline from one topic to others, which may be run again and again from one checkpoint."""

    spark: SparkSession
    bootstrap: str
    source: str
    outputs: tuple[str, ...]
    checkpoint: str
    pipeline: str = field(default_factory=lambda: f"pipeline-{next(_numbers)}")
    guarantee: str = "exactly_once"
    partitioning: str = "keyed"
    per_trigger: int | None = None
    shape: Callable[[DataFrame], DataFrame] = lambda rows: rows.select("key", "value")
    sink_options: dict[str, Any] = field(default_factory=dict)
    source_options: dict[str, str] = field(default_factory=dict)
    kafka_options: dict[str, str] = field(default_factory=dict)
    output_mode: str = "append"
    format: str = "semel"

    @classmethod
    def filled(cls, spark: SparkSession, bootstrap: str, folder: Path, numbers: Iterable[int], **options: Any) -> Job:
        """A job over a new source with these records, to one new output; its checkpoint is in the folder."""
        source, output = new_topics(bootstrap, 3, 3)
        fill(bootstrap, source, numbers)
        checkpoint = str(folder / "checkpoint")
        return cls(spark=spark, bootstrap=bootstrap, source=source, outputs=(output,), checkpoint=checkpoint, **options)

    def read(self) -> DataFrame:
        """The source of the query."""
        given = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.source, "startingOffsets": "earliest"}
        if self.per_trigger is not None:
            given["maxOffsetsPerTrigger"] = str(self.per_trigger)
        return self.spark.readStream.format(self.format).options(**(given | self.source_options)).load()

    def sink(self) -> semel.KafkaSink:
        """The sink of the query."""
        options = {"kafka.bootstrap.servers": self.bootstrap} | self.kafka_options
        return semel.KafkaSink(options, topics=self.outputs, partitioning=self.partitioning, **self.sink_options)

    def start(self, on_step: OnStep = ignore_step, *, trigger: dict[str, Any] | None = None) -> StreamingQuery:
        """Start a query over what is there now."""
        return semel.write_stream(
            self.shape(self.read()),
            self.sink(),
            pipeline=self.pipeline,
            guarantee=self.guarantee,
            checkpoint=self.checkpoint,
            trigger=trigger or {"availableNow": True},
            output_mode=self.output_mode,
            on_step=on_step,
        )

    def run(self, on_step: OnStep = ignore_step) -> str | None:
        """Run to the end of what is there now; the text of the error that ended it, or None."""
        return outcome_of(self.start(on_step))

    def finish(self) -> None:
        """Run, and expect that nothing goes wrong."""
        failure = self.run()
        assert failure is None, failure

    def output(self, isolation: str = "read_committed") -> list[Got]:
        """What a reader of the output sees."""
        return read_all(self.bootstrap, *self.outputs, isolation=isolation)

    def ledger(self) -> Ledger:
        """The ledger as it stands now."""
        return ledger_of(self.bootstrap, self.pipeline)


def outcome_of(query: StreamingQuery, *, s_max: int = STREAM_S_MAX) -> str | None:
    """Wait for the end of a query; the text of its error, or None."""
    try:
        assert query.awaitTermination(s_max), "the query did not end"
    except StreamingQueryException as error:
        return str(error)
    finally:
        query.stop()
    return None


class KillAfter:
    """Ends the query the n-th time a step is done; counts how often it has."""

    def __init__(self, step: CommitStep, *, nth: int = 1) -> None:
        self.step = step
        self.nth = nth
        self.seen: list[CommitStep] = []
        self.fired = 0

    def __call__(self, step: CommitStep) -> None:
        self.seen.append(step)
        if step is self.step and self.seen.count(step) == self.nth:
            self.fired += 1
            raise Killed(step)

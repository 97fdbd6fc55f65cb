"""Clusters that semel's clients are shown on: the embedded one and Apache Kafka, each shared by all tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import semel
from semel.drill.damage.records import commit_positions
from semel.engine.apache import ApacheCluster
from semel.errors import EnvironmentFailure

SETTINGS = {
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
    "auto.create.topics.enable": "false",
}
WAIT_S_MAX = 30
BOTH = ("embedded", "apache")
_names = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kafka:
    """A running cluster, seen from outside with a library that is not ours to test."""

    name: str
    bootstrap: str

    def topic(self, partitions: int = 1, replicas: int = 1) -> str:
        """Make a topic that no other test uses; of three replicas two must have a record before it is acknowledged."""
        name = f"shop-{next(_names)}"
        config = {"min.insync.replicas": str(max(1, replicas - 1))}
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(name, partitions, replicas, config=config)])[name].result(WAIT_S_MAX)
        return name

    def fill(self, topic: str, records: int, *, keyed: bool = False) -> list[str]:
        """Append records "0", "1", … and return them."""
        values = [str(number) for number in range(records)]
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "log_level": 0})
        for value in values:
            producer.produce(topic, value, value if keyed else None)
        assert producer.flush(WAIT_S_MAX) == 0
        return values

    def counts(self, topic: str, *, committed: bool = True) -> Counter[str]:
        """How often each value stands in a topic."""
        return Counter(self.values(topic, committed=committed))

    def values(self, topic: str, *, committed: bool = True) -> list[str]:
        """Every value of a topic up to its end of now, partition by partition."""
        level = "read_committed" if committed else "read_uncommitted"
        with_eof = {"enable.partition.eof": True, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 10}
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "reader", "isolation.level": level, "log_level": 0}
        reader = Consumer(settings | with_eof)
        partitions = reader.list_topics(topic, WAIT_S_MAX).topics[topic].partitions
        reader.assign([TopicPartition(topic, number, 0) for number in partitions])
        values, ended = list[str](), 0
        while ended < len(partitions):
            message = reader.poll(WAIT_S_MAX)
            assert message is not None, f"{topic} does not end"
            if message.error() is not None:
                ended += 1
            else:
                values.append((message.value() or b"").decode())
        reader.close()
        return values

    def ends(self, topic: str) -> tuple[int, ...]:
        """The offset behind the last record of each partition."""
        reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader", "log_level": 0})
        numbers = sorted(reader.list_topics(topic, WAIT_S_MAX).topics[topic].partitions)
        found = [reader.get_watermark_offsets(TopicPartition(topic, number), WAIT_S_MAX)[1] for number in numbers]
        reader.close()
        return tuple(found)

    def commit_start(self, group: str, topic: str, partitions: int = 1) -> None:
        """Give a group a position at the start, which at most once does not choose by itself."""
        member = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
        commit_positions(member, topic, dict.fromkeys(range(partitions), 0))
        member.close()

    def committed(self, group: str, topic: str, partition: int = 0) -> int:
        """A group's offset."""
        member = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
        found = member.committed([TopicPartition(topic, partition)], WAIT_S_MAX)[0].offset
        member.close()
        return int(found)


@pytest.fixture(scope="package")
def embedded_kafka() -> Iterator[Kafka]:
    with semel.Cluster(brokers=1, config=SETTINGS) as cluster:
        yield Kafka(name="embedded", bootstrap=cluster.bootstrap)


@pytest.fixture(scope="package")
def apache_kafka() -> Iterator[Kafka]:
    try:
        cluster = ApacheCluster(brokers=1, config=SETTINGS).start()
    except EnvironmentFailure as failure:
        pytest.skip(f"Apache Kafka cannot be started here: {failure}")
    yield Kafka(name="apache", bootstrap=cluster.bootstrap)
    cluster.stop()


@pytest.fixture
def faulty(cluster: semel.Cluster) -> Iterator[Kafka]:
    """The embedded cluster of the module, whose fault hooks a test may arm."""
    yield Kafka(name="embedded", bootstrap=cluster.bootstrap)
    cluster.disarm()


@pytest.fixture(params=BOTH)
def kafka(request: pytest.FixtureRequest) -> Kafka:
    """Each cluster in turn."""
    found = request.getfixturevalue(f"{request.param}_kafka")
    assert isinstance(found, Kafka)
    return found


def lost(wanted: Iterable[str], found: Counter[str]) -> int:
    """How many did not arrive."""
    return sum(found[value] == 0 for value in wanted)


def repeated(found: Counter[str]) -> int:
    """How many copies are too many."""
    return sum(times - 1 for times in found.values())

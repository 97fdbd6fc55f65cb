"""What all of them share: topics, sending, reading to the end, waiting, and counting lost and doubled records."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import count
from typing import Any, Protocol

from semel.clients.failures import COORDINATOR_AWAY
from semel.clients.library import confluent, make
from semel.errors import EnvironmentFailure

WAIT_S_MAX = 30.0
PAUSE_S = 0.01
# Retention, compaction and expiry come round at once, so that nobody waits for minutes.
QUICK = {
    "log.cleaner.backoff.ms": "50",
    "log.retention.check.interval.ms": "50",
    "offsets.retention.check.interval.ms": "50",
    "group.min.session.timeout.ms": "100",
}
HASTY = {"retry.backoff.ms": 20, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "linger.ms": 0}
# librdkafka's OFFSET_INVALID: the group has no position.
NO_OFFSET = -1001
_numbers = count()


class Reachable(Protocol):
    """A cluster of either kind: all that most of them need is where it is."""

    @property
    def bootstrap(self) -> str:
        """Addresses for `bootstrap.servers`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Records sent, and how many of them a reader misses or sees again; `fired` counts the faults."""

    sent: int
    lost: int
    duplicated: int
    fired: int


def tally(sent: Iterable[str], seen: Iterable[str], *, fired: int) -> Damage:
    """Count value by value: a loss and a duplicate would cancel in a total."""
    wanted, found = Counter(sent), Counter(seen)
    return Damage(
        sent=wanted.total(),
        lost=(wanted - found).total(),
        duplicated=sum((Counter({value: found[value] for value in wanted}) - wanted).values()),
        fired=fired,
    )


def new_name(text: str) -> str:
    """A name that nothing else here has."""
    return f"{text}-{next(_numbers)}"


def numbered(size: int = 10) -> list[str]:
    """Values that can be told apart."""
    return [f"record {number}" for number in range(size)]


def wait_until(condition: Callable[[], object], what: str, seconds_max: float = WAIT_S_MAX) -> None:
    """Ask again and again until it is so; EnvironmentFailure at the limit."""
    deadline = time.monotonic() + seconds_max
    while not condition():
        if time.monotonic() > deadline:
            raise EnvironmentFailure(f"not so after {seconds_max:.0f} s: {what}")
        time.sleep(PAUSE_S)


def admin_of(cluster: Reachable) -> Any:
    """An admin client."""
    return import_module("confluent_kafka.admin").AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 3})


def new_topic(
    cluster: Reachable, text: str, *, partitions: int = 1, replicas: int = 1, config: Mapping[str, str] | None = None
) -> str:
    """Create a topic with a name of its own."""
    name = new_name(text)
    made = import_module("confluent_kafka.admin").NewTopic(
        name, num_partitions=partitions, replication_factor=replicas, config=dict(config or {})
    )
    admin = admin_of(cluster)  # kept: its end would cancel what it was asked
    for done in admin.create_topics([made]).values():
        done.result(WAIT_S_MAX)
    wait_until(lambda: _has_leaders(admin, name), f"topic {name} can be used")
    return name


def _has_leaders(admin: Any, topic: str) -> bool:
    """Whether clients know it: on Apache Kafka that takes a moment."""
    found = admin.list_topics(timeout=WAIT_S_MAX).topics.get(topic)
    return found is not None and bool(found.partitions) and all(one.leader >= 0 for one in found.partitions.values())


def producer(cluster: Reachable, settings: Mapping[str, object]) -> Any:
    """A librdkafka producer that does not wait long before it tries again."""
    return make("Producer", {"bootstrap.servers": cluster.bootstrap, **HASTY, **settings})


def send_each(
    client: Any, topic: str, values: Sequence[str], *, partition: int = 0, key: str | None = None, time_ms: int = 0
) -> list[str]:
    """Send one record per request; gives the values that the producer was told are safe."""
    safe: list[str] = []
    for value in values:

        def note(error: object, _: object, value: str = value) -> None:
            if error is None:
                safe.append(value)

        client.produce(topic, value, key=key, partition=partition, timestamp=time_ms, on_delivery=note)
        client.flush(WAIT_S_MAX)
    return safe


def commit_transaction(
    cluster: Reachable, transactional_id: str, records: Sequence[tuple[str, int, str]], *, key: str | None = None
) -> None:
    """Commit topic, partition and value of each record in one transaction."""
    client = producer(cluster, {"transactional.id": transactional_id})
    client.init_transactions(WAIT_S_MAX)
    sizes = Counter((topic, partition) for topic, partition, _ in records)
    ends = {(topic, partition): _end(cluster, topic, partition) + size for (topic, partition), size in sizes.items()}
    client.begin_transaction()
    for topic, partition, value in records:
        client.produce(topic, value, partition=partition, key=key)
    client.commit_transaction(WAIT_S_MAX)
    # Kafka answers when the commit is decided, and shows the records when its marker stands behind them. What readers
    # of committed records see is no sign of it: another transaction may hang before this one.
    for (topic, partition), end in ends.items():
        wait_until(partial(_is_beyond, cluster, topic, partition, end), f"the marker in {topic} is written")


def _is_beyond(cluster: Reachable, topic: str, partition: int, end: int) -> bool:
    return _end(cluster, topic, partition) > end


def _end(cluster: Reachable, topic: str, partition: int) -> int:
    """The end of a partition, open transactions included."""
    client = consumer(cluster, new_name("reader"), {"isolation.level": "read_uncommitted"})
    try:
        _, high = client.get_watermark_offsets(confluent().TopicPartition(topic, partition), WAIT_S_MAX)
        return int(high)
    finally:
        client.close()


def consumer(cluster: Reachable, group: str, settings: Mapping[str, object] | None = None) -> Any:
    """A librdkafka consumer that tells when it is at the end of a partition."""
    own = {"enable.partition.eof": True, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    given = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "fetch.wait.max.ms": 20}
    return make("Consumer", {**given, **own, **(settings or {})})


def read_rest(client: Any, topic: str, partitions: Sequence[int] = (0,)) -> list[str]:
    """Read from where the group stands to the end of these partitions.

    The library does not ask again by itself when a cluster's first group finds its coordinator not ready yet.
    """
    library = confluent()
    wait_until(lambda: _has_coordinator(client, topic), "the group has a coordinator")
    client.assign([library.TopicPartition(topic, number, library.OFFSET_STORED) for number in partitions])
    return drain(client, len(partitions))


def _has_coordinator(client: Any, topic: str) -> bool:
    try:
        committed_position(client, topic)
    except confluent().KafkaException as error:
        if error.args[0].fatal():
            raise
        return False
    return True


def drain(client: Any, partitions: int) -> list[str]:
    """Read what is assigned until each partition is at its end."""
    library = confluent()
    values: list[str] = []
    ended: set[tuple[str, int]] = set()
    trouble = ""
    deadline = time.monotonic() + WAIT_S_MAX
    while len(ended) < partitions:
        record = client.poll(0.1)
        if time.monotonic() > deadline:
            raise EnvironmentFailure(f"no end of the topic after {WAIT_S_MAX:.0f} s", because=trouble)
        if record is None:
            continue
        if record.error() is None:
            values.append((record.value() or b"").decode(errors="replace"))
            ended.discard((record.topic(), record.partition()))
        elif record.error().code() == library.KafkaError._PARTITION_EOF:
            ended.add((record.topic(), record.partition()))
        elif record.error().fatal():
            raise library.KafkaException(record.error())
        else:
            trouble = str(record.error())  # a coordinator that has just moved, say: the client goes on by itself
    return values


def read_all(
    cluster: Reachable, topic: str, *, partitions: Sequence[int] = (0,), isolation: str = "read_committed"
) -> list[str]:
    """What a new reader finds in a topic."""
    client = consumer(cluster, new_name("reader"), {"isolation.level": isolation})
    try:
        return read_rest(client, topic, partitions)
    finally:
        client.close()


def commit_position(client: Any, topic: str, offset_next: int, partition: int = 0) -> None:
    """Commit where a group goes on, and wait for the answer."""
    commit_positions(client, topic, {partition: offset_next})


def commit_positions(client: Any, topic: str, offsets: Mapping[int, int]) -> None:
    """The same for several partitions. The first group of a cluster waits for its coordinator."""
    library = confluent()
    places = [library.TopicPartition(topic, partition, offset_next) for partition, offset_next in offsets.items()]

    def is_committed() -> bool:
        try:
            client.commit(offsets=places, asynchronous=False)
        except library.KafkaException as error:
            if error.args[0].code() not in COORDINATOR_AWAY:
                raise
            return False
        return True

    wait_until(is_committed, "the group's coordinator takes offsets")


def committed_position(client: Any, topic: str, partition: int = 0) -> int:
    """Where a group goes on; NO_OFFSET when nothing is kept of it."""
    (found,) = client.committed([confluent().TopicPartition(topic, partition)], WAIT_S_MAX)
    return int(found.offset)


def log_start(cluster: Reachable, topic: str, partition: int = 0) -> int:
    """The first offset that is left."""
    client = consumer(cluster, new_name("reader"))
    try:
        low, _ = client.get_watermark_offsets(confluent().TopicPartition(topic, partition), WAIT_S_MAX)
        return int(low)
    finally:
        client.close()


def copy_rest(cluster: Reachable, source: str, target: str, ledger: str) -> None:
    """Copy what is left, with the position in the same transaction: its ledger is a group."""
    reader, writer = consumer(cluster, ledger), producer(cluster, {"transactional.id": ledger})
    place = confluent().TopicPartition(source, 0)
    values = read_rest(reader, source)
    if not values:
        reader.close()
        return
    writer.init_transactions(WAIT_S_MAX)
    writer.begin_transaction()
    for value in values:
        writer.produce(target, value, partition=0)
    writer.send_offsets_to_transaction(reader.position([place]), reader.consumer_group_metadata(), WAIT_S_MAX)
    writer.commit_transaction(WAIT_S_MAX)
    reader.close()

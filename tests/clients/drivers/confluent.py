"""The interface on confluent-kafka, that is librdkafka."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Producer,
    TopicPartition,
    admin,
)
from confluent_kafka import KafkaException as LibraryError

from semel.protocol.error_codes import ErrorCode
from tests.clients.drivers.interface import (
    HEARTBEAT_MS,
    READ_WAIT_MS_MAX,
    REQUEST_BYTES_MAX,
    SESSION_MS,
    Endpoint,
    Member,
    Received,
    Refused,
    Sent,
)

# The library's own types leave out half of this module.
library: Any = admin
ANSWER_S_MAX = 30.0
FLUSH_S_MAX = 60.0
POLL_S = 0.1
Settings = dict[str, Any]


@contextmanager
def refusals() -> Iterator[None]:
    """Turn the library's errors into ours."""
    try:
        yield
    except LibraryError as error:
        raise Refused(error.args[0].code(), error.args[0].str()) from error


def received(message: Any) -> Received:
    """Translate a message; an error in its place is raised."""
    error = message.error()
    if error:
        code = ErrorCode.OFFSET_OUT_OF_RANGE if error.code() == KafkaError._AUTO_OFFSET_RESET else error.code()
        raise Refused(code, error.str())
    return Received(
        partition=message.partition(),
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
        timestamp_ms=message.timestamp()[1],
    )


class ConfluentMember:
    """A consumer of a group."""

    def __init__(self, settings: Settings, topics: Sequence[str]) -> None:
        """Subscribe at once."""
        self._consumer = Consumer(settings)
        self._consumer.subscribe(list(topics))

    def poll(self, wait_ms: int) -> list[Received]:
        return [received(message) for message in self._consumer.consume(500, wait_ms / 1000)]

    def assignment(self) -> set[tuple[str, int]]:
        return {(one.topic, one.partition) for one in self._consumer.assignment()}

    def commit(self) -> None:
        with refusals():
            self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class ConfluentDriver:
    """librdkafka."""

    name = "confluent"
    lacks = frozenset[str]()

    def __init__(self, endpoint: Endpoint) -> None:
        """Nothing is opened before it is needed."""
        self._settings: Settings = {
            "bootstrap.servers": endpoint.bootstrap,
            "security.protocol": endpoint.protocol,
            "log_level": 2,
            **({"ssl.ca.location": endpoint.ca_file} if endpoint.ca_file else {}),
            **({"sasl.mechanism": endpoint.mechanism} if endpoint.mechanism else {}),
            **({"sasl.username": endpoint.user, "sasl.password": endpoint.password} if endpoint.user else {}),
        }
        self._admin = library.AdminClient(self._settings)

    def produce(
        self,
        topic: str,
        records: Sequence[Sent],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        settings = {"compression.type": codec, "acks": acks, "enable.idempotence": idempotent, "linger.ms": 5}
        producer = Producer({**self._settings, **settings, "message.max.bytes": REQUEST_BYTES_MAX})
        offsets = [-1] * len(records)
        errors: list[Any] = []

        def done(number: int) -> Callable[[Any, Any], None]:
            def on_delivery(error: Any, message: Any) -> None:
                if error is not None:
                    errors.append(error)
                elif message.offset() is not None and message.offset() >= 0:
                    offsets[number] = message.offset()

            return on_delivery

        for number, record in enumerate(records):
            producer.produce(
                topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                partition=record.partition,
                timestamp=record.timestamp_ms,
                on_delivery=done(number),
            )
        left = producer.flush(FLUSH_S_MAX)
        assert left == 0, f"{left} records got no answer"
        if errors:
            raise Refused(errors[0].code(), errors[0].str())
        return offsets

    def consume(
        self,
        topic: str,
        start: Mapping[int, int],
        count: int,
        *,
        committed: bool = False,
        reset: str = "none",
        wait_ms_max: int = READ_WAIT_MS_MAX,
    ) -> list[Received]:
        isolation = "read_committed" if committed else "read_uncommitted"
        policy = "error" if reset == "none" else reset
        consumer = Consumer(
            {
                **self._settings,
                "group.id": "not used",
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "auto.offset.reset": policy,
            }
        )
        deadline = time.monotonic() + wait_ms_max / 1000
        got: list[Received] = []
        try:
            consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in start.items()])
            while len(got) < count and time.monotonic() < deadline:
                got += [received(message) for message in consumer.consume(count - len(got), POLL_S)]
        finally:
            consumer.close()
        return got

    def member(
        self, group: str, topics: Sequence[str], *, session_ms: int = SESSION_MS, instance_id: str | None = None
    ) -> Member:
        settings: Settings = {
            **self._settings,
            "group.id": group,
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **({"group.instance.id": instance_id} if instance_id else {}),
        }
        return ConfluentMember(settings, topics)

    def _wait(self, futures: Mapping[Any, Any]) -> Any:
        """Wait for the only future of an admin call."""
        (future,) = futures.values()
        with refusals():
            return future.result(ANSWER_S_MAX)

    def create(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        self._wait(self._admin.create_topics([library.NewTopic(topic, partitions, 1, config=dict(config))]))

    def delete(self, topic: str) -> None:
        self._wait(self._admin.delete_topics([topic]))

    def grow(self, topic: str, partitions: int) -> None:
        self._wait(self._admin.create_partitions([library.NewPartitions(topic, partitions)]))

    def partition_counts(self) -> dict[str, int]:
        topics = self._admin.list_topics(timeout=ANSWER_S_MAX).topics.values()
        return {one.topic: len(one.partitions) for one in topics if not one.topic.startswith("__")}

    def topic_config(self, topic: str) -> dict[str, str]:
        entries = self._wait(self._admin.describe_configs([library.ConfigResource(library.ResourceType.TOPIC, topic)]))
        return {name: entry.value for name, entry in entries.items()}

    def set_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        entries = [
            library.ConfigEntry(name, value, incremental_operation=library.AlterConfigOpType.SET)
            for name, value in config.items()
        ]
        resource = library.ConfigResource(library.ResourceType.TOPIC, topic, incremental_configs=entries)
        self._wait(self._admin.incremental_alter_configs([resource]))

    def groups(self) -> set[str]:
        return {one.group_id for one in self._admin.list_consumer_groups().result(ANSWER_S_MAX).valid}

    def group_size(self, group: str) -> int:
        return len(self._wait(self._admin.describe_consumer_groups([group])).members)

    def delete_group(self, group: str) -> None:
        self._wait(self._admin.delete_consumer_groups([group]))

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])
        answer = self._wait(self._admin.list_consumer_group_offsets([asked]))
        offset: int = answer.topic_partitions[0].offset
        return None if offset == OFFSET_INVALID else offset

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        self._wait(self._admin.delete_records([TopicPartition(topic, partition, before)]))

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        earliest = self._offset(topic, partition, library.OffsetSpec.earliest())
        return earliest, self._offset(topic, partition, library.OffsetSpec.latest())

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        offset = self._offset(topic, partition, library.OffsetSpec.for_timestamp(timestamp_ms))
        return None if offset < 0 else offset

    def _offset(self, topic: str, partition: int, spec: Any) -> int:
        found: int = self._wait(self._admin.list_offsets({TopicPartition(topic, partition): spec})).offset
        return found

    def close(self) -> None:
        """Nothing is kept open but the admin client, which ends with the driver."""

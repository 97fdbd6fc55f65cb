"""The interface on kafka-python."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tests.clients.drivers.interface import (
    FETCH_WAIT_MS,
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
from tests.support.kafka_python import (
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetSpec,
    TopicPartition,
    codec,
    errors,
)

ANSWER_S_MAX = 60
POLL_MS = 100
Settings = dict[str, Any]


@contextmanager
def refusals() -> Iterator[None]:
    """Turn the library's errors into ours."""
    try:
        yield
    except errors.KafkaError as error:
        raise Refused(getattr(error, "errno", -1), str(error)) from error


def received(polled: Mapping[Any, Sequence[Any]]) -> list[Received]:
    """Translate what one poll gave."""
    return [
        Received(
            partition=one.partition,
            offset=one.offset,
            key=one.key,
            value=one.value,
            headers=tuple((name, content) for name, content in one.headers),
            timestamp_ms=one.timestamp,
        )
        for records in polled.values()
        for one in records
    ]


def missing_codecs() -> frozenset[str]:
    """Name the codecs whose packages are not installed."""
    return frozenset(name for name in ("snappy", "lz4", "zstd") if not getattr(codec, f"has_{name}")())


class KafkaPythonMember:
    """A consumer of a group."""

    def __init__(self, settings: Settings, topics: Sequence[str]) -> None:
        """Subscribe at once."""
        self._consumer = KafkaConsumer(**settings)
        self._consumer.subscribe(list(topics))
        for topic in topics:
            # Asks for metadata now: a first join without any is done again, and a poll that ends during the second
            # join loses its result for good (ConsumerCoordinator.need_rejoin of 3.0.12).
            self._consumer.partitions_for_topic(topic)

    def poll(self, wait_ms: int) -> list[Received]:
        with refusals():
            return received(self._consumer.poll(timeout_ms=wait_ms))

    def assignment(self) -> set[tuple[str, int]]:
        return {(one.topic, one.partition) for one in self._consumer.assignment()}

    def commit(self) -> None:
        with refusals():
            self._consumer.commit()

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class KafkaPythonDriver:
    """kafka-python; its codecs beyond gzip are packages of their own, and it sends no nulls in headers."""

    name = "kafka-python"
    lacks = frozenset({"null header", "key and value null"}) | missing_codecs()

    def __init__(self, endpoint: Endpoint) -> None:
        """The admin client is opened when it is first needed."""
        self._settings: Settings = {
            "bootstrap_servers": endpoint.bootstrap.split(","),
            "security_protocol": endpoint.protocol,
            "ssl_cafile": endpoint.ca_file,
            "sasl_mechanism": endpoint.mechanism,
            "sasl_plain_username": endpoint.user,
            "sasl_plain_password": endpoint.password,
        }
        self._opened: KafkaAdminClient | None = None

    @property
    def _admin(self) -> Any:
        if self._opened is None:
            with refusals():
                self._opened = KafkaAdminClient(**self._settings)
        return self._opened

    def produce(
        self,
        topic: str,
        records: Sequence[Sent],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        settings = {
            "compression_type": None if codec == "none" else codec,
            "acks": "all" if acks == "all" else int(acks),
            "enable_idempotence": idempotent,
            "linger_ms": 5,
            "max_request_size": REQUEST_BYTES_MAX,
        }
        with refusals():
            producer = KafkaProducer(**self._settings, **settings)
            try:
                futures = [
                    producer.send(
                        topic,
                        key=one.key,
                        value=one.value,
                        headers=list(one.headers),
                        partition=one.partition,
                        timestamp_ms=one.timestamp_ms,
                    )
                    for one in records
                ]
                producer.flush(ANSWER_S_MAX)
                return [future.get(ANSWER_S_MAX).offset for future in futures]
            finally:
                producer.close(ANSWER_S_MAX)

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
        settings = {"isolation_level": isolation, "auto_offset_reset": reset, "fetch_max_wait_ms": FETCH_WAIT_MS}
        deadline = time.monotonic() + wait_ms_max / 1000
        got: list[Received] = []
        with refusals():
            consumer = KafkaConsumer(**self._settings, **settings)
            try:
                consumer.assign([TopicPartition(topic, partition) for partition in start])
                for partition, offset in start.items():
                    consumer.seek(TopicPartition(topic, partition), offset)
                while len(got) < count and time.monotonic() < deadline:
                    got += received(consumer.poll(timeout_ms=POLL_MS, max_records=count - len(got)))
            finally:
                consumer.close(autocommit=False)
        return got

    def member(
        self, group: str, topics: Sequence[str], *, session_ms: int = SESSION_MS, instance_id: str | None = None
    ) -> Member:
        settings = {
            **self._settings,
            "group_id": group,
            "session_timeout_ms": session_ms,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": FETCH_WAIT_MS,
            "enable_auto_commit": False,
            "group_instance_id": instance_id,
        }
        return KafkaPythonMember(settings, topics)

    def create(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(config)}
        with refusals():
            self._admin.create_topics({topic: wanted})

    def delete(self, topic: str) -> None:
        with refusals():
            self._admin.delete_topics([topic])

    def grow(self, topic: str, partitions: int) -> None:
        with refusals():
            self._admin.create_partitions({topic: partitions})

    def partition_counts(self) -> dict[str, int]:
        topics = self._admin.describe_topics()
        return {one["name"]: len(one["partitions"]) for one in topics if not one["is_internal"]}

    def topic_config(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        with refusals():
            entries = self._admin.describe_configs([resource], config_filter="all")["topic"][topic]
        return {name: entry["value"] for name, entry in entries.items()}

    def set_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(config))
        with refusals():
            answer = self._admin.alter_configs([resource])["topic"][topic]
        if answer != "OK":
            # It gives the error as text: "[Error 40] …".
            raise Refused(int(answer.removeprefix("[Error ").partition("]")[0]), answer)

    def groups(self) -> set[str]:
        return {one["group_id"] for one in self._admin.list_groups()}

    def group_size(self, group: str) -> int:
        with refusals():
            return len(self._admin.describe_groups([group])[group]["members"])

    def delete_group(self, group: str) -> None:
        with refusals():
            answers = self._admin.delete_groups([group])
        if answers[group] != "OK":
            raise Refused(getattr(errors, answers[group]).errno, answers[group])

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        with refusals():
            found = self._admin.list_group_offsets({group: [TopicPartition(topic, partition)]})[group]
        one = found.get(TopicPartition(topic, partition))
        return None if one is None or one.offset < 0 else one.offset

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        with refusals():
            self._admin.delete_records({TopicPartition(topic, partition): before})

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        earliest = self._offset(topic, partition, OffsetSpec.EARLIEST)
        return earliest, self._offset(topic, partition, OffsetSpec.LATEST)

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        offset = self._offset(topic, partition, timestamp_ms)
        return None if offset < 0 else offset

    def _offset(self, topic: str, partition: int, spec: Any) -> int:
        place = TopicPartition(topic, partition)
        with refusals():
            return int(self._admin.list_partition_offsets({place: spec})[place].offset)

    def close(self) -> None:
        """End the admin client."""
        if self._opened is not None:
            self._opened.close()

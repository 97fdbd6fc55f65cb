"""The interface on aiokafka: its coroutines run on an event loop in a thread of their own."""

import asyncio
import ssl
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError as LibraryError
from aiokafka.errors import for_code

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

ANSWER_S_MAX = 60
POLL_MS = 100
Settings = dict[str, Any]
T = TypeVar("T")


@contextmanager
def refusals() -> Iterator[None]:
    """Turn the library's errors into ours."""
    try:
        yield
    except LibraryError as error:
        raise Refused(getattr(error, "errno", -1), str(error)) from error


def check(code: int) -> None:
    """Raise the error that an answer carries; aiokafka's admin client hands such answers to its caller."""
    if code:
        raise Refused(code, for_code(code).__name__)


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


class Loop:
    """An event loop in a background thread."""

    def __init__(self) -> None:
        """Start it."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for it."""
        with refusals():
            return self.start(work).result(ANSWER_S_MAX)

    def close(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_S_MAX)
        self._loop.close()


class AiokafkaMember:
    """A consumer of a group."""

    def __init__(self, loop: Loop, settings: Settings, topics: Sequence[str]) -> None:
        """Subscribe at once."""
        self._loop = loop
        self._consumer: Any = loop.run(self._open(settings, topics))
        self._polling: Future[Any] | None = None

    async def _open(self, settings: Settings, topics: Sequence[str]) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(**settings)
        await consumer.start()
        consumer.subscribe(list(topics))  # given to the constructor, start() would wait for an assignment
        return consumer

    def poll(self, wait_ms: int) -> list[Received]:
        """Wait no longer than asked: during a rebalance getmany waits for members that this thread has yet to poll."""
        if self._polling is None:
            self._polling = self._loop.start(self._consumer.getmany(timeout_ms=wait_ms))
        with refusals():
            try:
                polled = self._polling.result(wait_ms / 1000)
            except TimeoutError:
                return []
        self._polling = None
        return received(polled)

    def assignment(self) -> set[tuple[str, int]]:
        return {(one.topic, one.partition) for one in self._consumer.assignment()}

    def commit(self) -> None:
        self._loop.run(self._consumer.commit())

    def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
        self._loop.run(self._consumer.stop())


class AiokafkaDriver:
    """aiokafka; it sends no record without both key and value."""

    name = "aiokafka"
    lacks = frozenset({"delete_group", "key and value null"})

    def __init__(self, endpoint: Endpoint) -> None:
        """Clients are opened for each call."""
        self._loop = Loop()
        context = ssl.create_default_context(cafile=endpoint.ca_file) if endpoint.ca_file else None
        self._settings: Settings = {
            "bootstrap_servers": endpoint.bootstrap.split(","),
            "security_protocol": endpoint.protocol,
            "ssl_context": context,
            "sasl_mechanism": endpoint.mechanism or "PLAIN",
            "sasl_plain_username": endpoint.user,
            "sasl_plain_password": endpoint.password,
        }

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
        return self._loop.run(self._produce(topic, records, {**self._settings, **settings}))

    async def _produce(self, topic: str, records: Sequence[Sent], settings: Settings) -> list[int]:
        async with AIOKafkaProducer(**settings) as producer:
            futures = [
                await producer.send(
                    topic,
                    key=one.key,
                    value=one.value,
                    headers=list(one.headers),
                    partition=one.partition,
                    timestamp_ms=one.timestamp_ms,
                )
                for one in records
            ]
            answers = await asyncio.gather(*futures)
        return [-1 if answer is None else answer.offset for answer in answers]

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
        settings = {**self._settings, "isolation_level": isolation, "auto_offset_reset": reset}
        places = {TopicPartition(topic, partition): offset for partition, offset in start.items()}
        return self._loop.run(self._consume(settings, places, count, wait_ms_max))

    async def _consume(
        self, settings: Settings, places: Mapping[TopicPartition, int], count: int, wait_ms_max: int
    ) -> list[Received]:
        deadline = time.monotonic() + wait_ms_max / 1000
        got: list[Received] = []
        async with AIOKafkaConsumer(**settings) as consumer:
            consumer.assign(list(places))
            for place, offset in places.items():
                consumer.seek(place, offset)
            while len(got) < count and time.monotonic() < deadline:
                got += received(await consumer.getmany(timeout_ms=POLL_MS, max_records=count - len(got)))
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
            "enable_auto_commit": False,
            "group_instance_id": instance_id,
            "partition_assignment_strategy": (RangePartitionAssignor,),
        }
        return AiokafkaMember(self._loop, settings, topics)

    def _ask(self, call: str, *arguments: Any) -> Any:
        """Call one method of a new admin client."""

        async def work() -> Any:
            admin = AIOKafkaAdminClient(**self._settings)
            await admin.start()
            try:
                return await getattr(admin, call)(*arguments)
            finally:
                await admin.close()

        return self._loop.run(work())

    def create(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        answer = self._ask("create_topics", [NewTopic(topic, partitions, 1, topic_configs=dict(config))])
        check(answer.topic_errors[0][1])

    def delete(self, topic: str) -> None:
        check(self._ask("delete_topics", [topic]).topic_error_codes[0][1])

    def grow(self, topic: str, partitions: int) -> None:
        self._ask("create_partitions", {topic: NewPartitions(partitions)})

    def partition_counts(self) -> dict[str, int]:
        return {
            one["topic"]: len(one["partitions"])
            for one in self._ask("describe_topics")
            if not one["topic"].startswith("__")
        }

    def topic_config(self, topic: str) -> dict[str, str]:
        (answer,) = self._ask("describe_configs", [ConfigResource(ConfigResourceType.TOPIC, topic)])
        (code, _, _, _, entries) = answer.resources[0]
        check(code)
        return {entry[0]: entry[1] for entry in entries}

    def set_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        (answer,) = self._ask("alter_configs", [ConfigResource(ConfigResourceType.TOPIC, topic, dict(config))])
        check(answer.resources[0][0])

    def groups(self) -> set[str]:
        return {one[0] for one in self._ask("list_consumer_groups")}

    def group_size(self, group: str) -> int:
        (answer,) = self._ask("describe_consumer_groups", [group])
        described = answer.groups[0]
        check(described[0])
        return len(described[5])

    def delete_group(self, group: str) -> None:
        """This library has no such call."""
        raise NotImplementedError

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        place = TopicPartition(topic, partition)
        offset: int = self._ask("list_consumer_group_offsets", group, None, [place])[place].offset
        return None if offset < 0 else offset

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        self._ask("delete_records", {TopicPartition(topic, partition): RecordsToDelete(before)})

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        return self._loop.run(self._offsets(TopicPartition(topic, partition)))

    async def _offsets(self, place: TopicPartition) -> tuple[int, int]:
        async with AIOKafkaConsumer(**self._settings) as consumer:
            earliest = await consumer.beginning_offsets([place])
            latest = await consumer.end_offsets([place])
        return earliest[place], latest[place]

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        return self._loop.run(self._offset_at(TopicPartition(topic, partition), timestamp_ms))

    async def _offset_at(self, place: TopicPartition, timestamp_ms: int) -> int | None:
        async with AIOKafkaConsumer(**self._settings) as consumer:
            found = (await consumer.offsets_for_times({place: timestamp_ms}))[place]
        return None if found is None else found.offset

    def close(self) -> None:
        """End the loop."""
        self._loop.close()

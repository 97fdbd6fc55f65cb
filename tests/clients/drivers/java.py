"""The interface on Kafka's own Java client: every call is a command to one JVM (tests/java/ClientDriver.java)."""

import base64
from collections.abc import Mapping, Sequence
from itertools import count as numbers
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
from tests.support.java import JavaError, JavaProgram

ASK_WAIT_MS_MAX = 90_000
_member_numbers = numbers()


def encoded(data: bytes | None) -> str | None:
    """Write bytes as JSON can hold them."""
    return None if data is None else base64.b64encode(data).decode()


def decoded(text: str | None) -> bytes | None:
    """Read them back."""
    return None if text is None else base64.b64decode(text)


def quoted(text: str) -> str:
    """Write text as a login module's settings want it inside quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def received(answer: Sequence[Mapping[str, Any]]) -> list[Received]:
    """Translate records."""
    return [
        Received(
            partition=one["partition"],
            offset=one["offset"],
            key=decoded(one["key"]),
            value=decoded(one["value"]),
            headers=tuple((name, decoded(content)) for name, content in one["headers"]),
            timestamp_ms=one["timestamp_ms"],
        )
        for one in answer
    ]


def ask(program: JavaProgram, command: str, **fields: Any) -> Any:
    """Ask the JVM; what Kafka's client threw is raised as our error, with Kafka's number."""
    try:
        return program.ask(command, wait_ms_max=ASK_WAIT_MS_MAX, **fields)
    except JavaError as error:
        code, _, text = error.message.partition(" ")
        if not code.lstrip("-").isdigit():
            raise
        raise Refused(int(code), text) from error


class JavaMember:
    """A consumer of a group, living in the JVM."""

    def __init__(self, program: JavaProgram, settings: Mapping[str, str], topics: Sequence[str]) -> None:
        """Subscribe at once."""
        self._program = program
        self._name = f"member-{next(_member_numbers)}"
        ask(program, "join", member=self._name, settings=settings, topics=list(topics))

    def poll(self, wait_ms: int) -> list[Received]:
        return received(ask(self._program, "poll", member=self._name, wait_ms=wait_ms))

    def assignment(self) -> set[tuple[str, int]]:
        return {(topic, partition) for topic, partition in ask(self._program, "assignment", member=self._name)}

    def commit(self) -> None:
        ask(self._program, "commit", member=self._name)

    def close(self) -> None:
        ask(self._program, "leave", member=self._name)


class JavaDriver:
    """Kafka's Java client."""

    name = "java"
    lacks = frozenset[str]()

    def __init__(self, endpoint: Endpoint, program: JavaProgram) -> None:
        """The JVM belongs to the caller, who may share it."""
        self._program = program
        self._settings = {"bootstrap.servers": endpoint.bootstrap, "security.protocol": endpoint.protocol}
        if endpoint.ca_file:
            self._settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": endpoint.ca_file}
        if endpoint.mechanism:
            kind = "plain.PlainLoginModule" if endpoint.mechanism == "PLAIN" else "scram.ScramLoginModule"
            login = f'username="{endpoint.user}" password="{quoted(endpoint.password or "")}"'
            module = f"org.apache.kafka.common.security.{kind} required {login};"
            self._settings |= {"sasl.mechanism": endpoint.mechanism, "sasl.jaas.config": module}

    def _ask(self, command: str, settings: Mapping[str, str] | None = None, **fields: Any) -> Any:
        return ask(self._program, command, settings={**self._settings, **(settings or {})}, **fields)

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
            "compression.type": codec,
            "acks": acks,
            "enable.idempotence": str(idempotent).lower(),
            "linger.ms": "5",
            "max.request.size": str(REQUEST_BYTES_MAX),
        }
        drafts = [
            {
                "partition": one.partition,
                "timestamp_ms": one.timestamp_ms,
                "key": encoded(one.key),
                "value": encoded(one.value),
                "headers": [[name, encoded(content)] for name, content in one.headers],
            }
            for one in records
        ]
        offsets: list[int] = self._ask("produce", settings, topic=topic, records=drafts)
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
        settings = {
            "isolation.level": isolation,
            "auto.offset.reset": reset,
            "max.poll.records": str(count),
            "fetch.max.wait.ms": str(FETCH_WAIT_MS),
        }
        fields = {"topic": topic, "start": list(start.items()), "count": count, "wait_ms": wait_ms_max}
        return received(self._ask("consume", settings, **fields))[:count]

    def member(
        self, group: str, topics: Sequence[str], *, session_ms: int = SESSION_MS, instance_id: str | None = None
    ) -> Member:
        settings = {
            **self._settings,
            "group.id": group,
            "session.timeout.ms": str(session_ms),
            "heartbeat.interval.ms": str(HEARTBEAT_MS),
            "auto.offset.reset": "earliest",
            "fetch.max.wait.ms": str(FETCH_WAIT_MS),
            "enable.auto.commit": "false",
            **({"group.instance.id": instance_id} if instance_id else {}),
        }
        return JavaMember(self._program, settings, topics)

    def create(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        self._ask("create", topic=topic, partitions=partitions, config=dict(config))

    def delete(self, topic: str) -> None:
        self._ask("delete", topic=topic)

    def grow(self, topic: str, partitions: int) -> None:
        self._ask("grow", topic=topic, partitions=partitions)

    def partition_counts(self) -> dict[str, int]:
        return dict(self._ask("partition_counts"))

    def topic_config(self, topic: str) -> dict[str, str]:
        return dict(self._ask("topic_config", topic=topic))

    def set_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        self._ask("set_topic_config", topic=topic, config=dict(config))

    def groups(self) -> set[str]:
        return set(self._ask("groups"))

    def group_size(self, group: str) -> int:
        return int(self._ask("group_size", group=group))

    def delete_group(self, group: str) -> None:
        self._ask("delete_group", group=group)

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        offset = int(self._ask("committed", group=group, topic=topic, partition=partition))
        return None if offset < 0 else offset

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        self._ask("delete_records", topic=topic, partition=partition, before=before)

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        earliest, latest = self._ask("offsets", topic=topic, partition=partition)
        return earliest, latest

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        offset = int(self._ask("offset_at", topic=topic, partition=partition, timestamp_ms=timestamp_ms))
        return None if offset < 0 else offset

    def close(self) -> None:
        """Nothing is kept open."""

"""Members of groups of the consumer protocol (KIP-848), in the two libraries that speak it, behind one interface.

A member may also copy records in transactions, with its offsets in them: `own`, then `work` and `finish` in turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.clients.drivers.interface import Refused
from tests.support.java import JavaError, JavaProgram

PROGRAM = "ConsumerProtocol"
LIBRARIES = ("java", "confluent")
WAIT_S_MAX = 60
FETCH_WAIT_MS = 50
RECORDS_MAX = 5  # of one transaction
_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """How a member joins: by names, or by a pattern."""

    bootstrap: str
    group: str
    topics: Sequence[str] = ()
    pattern: str | None = None
    instance: str | None = None

    def settings(self) -> dict[str, Any]:
        """What both libraries understand."""
        return {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            **({"group.instance.id": self.instance} if self.instance else {}),
        }


class Member(Protocol):
    """One member."""

    def poll(self, wait_ms: int) -> list[str]:
        """Values of the next records."""

    def assignment(self) -> set[tuple[str, int]]:
        """What it has."""

    def member_id(self) -> str:
        """Its id in the group."""

    def commit(self) -> None:
        """Commit what was polled."""

    def close(self) -> None:
        """Leave the group (a static member only for a while)."""

    def own(self, transactional_id: str) -> None:
        """Take a transactional id."""

    def work(self, to: str, wait_ms: int) -> int:
        """Read, and write on in a transaction that stays open; how many records."""

    def finish(self) -> None:
        """Commit that transaction with the offsets in it; aborts, goes back and raises when they are refused."""


class JavaMember:
    """Kafka's Java client, living in a JVM that others share."""

    def __init__(self, program: JavaProgram, how: Membership) -> None:
        """Subscribe at once."""
        self._program, self._how, self._name = program, how, f"member-{next(_numbers)}"
        settings = {**how.settings(), "fetch.max.wait.ms": FETCH_WAIT_MS, "max.poll.records": RECORDS_MAX}
        del settings["fetch.wait.max.ms"]
        self._ask("join", settings=_texts(settings), topics=list(how.topics), pattern=how.pattern)

    def _ask(self, command: str, **fields: Any) -> Any:
        return ask(self._program, command, member=self._name, **fields)

    def poll(self, wait_ms: int) -> list[str]:
        return list(self._ask("poll", wait_ms=wait_ms))

    def assignment(self) -> set[tuple[str, int]]:
        return {(topic, partition) for topic, partition in self._ask("assignment")}

    def member_id(self) -> str:
        return str(self._ask("member_id"))

    def commit(self) -> None:
        self._ask("commit")

    def close(self) -> None:
        self._ask("leave")

    def own(self, transactional_id: str) -> None:
        settings = {"bootstrap.servers": self._how.bootstrap, "transactional.id": transactional_id}
        self._ask("owner", settings=settings)

    def work(self, to: str, wait_ms: int) -> int:
        return int(self._ask("work", to=to, wait_ms=wait_ms))

    def finish(self) -> None:
        self._ask("finish")


def ask(program: JavaProgram, command: str, **fields: Any) -> Any:
    """Ask the JVM; what Kafka refused is `Refused`."""
    try:
        return program.ask(command, wait_ms_max=WAIT_S_MAX * 1000, **fields)
    except JavaError as error:
        code, _, text = error.message.partition(" ")
        if not code.lstrip("-").isdigit():
            raise
        raise Refused(int(code), text) from error


def _texts(settings: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in settings.items()}


class ConfluentMember:
    """librdkafka."""

    def __init__(self, how: Membership) -> None:
        """Subscribe at once; a pattern starts with a circumflex there."""
        self._how = how
        self._consumer = Consumer({**how.settings(), "log_level": 2})
        self._consumer.subscribe([f"^{how.pattern}"] if how.pattern else list(how.topics))
        self._producer: Any = None
        self._held: list[Any] = []

    def poll(self, wait_ms: int) -> list[str]:
        messages = self._consumer.consume(500, wait_ms / 1000)
        return [(message.value() or b"").decode() for message in messages if _is_record(message)]

    def assignment(self) -> set[tuple[str, int]]:
        return {(one.topic, one.partition) for one in self._consumer.assignment()}

    def member_id(self) -> str:
        return str(self._consumer.memberid())

    def commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            raise Refused(error.args[0].code(), error.args[0].str()) from error

    def close(self) -> None:
        self._consumer.close()

    def own(self, transactional_id: str) -> None:
        settings = {"bootstrap.servers": self._how.bootstrap, "transactional.id": transactional_id, "log_level": 2}
        self._producer = Producer(settings)
        self._producer.init_transactions(WAIT_S_MAX)

    def work(self, to: str, wait_ms: int) -> int:
        messages = self._consumer.consume(RECORDS_MAX, wait_ms / 1000)
        self._held = [message for message in messages if _is_record(message)]
        if self._held:
            self._producer.begin_transaction()
            for message in self._held:
                self._producer.produce(to, message.value())
            assert not self._producer.flush(WAIT_S_MAX)
        return len(self._held)

    def finish(self) -> None:
        ends: dict[tuple[str, int], int] = {}
        for message in self._held:
            ends[message.topic(), message.partition()] = message.offset() + 1
        offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]
        try:
            metadata = self._consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction(offsets, metadata, WAIT_S_MAX)
            self._producer.commit_transaction(WAIT_S_MAX)
        except KafkaException as error:
            self._producer.abort_transaction(WAIT_S_MAX)
            self._go_back()
            raise Refused(error.args[0].code(), error.args[0].str()) from error

    def _go_back(self) -> None:
        for message in reversed(self._held):
            if (message.topic(), message.partition()) in self.assignment():
                self._consumer.seek(TopicPartition(message.topic(), message.partition(), message.offset()))


def _is_record(message: Any) -> bool:
    if message.error() is None:
        return True
    if message.error().retriable() or message.error().code() == library_code("UNKNOWN_MEMBER_ID"):
        return False
    raise Refused(message.error().code(), message.error().str())


def library_code(name: str) -> int:
    """The number of an error in librdkafka."""
    from confluent_kafka import KafkaError

    return int(getattr(KafkaError, name))

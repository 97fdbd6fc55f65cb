"""Transactional producers of every client library behind one interface.

A driver translates and adds nothing. Errors are `Refused` with Kafka's number, or the library's own when negative.
"""

from itertools import count
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import KafkaException, Producer, TopicPartition

from tests.clients.drivers import aiokafka_driver as aio
from tests.clients.drivers import kafka_python
from tests.clients.drivers.interface import Refused
from tests.support.java import CLIENTS_VERSION, CLIENTS_VERSION_OLD, JavaError, JavaProgram

# The library is imported there, with its warnings silenced.
plain: Any = kafka_python
WAIT_S_MAX = 60
ASK_WAIT_MS_MAX = 90_000
_names = count()


class TransactionalProducer(Protocol):
    """One producer with a transactional id."""

    def init(self) -> None:
        """Take the transactional id over."""

    def begin(self) -> None:
        """Start a transaction."""

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        """Send a record; `flush` says whether it arrived."""

    def flush(self) -> None:
        """Wait until every record sent is acknowledged, or raise."""

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Make a committed offset part of the transaction."""

    def commit(self) -> None:
        """Commit."""

    def abort(self) -> None:
        """Abort."""

    def close(self) -> None:
        """Stop at once; an open transaction stays open."""


class JavaProducer:
    """Kafka's Java client, living in a JVM that others may share."""

    def __init__(self, program: JavaProgram, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        """Make a producer."""
        self._program, self._name = program, f"producer-{next(_names)}"
        settings = {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": str(timeout_ms),
            "retry.backoff.ms": "20",
            "reconnect.backoff.ms": "20",
            "reconnect.backoff.max.ms": "200",
            "max.block.ms": "30000",
        }
        self._ask("open", settings=settings)

    def _ask(self, command: str, **fields: Any) -> None:
        try:
            self._program.ask(command, wait_ms_max=ASK_WAIT_MS_MAX, name=self._name, **fields)
        except JavaError as error:
            code, _, text = error.message.partition(" ")
            if not code.lstrip("-").isdigit():
                raise
            raise Refused(int(code), text) from error

    def init(self) -> None:
        self._ask("init")

    def begin(self) -> None:
        self._ask("begin")

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        self._ask("send", topic=topic, value=value, partition=partition)

    def flush(self) -> None:
        self._ask("flush")

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._ask("offsets", group=group, topic=topic, partition=partition, offset=offset)

    def commit(self) -> None:
        self._ask("commit")

    def abort(self) -> None:
        self._ask("abort")

    def close(self) -> None:
        self._ask("close")


class ConfluentProducer:
    """confluent-kafka, that is librdkafka."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        """Make a producer."""
        self._errors: list[Any] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": min(timeout_ms, 30_000),
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def _call(self, method: str, *arguments: Any) -> None:
        try:
            getattr(self._producer, method)(*arguments)
        except KafkaException as error:
            raise Refused(error.args[0].code(), error.args[0].str()) from error

    def init(self) -> None:
        self._call("init_transactions", WAIT_S_MAX)

    def begin(self) -> None:
        self._errors = []
        self._call("begin_transaction")

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        try:
            self._producer.produce(topic, value, partition=partition, on_delivery=self._delivered)
        except KafkaException as error:
            raise Refused(error.args[0].code(), error.args[0].str()) from error

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._errors.append(error)

    def flush(self) -> None:
        try:
            left = self._producer.flush(WAIT_S_MAX)
        except (KafkaException, SystemError) as error:
            # A fatal error is raised inside the library while it calls us back, and comes out as a SystemError.
            cause = error if isinstance(error, KafkaException) else error.__cause__
            raise Refused(cause.args[0].code() if cause is not None else -1, str(cause)) from None
        if self._errors or left:
            code = self._errors[0].code() if self._errors else -1
            raise Refused(code, f"{self._errors} {left} left")

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        from confluent_kafka import Consumer

        reader = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": group, "log_level": 0})
        metadata = reader.consumer_group_metadata()
        self._call("send_offsets_to_transaction", [TopicPartition(topic, partition, offset)], metadata, WAIT_S_MAX)
        reader.close()

    def commit(self) -> None:
        self._call("commit_transaction", WAIT_S_MAX)

    def abort(self) -> None:
        self._call("abort_transaction", WAIT_S_MAX)

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(1)


class KafkaPythonProducer:
    """kafka-python."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        """Make a producer."""
        self._sent: list[Any] = []
        self._producer = plain.KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=200,
            retry_backoff_ms=20,
        )

    def init(self) -> None:
        with plain.refusals():
            self._producer.init_transactions()

    def begin(self) -> None:
        with plain.refusals():
            self._producer.begin_transaction()

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        with plain.refusals():
            self._sent.append(self._producer.send(topic, value.encode(), partition=partition))

    def flush(self) -> None:
        sent, self._sent = self._sent, []
        with plain.refusals():
            self._producer.flush(WAIT_S_MAX)
            for one in sent:
                one.get(WAIT_S_MAX)

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        from kafka.structs import OffsetAndMetadata

        offsets = {plain.TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        with plain.refusals():
            self._producer.send_offsets_to_transaction(offsets, group)

    def commit(self) -> None:
        with plain.refusals():
            self._producer.commit_transaction()

    def abort(self) -> None:
        with plain.refusals():
            self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=0)


class AiokafkaProducer:
    """aiokafka; its producer takes the transactional id over when it starts."""

    def __init__(self, loop: aio.Loop, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        """Make a producer."""
        self._loop = loop
        self._sent: list[Any] = []

        async def make() -> Any:
            return AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                retry_backoff_ms=20,
            )

        self._producer = loop.run(make())

    def _run(self, work: Any) -> Any:
        with aio.refusals():
            return self._loop.run(work)

    def init(self) -> None:
        self._run(self._producer.start())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        self._sent.append(self._run(self._producer.send(topic, value.encode(), partition=partition)))

    def flush(self) -> None:
        sent, self._sent = self._sent, []
        for one in sent:
            self._run(_awaited(one))

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._run(self._producer.send_offsets_to_transaction({AioTopicPartition(topic, partition): offset}, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.client.close())
        self._run(_stopped(self._producer))


async def _awaited(future: Any) -> Any:
    return await future


async def _stopped(producer: Any) -> None:
    producer._sender.sender_task.cancel()
    producer._closed = True


JAVA, OLD_JAVA = f"java-{CLIENTS_VERSION}", f"java-{CLIENTS_VERSION_OLD}"
LIBRARIES = (JAVA, OLD_JAVA, "confluent", "kafka-python", "aiokafka")


class Producers:
    """Makes producers of any library on one cluster, and ends them."""

    def __init__(self) -> None:
        """Start nothing."""
        self._programs: dict[str, JavaProgram] = {}
        self._loop: aio.Loop | None = None
        self._made: list[TransactionalProducer] = []

    def make(
        self, library: str, bootstrap: str, transactional_id: str, *, timeout_ms: int = 60_000
    ) -> TransactionalProducer:
        """Make a producer that has asked for nothing yet."""
        made = self._new(library, bootstrap, transactional_id, timeout_ms)
        self._made.append(made)
        return made

    def _new(self, library: str, bootstrap: str, transactional_id: str, timeout_ms: int) -> TransactionalProducer:
        if library in (JAVA, OLD_JAVA):
            return JavaProducer(self._program(library), bootstrap, transactional_id, timeout_ms)
        if library == "confluent":
            return ConfluentProducer(bootstrap, transactional_id, timeout_ms)
        if library == "kafka-python":
            return KafkaPythonProducer(bootstrap, transactional_id, timeout_ms)
        self._loop = self._loop or aio.Loop()
        return AiokafkaProducer(self._loop, bootstrap, transactional_id, timeout_ms)

    def _program(self, library: str) -> JavaProgram:
        if library not in self._programs:
            self._programs[library] = JavaProgram("TransactionDriver", clients_version=library.removeprefix("java-"))
        return self._programs[library]

    def close_made(self) -> None:
        """End the producers of one test."""
        made, self._made = self._made, []
        for producer in made:
            producer.close()

    def close(self) -> None:
        """End everything."""
        self.close_made()
        for program in self._programs.values():
            program.close()
        if self._loop is not None:
            self._loop.close()

"""Client libraries, and their defaults that matter for a guarantee, by the Java clients' names.

Which version it is counts: the same setting has other defaults in another one.

Sources: the ProducerConfig and ConsumerConfig of Apache Kafka 2.8, 3.0 and 4.0 (KIP-679, KIP-1030); CONFIGURATION.md of
         librdkafka; config.go of sarama; the DEFAULT_CONFIG of kafka-python 2.0, 2.2 and 3.0; aiokafka's constructors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from semel.errors import ConfigError

# The version whose defaults are meant when none is named.
NEWEST = {
    "java": (4, 0),
    "librdkafka": (2, 0),
    "sarama": (1, 40),
    "kafka-python": (3, 0),
    "aiokafka": (0, 12),
}
_WRITTEN = re.compile(r"(?P<name>[a-z-]+)(?:[@ ](?P<major>\d+)(?:\.(?P<minor>\d+))?.*)?")


@dataclass(frozen=True, slots=True)
class Library:
    """A client library by name and version."""

    name: str
    version: tuple[int, int]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `java`, `java@2.8`, `librdkafka@1.9.2`."""
        match = _WRITTEN.fullmatch(text.strip().lower())
        if match is None or match["name"] not in NEWEST:
            raise ConfigError(f"there is no client library {text!r}", you_want=" | ".join(NEWEST) + ", or java@2.8")
        if match["major"] is None:
            return cls(match["name"], NEWEST[match["name"]])
        return cls(match["name"], (int(match["major"]), int(match["minor"] or 0)))

    def __str__(self) -> str:
        """As people write it."""
        return f"{self.name} {self.version[0]}.{self.version[1]}"


FOREVER = str(2**31 - 1)

_JAVA = {
    "acks": "all",
    "auto.offset.reset": "latest",
    "delivery.timeout.ms": "120000",
    "enable.auto.commit": "true",
    "enable.idempotence": "true",
    "isolation.level": "read_uncommitted",
    "linger.ms": "5",
    "max.in.flight.requests.per.connection": "5",
    "max.poll.interval.ms": "300000",
    "max.request.size": "1048576",
    "partitioner.class": "murmur2",
    "request.timeout.ms": "30000",
    "retries": FOREVER,
    "session.timeout.ms": "45000",
    "transaction.timeout.ms": "60000",
}
_LIBRDKAFKA = {
    **_JAVA,
    "delivery.timeout.ms": "300000",
    "enable.auto.offset.store": "true",
    "enable.idempotence": "false",
    "isolation.level": "read_committed",
    "max.in.flight.requests.per.connection": "1000000",
    "max.request.size": "1000000",
    "partitioner.class": "consistent_random",
}
_SARAMA = {
    **_JAVA,
    "acks": "1",
    "enable.idempotence": "false",
    "linger.ms": "0",
    "partitioner.class": "fnv-1a",
    "request.timeout.ms": "10000",
    "retries": "3",
    "session.timeout.ms": "10000",
}
_KAFKA_PYTHON = {**_JAVA, "linger.ms": "0"}
_AIOKAFKA = {
    **_JAVA,
    "acks": "1",
    "delivery.timeout.ms": "40000",
    "enable.idempotence": "false",
    "linger.ms": "0",
    "max.in.flight.requests.per.connection": "1",
    "request.timeout.ms": "40000",
    "session.timeout.ms": "10000",
}
_WEAK = {"acks": "1", "enable.idempotence": "false"}


def defaults_of(library: Library) -> dict[str, str]:
    """What a client has in force when nothing was written."""
    match library.name:
        case "java":
            return _java(library.version)
        case "librdkafka":
            return dict(_LIBRDKAFKA)
        case "sarama":
            return dict(_SARAMA) | ({"max.request.size": "1000000"} if library.version < (1, 38) else {})
        case "kafka-python":
            return _kafka_python(library.version)
        case _:
            return dict(_AIOKAFKA)


def _java(version: tuple[int, int]) -> dict[str, str]:
    values = dict(_JAVA)
    if version < (4, 0):
        values["linger.ms"] = "0"
    if version < (3, 0):
        # KIP-679 made acks=all and idempotence the defaults in 3.0, KIP-735 the longer session.
        values |= _WEAK | {"session.timeout.ms": "10000"}
    if version < (2, 1):
        # KIP-91: since 2.1 delivery.timeout.ms ends a send, and retries are unlimited.
        values |= {"retries": "0"}
    return values


def _kafka_python(version: tuple[int, int]) -> dict[str, str]:
    values = dict(_KAFKA_PYTHON)
    if version < (3, 0):
        values |= _WEAK
    if version < (2, 1):
        values |= {"retries": "0", "session.timeout.ms": "10000"}
    return values

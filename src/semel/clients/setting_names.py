"""One spelling for client settings: the Java clients' names, whatever library the settings were written for.

Why: librdkafka, sarama, kafka-python and aiokafka have their own names, values and defaults for the same thing. Rules
     in `settings_rules.py` know one spelling only, with every default filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from semel.clients.setting_defaults import FOREVER, defaults_of
from semel.clients.setting_library import Library
from semel.errors import ConfigError

SPARK_PREFIX = "kafka."
IN_FLIGHT_MAX = 5  # how many batches of a producer a broker remembers

_LIBRDKAFKA = {
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "message.max.bytes": "max.request.size",
    "metadata.broker.list": "bootstrap.servers",
    "compression.codec": "compression.type",
    "auto.commit.enable": "enable.auto.commit",
    "partitioner": "partitioner.class",
}
_SARAMA = {
    "producer.requiredacks": "acks",
    "producer.retry.max": "retries",
    "producer.idempotent": "enable.idempotence",
    "net.maxopenrequests": "max.in.flight.requests.per.connection",
    "producer.maxmessagebytes": "max.request.size",
    "producer.timeout": "request.timeout.ms",
    "producer.transaction.id": "transactional.id",
    "producer.transaction.timeout": "transaction.timeout.ms",
    "producer.partitioner": "partitioner.class",
    "consumer.isolationlevel": "isolation.level",
    "consumer.offsets.initial": "auto.offset.reset",
    "consumer.offsets.autocommit.enable": "enable.auto.commit",
    "consumer.group.id": "group.id",
}
_PYTHON = {"partitioner": "partitioner.class"}
_VALUES = {
    "acks": {
        "-1": "all",
        "waitforall": "all",
        "waitforlocal": "1",
        "noresponse": "0",
    },
    "auto.offset.reset": {
        "smallest": "earliest",
        "beginning": "earliest",
        "largest": "latest",
        "end": "latest",
        "error": "none",
        "-2": "earliest",
        "-1": "latest",
        "offsetoldest": "earliest",
        "offsetnewest": "latest",
    },
    "isolation.level": {"readcommitted": "read_committed", "readuncommitted": "read_uncommitted"},
}
_ONLY_LIBRDKAFKA = frozenset(_LIBRDKAFKA) | {
    "broker.address.family",
    "enable.auto.offset.store",
    "enable.gapless.guarantee",
    "queue.buffering.max.messages",
    "sasl.mechanisms",
    "sasl.password",
    "sasl.username",
    "ssl.ca.location",
    "statistics.interval.ms",
}
_PRODUCER = frozenset(
    {
        "acks",
        "delivery.timeout.ms",
        "enable.idempotence",
        "linger.ms",
        "max.request.size",
        "partitioner.class",
        "transaction.timeout.ms",
        "transactional.id",
    }
)
_CONSUMER = frozenset(
    {"auto.offset.reset", "enable.auto.commit", "enable.auto.offset.store", "group.id", "isolation.level"}
)


class Role(StrEnum):
    """What a client does."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The settings of one client: what was written, and what is in force, both by the Java clients' names."""

    given: Mapping[str, str]
    effective: Mapping[str, str]
    library: Library
    roles: frozenset[Role]

    def text(self, name: str) -> str:
        """The value in force; empty when there is none."""
        return self.effective.get(name, "")

    def number(self, name: str) -> int | None:
        """The value in force as a whole number; None when it is not one."""
        text = self.text(name).strip()
        return int(text) if text.removeprefix("-").isdecimal() else None

    def enabled(self, name: str) -> bool:
        """The value in force as yes or no."""
        return self.text(name).strip().lower() in ("true", "1", "yes")

    def shown(self, name: str) -> str:
        """The value, and where it comes from if nobody wrote it."""
        if name in self.given:
            return f"{name}={self.text(name)}"
        if name not in self.effective:
            return f"{name} is not set"
        is_default = defaults_of(self.library).get(name) == self.text(name)
        origin = f"default of {self.library}" if is_default else "follows from the others"
        return f"{name}={self.text(name)} ({origin})"


def read_settings(
    written: Mapping[str, object], *, library: Library | None = None, role: Role | None = None
) -> ClientSettings:
    """Read settings as they were written for any library; without `library` it is told by the spelling."""
    known = library or guess_library(written)
    given = {_canonical(name, known): value for name, value in _texts(written).items()}
    given = {name: _value(name, value) for name, value in given.items()}
    roles = frozenset({role}) if role is not None else _roles(given)
    return ClientSettings(given=given, effective=_effective(given, known), library=known, roles=roles)


def guess_library(written: Mapping[str, object]) -> Library:
    """Tell the library by how its settings are spelled."""
    names = [name.lower() for name in written]
    if any(name in _SARAMA or name.startswith(("net.", "producer.", "consumer.")) for name in names):
        return Library.parse("sarama")
    if any("_" in name for name in names):
        return Library.parse("kafka-python")
    if any(name in _ONLY_LIBRDKAFKA for name in names):
        return Library.parse("librdkafka")
    return Library.parse("java")


def _texts(written: Mapping[str, object]) -> dict[str, str]:
    texts = {}
    for name, value in written.items():
        if not isinstance(name, str) or isinstance(value, (dict, list)):
            # The value is not shown: it may hold a password.
            raise ConfigError(
                f"setting {name!r} is not a name with one value", you_want="name: text, number or true/false"
            )
        texts[name.strip()] = "" if value is None else str(value).strip()
    return texts


def _canonical(name: str, library: Library) -> str:
    plain = name.lower().removeprefix(SPARK_PREFIX)
    match library.name:
        case "librdkafka":
            return _LIBRDKAFKA.get(plain, plain)
        case "sarama":
            return _SARAMA.get(plain, plain)
        case "kafka-python" | "aiokafka":
            return _PYTHON.get(plain, plain.replace("_", "."))
        case _:
            return plain


def _value(name: str, text: str) -> str:
    plain = text.lower().rpartition(".")[2] if "sarama." in text.lower() else text.lower()
    return _VALUES.get(name, {}).get(plain, text)


def _effective(given: Mapping[str, str], library: Library) -> dict[str, str]:
    values = {**defaults_of(library), **given}
    if "enable.idempotence" not in given:
        values["enable.idempotence"] = _idempotence(values, given)
    if values["enable.idempotence"].lower() == "true" and library.name != "sarama":
        # Who switches idempotence on gets what it needs unless it was written otherwise; sarama wants it all written.
        needed = {"acks": "all", "retries": FOREVER, "max.in.flight.requests.per.connection": "5"}
        values |= {name: value for name, value in needed.items() if name not in given}
    return values


def _idempotence(values: Mapping[str, str], given: Mapping[str, str]) -> str:
    """What the library makes of it when nothing was written: Java switches it off where other settings forbid it."""
    if given.get("transactional.id"):
        return "true"
    in_flight = given.get("max.in.flight.requests.per.connection", "")
    forbidden = (
        given.get("acks", "all") != "all"
        or given.get("retries") == "0"
        or (in_flight.isdecimal() and int(in_flight) > IN_FLIGHT_MAX)
    )
    return "false" if forbidden else values["enable.idempotence"]


def _roles(given: Mapping[str, str]) -> frozenset[Role]:
    found = {role for role, names in ((Role.PRODUCER, _PRODUCER), (Role.CONSUMER, _CONSUMER)) if names & given.keys()}
    return frozenset(found or set(Role))

"""One spelling for client settings: the Java clients' names, whatever library the settings were written for.

Why: librdkafka, sarama, kafka-python and aiokafka have their own names, values and defaults for the same thing. Rules
     in `settings_rules.py` know one spelling only, with every default filled in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from semel.clients.setting_defaults import Library, defaults_of
from semel.clients.setting_effects import FOLLOWS, in_force
from semel.clients.setting_values import is_yes, whole_number
from semel.clients.setting_vocabulary import NAMES, is_known, knows_any, nearest, printable_name
from semel.errors import ConfigError
from semel.protocol.clear_text import IN_THE_CLEAR

SPARK_PREFIX = "kafka."

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
# What `semel check` shows for a name that is put together when the program runs, and cannot be empty.
COMPUTED_NAME = "(computed)"
_NAMING = frozenset({"transactional.id", "group.id"})
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


@dataclass(frozen=True, slots=True)
class Computed:
    """A value that only the running program knows, and why; `filled` when it is a text that cannot be empty."""

    why: str
    filled: bool = False


class SettingUnread(Exception):
    """Somebody asked for a setting whose value only the running program knows."""


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A name that the library does not have, and the one that was probably meant."""

    name: str
    near: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The settings of one client: what was written, and what is in force, both by the Java clients' names.

    `unread` has the settings whose value could not be read, with the reason. `elsewhere` says why settings that are not
    in `given` may have been set all the same; it is empty when everything was seen.
    """

    given: Mapping[str, str]
    effective: Mapping[str, str]
    library: Library
    roles: frozenset[Role]
    unknown_names: tuple[UnknownName, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    elsewhere: str = ""

    def why_unread(self, name: str) -> str:
        """Why the value in force is not known; empty when it is."""
        if name in self.unread:
            return f"{name} is {self.unread[name]}"
        if name in self.given:
            return ""
        if self.elsewhere:
            return f"{name} may be set: {self.elsewhere}"
        other = next((each for each in FOLLOWS.get(name, ()) if each in self.unread), "")
        return f"{name} follows from {other}, which is {self.unread[other]}" if other else ""

    def text(self, name: str) -> str:
        """The value in force; empty when there is none. SettingUnread when nobody can know it."""
        why = self.why_unread(name)
        if why:
            raise SettingUnread(why)
        return self.effective.get(name, "")

    def number(self, name: str) -> int | None:
        """The value in force as a whole number; None when it is not one."""
        return whole_number(name, self.text(name), self.library)

    def enabled(self, name: str) -> bool:
        """The value in force as yes or no."""
        return is_yes(self.text(name), self.library)

    def shown(self, name: str) -> str:
        """The value, and where it comes from if nobody wrote it."""
        why = self.why_unread(name)
        if why:
            return why
        if name in self.given:
            return f"{name}={self.text(name)}"
        if name not in self.effective:
            return f"{name} is not set"
        is_default = defaults_of(self.library).get(name) == self.text(name)
        origin = f"default of {self.library}" if is_default else "follows from the others"
        return f"{name}={self.text(name)} ({origin})"


def read_settings(
    written: Mapping[str, object], *, library: Library | None = None, role: Role | None = None, elsewhere: str = ""
) -> ClientSettings:
    """Read settings as they were written for any library; without `library` the spelling says which one."""
    known = library or guess_library(written)
    unread: dict[str, str] = {}
    given: dict[str, str] = {}
    for name, value in _texts(written).items():
        canonical = canonical_name(name, known)
        if isinstance(value, Computed):
            if value.filled and canonical in _NAMING:
                given[canonical] = COMPUTED_NAME
                continue
            unread[canonical] = value.why
        given[canonical] = "" if isinstance(value, Computed) else _value(canonical, value)
    readable = {name: text for name, text in given.items() if name not in unread}
    return ClientSettings(
        given=given,
        effective=in_force(readable, known),
        library=known,
        roles=frozenset({role}) if role is not None else _roles(given),
        unknown_names=tuple(_unknown_names(written, known)),
        unread=unread,
        elsewhere=elsewhere,
    )


def guess_library(written: Mapping[str, object]) -> Library:
    """Tell the library by how its settings are spelled: the first that alone knows one of the names."""
    names = [name.removeprefix(SPARK_PREFIX) for name in written]
    if any(name.lower() in _SARAMA or name.lower().startswith(("net.", "producer.", "consumer.")) for name in names):
        return Library.parse("sarama")
    if any(name in NAMES["librdkafka"] - NAMES["java"] - NAMES["kafka-python"] for name in names):
        return Library.parse("librdkafka")
    # Underscores are Python's spelling. Names alone do not tell kafka-python from aiokafka, so the first is taken.
    if any("_" in name for name in names):
        return Library.parse("kafka-python")
    return Library.parse("java")


def _unknown_names(written: Mapping[str, object], library: Library) -> Iterator[UnknownName]:
    for name in written:
        plain = _plain(name, library)
        if is_known(plain, library) or plain == IN_THE_CLEAR:  # semel's own, of its clients, source and sink
            continue
        # Another library's name for a setting that this one has under its own, or else the nearest spelling.
        meant = _LIBRDKAFKA.get(plain, "")
        near = meant if meant and is_known(meant, library) else nearest(plain, library)
        # A name that some library knows is a name, however it looks.
        yield UnknownName(name if knows_any(plain) else printable_name(name), near)


def _texts(written: Mapping[str, object]) -> dict[str, str | Computed]:
    texts: dict[str, str | Computed] = {}
    for name, value in written.items():
        if not isinstance(name, str) or isinstance(value, (dict, list)):
            # The value is not shown: it may hold a password.
            raise ConfigError(
                f"setting {name!r} is not a name with one value", you_want="name: text, number or true/false"
            )
        texts[name.strip()] = value if isinstance(value, Computed) else "" if value is None else str(value).strip()
    return texts


def _plain(name: str, library: Library) -> str:
    """The name without Spark's prefix. Spark and sarama's fields are read in any case, everything else as written."""
    if name.lower().startswith(SPARK_PREFIX):
        return name.lower().removeprefix(SPARK_PREFIX)
    return name.lower() if library.name == "sarama" else name


def canonical_name(name: str, library: Library) -> str:
    """The Java clients' name for a setting of this library."""
    plain = _plain(name.strip(), library)
    match library.name:
        case "librdkafka":
            return _LIBRDKAFKA.get(plain, plain)
        case "sarama":
            return _SARAMA.get(plain, plain)
        case "kafka-python" | "aiokafka":
            return _PYTHON.get(plain, plain.replace("_", ".") if is_known(plain, library) else plain)
        case _:
            return plain


def _value(name: str, text: str) -> str:
    plain = text.lower().rpartition(".")[2] if "sarama." in text.lower() else text.lower()
    known = _VALUES.get(name, {})
    return plain if plain in known.values() else known.get(plain, text)


def _roles(given: Mapping[str, str]) -> frozenset[Role]:
    found = {role for role, names in ((Role.PRODUCER, _PRODUCER), (Role.CONSUMER, _CONSUMER)) if names & given.keys()}
    return frozenset(found or set(Role))

"""The names of `kafka.*` options: which say how to connect, and why any other is refused.

Why: an option that is silently ignored is a surprise in production, and one that was to protect the connection is a
     breach. So nothing is passed over: the source and the sink take out what is theirs, and what is left either says
     how to connect or is an error that names the reason and, where there is one, the name that was meant.
"""

import difflib
from collections.abc import Collection, Mapping

from semel.errors import ConfigError
from semel.protocol.msk_iam import refuse_msk_iam

PREFIX = "kafka."

# How to connect: honoured by the source, the sink and the tools alike, in `settings.py` and `security.py`.
CONNECTION = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "default.api.timeout.ms",
        "receive.message.max.bytes",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.in.the.clear",
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.type",
    }
)
# An empty value means something, or has an error of its own.
MAY_BE_EMPTY = frozenset({"bootstrap.servers", "ssl.endpoint.identification.algorithm"})

# Names of one setting: the Java client's, and librdkafka's. A user who gives both may mean either.
SAME = (
    ("sasl.mechanism", "sasl.mechanisms"),
    ("sasl.jaas.config", "sasl.username"),
    ("sasl.jaas.config", "sasl.password"),
    ("ssl.truststore.location", "ssl.ca.location"),
    ("ssl.truststore.certificates", "ssl.ca.pem"),
    ("ssl.keystore.location", "ssl.certificate.location"),
    ("ssl.keystore.location", "ssl.key.location"),
)

# Of readers and writers alike: the Java clients' own threads, sockets and caches. Nothing here corresponds to them.
TUNING = frozenset(
    {
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "metadata.max.age.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
    }
)
TUNING_BECAUSE = "it tunes the inside of the Java client, which is not used here"

READING = frozenset(
    {
        "allow.auto.create.topics",
        "auto.offset.reset",
        "check.crcs",
        "client.rack",
        "enable.auto.commit",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "heartbeat.interval.ms",
        "isolation.level",
        "key.deserializer",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "session.timeout.ms",
        "value.deserializer",
    }
)
READING_BECAUSE = "it is a setting of readers: the place for it is the source"

WRITING = frozenset(
    {
        "acks",
        "batch.size",
        "buffer.memory",
        "compression.type",
        "delivery.timeout.ms",
        "enable.idempotence",
        "key.serializer",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "metadata.max.idle.ms",
        "partitioner.class",
        "retries",
        "transaction.timeout.ms",
        "transactional.id",
        "value.serializer",
    }
)
WRITING_BECAUSE = "it is a setting of writers: the place for it is the sink"

_JAVA_CLASSES = "it chooses classes of a Java runtime, which is not used here"
_STORES = "put certificate and key into a PEM file and name it in kafka.ssl.keystore.location"
_PASSWORDS = "PEM files have no password of their own; that of a private key is kafka.ssl.key.password"
REFUSED = {
    "interceptor.classes": "interceptors are Java classes and would not run",
    "sasl.kerberos.service.name": "Kerberos (GSSAPI) is not spoken here",
    "security.providers": _JAVA_CLASSES,
    "ssl.keymanager.algorithm": _JAVA_CLASSES,
    "ssl.keystore.certificate.chain": _STORES,
    "ssl.keystore.key": _STORES,
    "ssl.keystore.password": _PASSWORDS,
    "ssl.protocol": "kafka.ssl.enabled.protocols says which versions of TLS may be spoken",
    "ssl.provider": _JAVA_CLASSES,
    "ssl.secure.random.implementation": _JAVA_CLASSES,
    "ssl.trustmanager.algorithm": _JAVA_CLASSES,
    "ssl.truststore.password": _PASSWORDS,
}
_REASONS = {
    **dict.fromkeys(TUNING, TUNING_BECAUSE),
    **dict.fromkeys(READING, READING_BECAUSE),
    **dict.fromkeys(WRITING, WRITING_BECAUSE),
    **REFUSED,
}


def by_lower_name(options: Mapping[str, object]) -> dict[str, str]:
    """Read options whose names do not mind case; ConfigError for one that is there twice, or has no value."""
    found: dict[str, str] = {}
    for name, value in options.items():
        if not isinstance(name, str):
            raise ConfigError("the name of an option is text", you_wrote=f"a key of type {type(name).__name__}")
        if value is None:
            raise ConfigError(f"option {name} has no value", you_wrote="None", you_want="a value, or leave it out")
        if name.lower() in found:
            raise ConfigError(
                f"option {name} is given twice, in different case",
                because="names of options do not mind case, so one of the two would be lost",
            )
        found[name.lower()] = str(value)
    return found


def connection_options(
    options: Mapping[str, object], *, instead: Mapping[str, str], others: Collection[str]
) -> dict[str, str]:
    """Give the options without `kafka.`, in lower case; ConfigError for any that does not say how to connect.

    `instead` says of names what is wanted instead, better than this module can; `others` are names that the caller has
    honoured itself, so that a misspelt one finds them.
    """
    found = by_lower_name(options)
    refuse_msk_iam(found, f"{PREFIX}sasl.login.callback.handler.class=package.module:function", prefix=PREFIX)
    for name, value in found.items():
        _check(name, value, instead, others)
    given = {name.removeprefix(PREFIX): value for name, value in found.items()}
    for first, second in SAME:
        if first in given and second in given:
            raise ConfigError(
                f"options {PREFIX}{first} and {PREFIX}{second} are given both",
                you_want="one of them",
                because="they set the same thing",
            )
    return given


def _check(name: str, value: str, instead: Mapping[str, str], others: Collection[str]) -> None:
    """Why the value is in no error: it may be a password whose name was misspelt."""
    short = name.removeprefix(PREFIX)
    for one in (name, PREFIX + short):
        if one in instead:
            raise ConfigError(f"option {name} has no place here", you_want=instead[one])
    if short in _REASONS and short not in others:
        raise ConfigError(f"option {name} is not supported", because=_REASONS[short])
    if short not in CONNECTION and short not in others:
        near = difflib.get_close_matches(short, (*sorted(CONNECTION), *others), n=1)
        raise ConfigError(
            f"option {name} is unknown",
            you_want=PREFIX + near[0] if near else "",
            because="an option that nobody reads would be a surprise later",
        )
    if name == short:
        raise ConfigError(
            f"option {name} needs a prefix", you_want=PREFIX + name, because="so Spark's Kafka source and sink name it"
        )
    if not value.strip() and short not in MAY_BE_EMPTY:
        raise ConfigError(f"option {name} is empty", you_want="a value, or leave it out")

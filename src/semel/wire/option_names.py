"""The names of `kafka.*` options: which are understood, which are passed over, which are refused and why.

Why: an option that is silently ignored is a surprise in production. What cannot matter here is on a list; anything
     else is an error, with the nearest name that would have been understood.
"""

import difflib
from collections.abc import Mapping

from semel.errors import ConfigError

PREFIX = "kafka."

USED = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "default.api.timeout.ms",
        "receive.message.max.bytes",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
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

# Read by the source or the sink themselves.
USED_ABOVE = frozenset(
    {
        "batch.size",
        "client.rack",
        "compression.type",
        "delivery.timeout.ms",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.request.size",
        "transaction.timeout.ms",
        "transactional.id",
    }
)

# Tuning of the Java clients' own threads, buffers and caches: nothing here corresponds to it, and nothing is lost.
PASSED_OVER = frozenset(
    {
        "allow.auto.create.topics",
        "auto.include.jmx.reporter",
        "buffer.memory",
        "check.crcs",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "group.instance.id",
        "heartbeat.interval.ms",
        "linger.ms",
        "max.block.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metadata.max.idle.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "security.providers",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "ssl.keymanager.algorithm",
        "ssl.keystore.password",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.password",
    }
)

# The values that agree with what is done here in any case; every other value is refused.
FIXED = {
    "acks": ("all", "-1"),
    "enable.idempotence": ("true",),
    "enable.auto.commit": ("false",),
    "max.in.flight.requests.per.connection": ("1", "2", "3", "4", "5"),
}
FIXED_BECAUSE = "this client always writes idempotently, acknowledged by all in-sync replicas, and commits no offsets"

REFUSED = {
    "auto.offset.reset": "use startingOffsets: where to start is part of the query, not of the client",
    "interceptor.classes": "interceptors are Java classes and would not run",
    "key.deserializer": "keys come as bytes; decode them with DataFrame expressions",
    "key.serializer": "keys are written as the bytes or text given",
    "partitioner.class": "partitions are chosen as the Java client's default does, or by a partition column",
    "sasl.kerberos.service.name": "Kerberos (GSSAPI) is not spoken here",
    "ssl.keystore.certificate.chain": "put certificate and key into a file and name it in kafka.ssl.keystore.location",
    "ssl.keystore.key": "put certificate and key into a file and name it in kafka.ssl.keystore.location",
    "value.deserializer": "values come as bytes; decode them with DataFrame expressions",
    "value.serializer": "values are written as the bytes or text given",
}


def kafka_options(options: Mapping[str, str]) -> dict[str, str]:
    """Give the `kafka.*` options without that prefix, in lower case; ConfigError for one that is not understood."""
    found = {
        name.lower().removeprefix(PREFIX): str(value)
        for name, value in options.items()
        if name.lower().startswith(PREFIX)
    }
    for name, value in found.items():
        _check(name, value)
    return {name: value for name, value in found.items() if name in USED}


def _check(name: str, value: str) -> None:
    if name in REFUSED:
        raise ConfigError(f"option {PREFIX}{name} is not supported", because=REFUSED[name])
    if name in FIXED and value.lower() not in FIXED[name]:
        raise ConfigError(
            f"option {PREFIX}{name} cannot be {value!r}",
            you_want=f"{PREFIX}{name}={FIXED[name][0]}, or leave it out",
            because=FIXED_BECAUSE,
        )
    if name not in USED | USED_ABOVE | PASSED_OVER | FIXED.keys():
        near = difflib.get_close_matches(name, USED | USED_ABOVE | PASSED_OVER | FIXED.keys(), n=1)
        raise ConfigError(
            f"option {PREFIX}{name} is unknown",
            you_want=f"{PREFIX}{near[0]}" if near else "",
            because="an option that nobody reads would be a surprise later",
        )

"""Topic and broker settings by Kafka's names: types, defaults, and which broker setting stands behind a topic's.

Keys with an effect here are live; others that Apache Kafka has are kept and answered, so that tools which set them
work. docs/DIFFERENCES.md lists which are which.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

from semel.broker.log.config import LogConfig
from semel.errors import ConfigError

HOUR_MS = 3_600_000
LONG_MAX = str(2**63 - 1)


class ConfigType(IntEnum):
    """As DescribeConfigs numbers them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@dataclass(frozen=True, slots=True)
class Key:
    """One setting; `broker_key` is the broker setting that a topic's default comes from.

    One that is internal has no default: it is in force, and shown, only where it was set.
    """

    name: str
    type: ConfigType
    default: str
    broker_key: str = ""
    is_internal: bool = False


def _table(*keys: Key) -> Mapping[str, Key]:
    return MappingProxyType({key.name: key for key in keys})


_B, _S, _I, _L, _D, _T = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)

TOPIC_KEYS = _table(
    Key("cleanup.policy", _T, "delete", "log.cleanup.policy"),
    Key("compression.gzip.level", _I, "-1", "compression.gzip.level"),
    Key("compression.lz4.level", _I, "9", "compression.lz4.level"),
    Key("compression.type", _S, "producer", "compression.type"),
    Key("compression.zstd.level", _I, "3", "compression.zstd.level"),
    Key("delete.retention.ms", _L, "86400000", "log.cleaner.delete.retention.ms"),
    Key("file.delete.delay.ms", _L, "60000", "log.segment.delete.delay.ms"),
    Key("flush.messages", _L, LONG_MAX, "log.flush.interval.messages"),
    Key("flush.ms", _L, LONG_MAX, "log.flush.interval.ms"),
    Key("follower.replication.throttled.replicas", _T, ""),
    Key("index.interval.bytes", _I, "4096", "log.index.interval.bytes"),
    Key("internal.segment.bytes", _I, "", is_internal=True),
    Key("leader.replication.throttled.replicas", _T, ""),
    Key("local.retention.bytes", _L, "-2", "log.local.retention.bytes"),
    Key("local.retention.ms", _L, "-2", "log.local.retention.ms"),
    Key("max.compaction.lag.ms", _L, LONG_MAX, "log.cleaner.max.compaction.lag.ms"),
    Key("max.message.bytes", _I, "1048588", "message.max.bytes"),
    Key("message.timestamp.after.max.ms", _L, str(HOUR_MS), "log.message.timestamp.after.max.ms"),
    Key("message.timestamp.before.max.ms", _L, LONG_MAX, "log.message.timestamp.before.max.ms"),
    Key("message.timestamp.type", _S, "CreateTime", "log.message.timestamp.type"),
    Key("min.cleanable.dirty.ratio", _D, "0.5", "log.cleaner.min.cleanable.ratio"),
    Key("min.compaction.lag.ms", _L, "0", "log.cleaner.min.compaction.lag.ms"),
    Key("min.insync.replicas", _I, "1", "min.insync.replicas"),
    Key("preallocate", _B, "false", "log.preallocate"),
    Key("remote.log.copy.disable", _B, "false"),
    Key("remote.log.delete.on.disable", _B, "false"),
    Key("remote.storage.enable", _B, "false"),
    Key("retention.bytes", _L, "-1", "log.retention.bytes"),
    Key("retention.ms", _L, "604800000", "log.retention.ms"),
    Key("segment.bytes", _I, "1073741824", "log.segment.bytes"),
    Key("segment.index.bytes", _I, "10485760", "log.index.size.max.bytes"),
    Key("segment.jitter.ms", _L, "0", "log.roll.jitter.ms"),
    Key("segment.ms", _L, "604800000", "log.roll.ms"),
    Key("unclean.leader.election.enable", _B, "false", "unclean.leader.election.enable"),
)

BROKER_KEYS = _table(
    *(Key(key.broker_key, key.type, key.default) for key in TOPIC_KEYS.values() if key.broker_key),
    Key("allow.everyone.if.no.acl.found", _B, "false"),
    Key("authorizer.class.name", _S, ""),
    Key("auto.create.topics.enable", _B, "true"),
    # These two are 2 and 9 seconds in Apache Kafka. Here tests wait until a silent broker is fenced.
    Key("broker.heartbeat.interval.ms", _I, "500"),
    Key("broker.session.timeout.ms", _I, "2000"),
    Key("connections.max.idle.ms", _L, "600000"),
    Key("controller.quorum.election.timeout.ms", _I, "1000"),
    Key("default.replication.factor", _I, "1"),
    Key("delete.topic.enable", _B, "true"),
    Key("fetch.max.bytes", _I, "57671680"),
    Key("group.consumer.heartbeat.interval.ms", _I, "5000"),
    Key("group.consumer.max.size", _I, "2147483647"),
    Key("group.consumer.session.timeout.ms", _I, "45000"),
    # 3 seconds in Apache Kafka, for which every test would wait.
    Key("group.initial.rebalance.delay.ms", _I, "0"),
    Key("group.max.session.timeout.ms", _I, "1800000"),
    Key("group.max.size", _I, "2147483647"),
    Key("group.min.session.timeout.ms", _I, "6000"),
    Key("log.cleaner.backoff.ms", _L, "15000"),
    Key("log.flush.scheduler.interval.ms", _L, "1000"),
    Key("log.retention.check.interval.ms", _L, "300000"),
    Key("max.connections", _I, "10000"),
    Key("max.incremental.fetch.session.cache.slots", _I, "1000"),
    Key("num.partitions", _I, "1"),
    Key("offset.metadata.max.bytes", _I, "4096"),
    Key("offsets.commit.timeout.ms", _I, "5000"),
    Key("offsets.retention.check.interval.ms", _L, "600000"),
    # Seven days, since KIP-186. Offsets of a group that has members do not expire (KIP-211).
    Key("offsets.retention.minutes", _I, "10080"),
    # 50 in Apache Kafka. Each takes a folder on every replica, and a coordinator on its leader.
    Key("offsets.topic.num.partitions", _I, "8"),
    Key("offsets.topic.replication.factor", _I, "3"),
    Key("offsets.topic.segment.bytes", _I, "104857600"),
    Key("producer.id.expiration.ms", _I, "86400000"),
    Key("replica.fetch.backoff.ms", _I, "100"),
    Key("replica.fetch.max.bytes", _I, "1048576"),
    Key("replica.fetch.response.max.bytes", _I, "10485760"),
    Key("replica.fetch.wait.max.ms", _I, "500"),
    Key("replica.lag.time.max.ms", _L, "30000"),
    Key("socket.request.max.bytes", _I, "104857600"),
    Key("super.users", _S, ""),
    Key("transaction.abort.timed.out.transaction.cleanup.interval.ms", _I, "1000"),
    Key("transaction.max.timeout.ms", _I, "900000"),
    # KIP-890, part 1: without it a late batch can open a transaction that its coordinator never hears of (T5).
    Key("transaction.partition.verification.enable", _B, "true"),
    Key("transaction.remove.expired.transaction.cleanup.interval.ms", _I, "3600000"),
    Key("transaction.state.log.min.isr", _I, "2"),
    Key("transaction.state.log.num.partitions", _I, "8"),
    Key("transaction.state.log.replication.factor", _I, "3"),
    Key("transactional.id.expiration.ms", _I, "604800000"),
)

# What can be changed while the broker runs: the defaults of topics.
DYNAMIC_BROKER_KEYS = frozenset(key.broker_key for key in TOPIC_KEYS.values() if key.broker_key)

_WHOLE_NUMBER = re.compile(r"\s*[+-]?[0-9]+\s*")
# Bits beside the sign, as Java's types have them.
_RANGES = MappingProxyType({ConfigType.INT: 31, ConfigType.LONG: 63, ConfigType.SHORT: 15})
_CHOICES = MappingProxyType(
    {
        "compression.type": ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    }
)


def _objection(key: Key, text: str) -> str:
    if key.name in _CHOICES and text not in _CHOICES[key.name]:
        return f"String must be one of: {', '.join(_CHOICES[key.name])}"
    # The texts of these objections are Apache Kafka's, since tools show them to their users.
    if key.type in _RANGES:
        return _objection_to_number(key.type, text)
    try:
        if key.type is ConfigType.DOUBLE:
            float(text)
    except ValueError:
        return f"Not a number of type {key.type.name}"
    if key.type is ConfigType.BOOLEAN and text.lower() not in ("true", "false"):
        return "Expected value to be either true or false"
    return ""


def _objection_to_number(kind: ConfigType, text: str) -> str:
    # Python's int() takes "1_000", which Java's parser, and so Kafka, refuses.
    if not _WHOLE_NUMBER.fullmatch(text):
        return f"Not a number of type {kind.name}"
    limit = 2 ** _RANGES[kind]
    return "" if -limit <= int(text) < limit else "Value is out of range"


def check_value(key: Key, text: str) -> None:
    """Refuse a value that does not fit its key."""
    objection = _objection(key, text)
    if objection:
        raise ConfigError(f"Invalid value {text} for configuration {key.name}: {objection}")


def check_topic_config(config: Mapping[str, str]) -> None:
    """Refuse unknown keys and bad values."""
    for name, text in config.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            raise ConfigError(f"Unknown topic config name: {name}")
        check_value(key, text)
        if name == "min.insync.replicas" and int(text) < 1:
            raise ConfigError(f"Invalid value {text} for configuration {name}: Value must be at least 1")
    lags_ms = [
        int(config.get(f"{end}.compaction.lag.ms", TOPIC_KEYS[f"{end}.compaction.lag.ms"].default))
        for end in ("min", "max")
    ]
    if lags_ms[0] > lags_ms[1]:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({lags_ms[0]}) > max.compaction.lag.ms ({lags_ms[1]})"
        )
    # What remains are ranges, which the log itself knows.
    LogConfig.from_topic_config(config)


def check_broker_config(config: Mapping[str, str]) -> None:
    """Refuse unknown keys and bad values."""
    for name, text in config.items():
        key = BROKER_KEYS.get(name)
        if key is None:
            raise ConfigError(
                f"unknown broker setting {name!r}",
                because="only settings that have an effect or an answer here are taken",
            )
        check_value(key, text)
    # A broker setting is the default of a topic setting, so it must be a value that a topic may have.
    inherited = {key.name: config[key.broker_key] for key in TOPIC_KEYS.values() if key.broker_key in config}
    check_topic_config(inherited)


def effective_topic_config(own: Mapping[str, str], broker: Mapping[str, str]) -> dict[str, str]:
    """Every topic key with the value in force: the topic's own, else the broker's, else the default."""
    return {
        key.name: own.get(key.name, broker.get(key.broker_key, key.default) if key.broker_key else key.default)
        for key in TOPIC_KEYS.values()
        if key.name in own or not key.is_internal
    }


class BrokerSettings:
    """The broker settings in force, read by name."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """`given` overrides the defaults."""
        check_broker_config(given)
        self.given = dict(given)

    def text(self, name: str) -> str:
        """The value as text."""
        return self.given.get(name, BROKER_KEYS[name].default)

    def number(self, name: str) -> int:
        """The value as a whole number."""
        return int(self.text(name))

    def enabled(self, name: str) -> bool:
        """The value as yes or no."""
        return self.text(name).lower() == "true"

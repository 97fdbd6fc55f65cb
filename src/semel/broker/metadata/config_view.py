"""Settings as DescribeConfigs shows them: the value in force, where it comes from, and what stands behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from semel.broker.metadata.config import BROKER_KEYS, DYNAMIC_BROKER_KEYS, TOPIC_KEYS, ConfigType


class Source(IntEnum):
    """Where a value comes from, as responses number it; the smaller number wins."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """One place that gives a value."""

    name: str
    value: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key with its value in force; `synonyms` begins with the place that gave it."""

    name: str
    value: str
    type: ConfigType
    read_only: bool
    synonyms: tuple[Synonym, ...]

    @property
    def source(self) -> Source:
        """Where the value in force comes from."""
        # A topic key without a broker key has no synonyms unless the topic sets it.
        return self.synonyms[0].source if self.synonyms else Source.DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLayers:
    """The three places of broker settings, strongest first."""

    broker: Mapping[str, str]
    all_brokers: Mapping[str, str]
    static: Mapping[str, str]

    def synonyms(self, name: str) -> tuple[Synonym, ...]:
        """Every place that gives this key, the default last."""
        layers = (
            (Source.BROKER, self.broker),
            (Source.ALL_BROKERS, self.all_brokers),
            (Source.STATIC_BROKER, self.static),
            (Source.DEFAULT, {name: BROKER_KEYS[name].default}),
        )
        return tuple(Synonym(name=name, value=layer[name], source=source) for source, layer in layers if name in layer)


def topic_settings(own: Mapping[str, str], layers: BrokerLayers) -> list[Setting]:
    """Every setting of a topic."""
    # An internal key is shown only where somebody has set it.
    return [_topic_setting(name, own, layers) for name, key in TOPIC_KEYS.items() if name in own or not key.is_internal]


def _topic_setting(name: str, own: Mapping[str, str], layers: BrokerLayers) -> Setting:
    key = TOPIC_KEYS[name]
    # What a topic has not set itself comes from the broker setting of that name, not from the topic default.
    inherited = layers.synonyms(key.broker_key) if key.broker_key else ()
    given = (Synonym(name=name, value=own[name], source=Source.TOPIC),) if name in own else ()
    synonyms = given + inherited
    value = synonyms[0].value if synonyms else key.default
    return Setting(name=name, value=value, type=key.type, read_only=False, synonyms=synonyms)


def broker_settings(layers: BrokerLayers) -> list[Setting]:
    """Every setting of a broker."""
    return [_broker_setting(name, layers.synonyms(name)) for name in BROKER_KEYS]


def cluster_default_settings(layers: BrokerLayers) -> list[Setting]:
    """The dynamic settings that hold for all brokers; nothing else is shown."""
    return [
        _broker_setting(name, (Synonym(name=name, value=value, source=Source.ALL_BROKERS),))
        for name, value in layers.all_brokers.items()
    ]


def _broker_setting(name: str, synonyms: tuple[Synonym, ...]) -> Setting:
    return Setting(
        name=name,
        value=synonyms[0].value,
        type=BROKER_KEYS[name].type,
        read_only=name not in DYNAMIC_BROKER_KEYS,
        synonyms=synonyms,
    )

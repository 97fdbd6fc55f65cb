"""How to start an embedded cluster, and which topics to begin with. What cannot work is refused here."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from semel.broker.log.config import FlushPolicy
from semel.broker.network.sasl import Credentials
from semel.broker.runtime.links import CONTROLLER, CONTROLLER_BESIDE_BROKER_0
from semel.errors import ConfigError

EVERY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - named to be refused
# They share one loop and one process.
BROKERS_MAX = 100
# Broker ids are int32 in the protocol, and not negative.
BROKER_ID_MAX = 2**31 - 1
TRANSACTION_VERSIONS = (0, 1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic to create at start: `orders:6:3` is six partitions with three replicas each."""

    name: str
    partitions: int = 1
    replication_factor: int = 1
    config: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> TopicSpec:
        """Read `name`, `name:partitions` or `name:partitions:replicas`."""
        name, *numbers = text.split(":")
        try:
            counts = [int(number) for number in numbers]
        except ValueError:
            # A count that cannot be is refused below, together with other texts that cannot be read.
            counts = [0]
        if not name or len(counts) > 2 or any(count < 1 for count in counts):
            raise ConfigError(f"topic {text!r} cannot be read", you_want="name:partitions:replicas, such as orders:6:3")
        partitions, replication_factor = (*counts, 1, 1)[:2]
        return cls(name=name, partitions=partitions, replication_factor=replication_factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """How to start a cluster.

    `port` is the first broker's; the others follow it. 0 means any free ports. `advertised_host` is what clients are
    told instead of `host`. `first_broker_id` is the number of the first broker; the others follow it.
    """

    data: Path
    brokers: int = 3
    first_broker_id: int = 1
    host: str = "127.0.0.1"
    advertised_host: str | None = None
    port: int = 0
    topics: Sequence[TopicSpec] = ()
    flush: FlushPolicy = FlushPolicy.OS
    transaction_version: int = 2
    config: Mapping[str, str] = field(default_factory=dict)
    ssl_context: ssl.SSLContext | None = None
    credentials: Credentials | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if not 1 <= self.brokers <= BROKERS_MAX:
            raise ConfigError(f"brokers={self.brokers}: a cluster has 1 to {BROKERS_MAX} brokers")
        if not 0 <= self.first_broker_id <= BROKER_ID_MAX - self.brokers + 1:
            raise ConfigError(
                f"first_broker_id={self.first_broker_id}: brokers have numbers from 0 to {BROKER_ID_MAX}",
                you_want="1, or 0 for programs that ask for broker 0",
            )
        if self.advertised_host is None and self.host in EVERY_ADDRESS:
            raise ConfigError(
                f"host={self.host!r} listens on every address, and none of them is an address for clients",
                you_want="advertised_host= with the name or address by which they reach this machine",
            )
        if self.transaction_version not in TRANSACTION_VERSIONS:
            raise ConfigError(
                f"transaction_version={self.transaction_version} is unknown",
                you_want="2 (every transaction ends with a new producer epoch), or 1 or 0 for older brokers' behaviour",
            )

    @property
    def broker_ids(self) -> range:
        """The numbers of the brokers."""
        return range(self.first_broker_id, self.first_broker_id + self.brokers)

    @property
    def controller_number(self) -> int:
        """What the controller is called where a broker or the controller is named."""
        # Clients may ask for broker 0, so the number 0 is free for a broker, and the controller takes -2.
        return CONTROLLER_BESIDE_BROKER_0 if CONTROLLER in self.broker_ids else CONTROLLER

"""The embedded cluster: brokers and a controller in one process, on one event loop.

For laptops, tests and drills; production is Apache Kafka, which speaks the same protocol. Every broker has its own
port and data folder. The sync face of this class is `semel.Cluster`.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from semel.broker.broker import Broker
from semel.broker.cluster_state import ClusterId, ClusterState, Node, Topic, TopicSet
from semel.broker.config import BrokerSettings
from semel.broker.controller import Controller, Refused
from semel.broker.intercept import Action, Hook, Intercepts, Seen
from semel.broker.links import Links
from semel.broker.log import PartitionLog
from semel.broker.log_config import FlushPolicy, LogConfig
from semel.broker.registry import apis
from semel.broker.sasl import Authenticator, Credentials
from semel.errors import ConfigError
from semel.protocol.error_codes import ErrorCode
from semel.world.world import World

log = logging.getLogger("semel.broker")

METADATA_FOLDER = "controller/__cluster_metadata-0"
BROKERS_MAX = 100
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
            counts = [0]
        if not name or len(counts) > 2 or any(count < 1 for count in counts):
            raise ConfigError(f"topic {text!r} cannot be read", you_want="name:partitions:replicas, such as orders:6:3")
        partitions, replication_factor = (*counts, 1, 1)[:2]
        return cls(name=name, partitions=partitions, replication_factor=replication_factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """How to start a cluster. `port` is the first broker's; the others follow it. 0 means any free ports."""

    data: Path
    brokers: int = 3
    host: str = "127.0.0.1"
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
        if self.transaction_version not in TRANSACTION_VERSIONS:
            raise ConfigError(
                f"transaction_version={self.transaction_version} is unknown",
                you_want="2 (every transaction ends with a new producer epoch), or 1 or 0 for older brokers' behaviour",
            )


class ClusterCore:
    """The cluster, to be used from one event loop."""

    def __init__(self, settings: ClusterSettings, world_of: Callable[[int], World]) -> None:
        """`world_of` gives each broker its clock, randomness, disk and network; 0 is the controller."""
        self.settings = settings
        self.intercepts = Intercepts()
        self.links = Links(lambda: self.brokers)
        self.brokers: dict[int, Broker] = {}
        self._dead: dict[int, tuple[int, asyncio.Task[None]]] = {}  # broker id -> its port, the end of its connections
        self._worlds = world_of
        self._controller: Controller | None = None
        self._metadata_log: PartitionLog | None = None
        self._authenticator: Authenticator | None = None

    @property
    def controller(self) -> Controller:
        """The controller that takes changes."""
        assert self._controller is not None, "the cluster was not started"
        return self._controller

    @property
    def controller_id(self) -> int:
        """The broker that clients are told is the controller."""
        return min(self.brokers)

    @property
    def nodes(self) -> Sequence[Node]:
        """The brokers that can be reached now."""
        return [broker.node for broker in self.brokers.values()]

    @property
    def transaction_version(self) -> int:
        """The finalized level of the feature `transaction.version`."""
        return self.settings.transaction_version

    @property
    def bootstrap(self) -> str:
        """Addresses for `bootstrap.servers`."""
        return ",".join(f"{node.host}:{node.port}" for node in self.nodes)

    async def start(self) -> None:
        """Recover what is on the disk, open the ports, create the topics asked for."""
        apis()
        self._warn_if_open()
        ids = range(1, self.settings.brokers + 1)
        if self.settings.credentials is not None:
            self._authenticator = Authenticator(self.settings.credentials, self._worlds(0).rng.fork("sasl"))
        self._open_controller(ids)
        try:
            for broker_id in ids:
                await self._start_broker(broker_id, self.settings.port and self.settings.port + broker_id - 1)
            self._create_topics()
        except BaseException:
            await self.stop()
            raise

    def _warn_if_open(self) -> None:
        if _is_loopback(self.settings.host):
            return
        context = self.settings.ssl_context
        by_certificate = context is not None and context.verify_mode is ssl.CERT_REQUIRED
        if context is None:
            log.warning("listening on %s without TLS: whoever is on the network can read along", self.settings.host)
        if self.settings.credentials is None and not by_certificate:
            log.warning("listening on %s without users: whoever reaches it can read and write", self.settings.host)

    def _open_controller(self, ids: Sequence[int]) -> None:
        world = self._worlds(0)
        folder = self.settings.data / METADATA_FOLDER
        world.disk.make_dirs(folder)
        self._metadata_log = PartitionLog.open(
            world.disk, folder, LogConfig(flush_policy=self.settings.flush), now_ms=world.clock.wall_ms(), clean=False
        )
        self._controller = Controller(self._metadata_log, ids, world.clock, world.rng.fork("controller"), self._publish)
        if not self.controller.state.cluster_id:
            new_id = base64.urlsafe_b64encode(world.rng.uuid().bytes).decode().rstrip("=")
            self.controller.commit([ClusterId(cluster_id=new_id)])
        self._check_brokers(ids)

    def _check_brokers(self, ids: Sequence[int]) -> None:
        topics = self.controller.state.topics.values()
        used = {replica for topic in topics for place in topic.partitions for replica in place.replicas}
        if used - set(ids):
            raise ConfigError(
                f"the data in {self.settings.data} was written by {max(used)} brokers",
                you_wrote=f"brokers={len(ids)}",
                you_want=f"brokers={max(used)}",
            )

    async def _start_broker(self, broker_id: int, port: int) -> None:
        broker = Broker(
            broker_id=broker_id,
            folder=self.settings.data / f"broker-{broker_id}",
            world=self._worlds(broker_id),
            cluster=self,
            settings=BrokerSettings(self.settings.config),
            flush_policy=self.settings.flush,
            intercepts=self.intercepts,
            authenticator=self._authenticator,
        )
        broker.start(self.controller.state)
        await broker.listen(self.settings.host, port, self.settings.ssl_context)
        self.brokers[broker_id] = broker

    def _create_topics(self) -> None:
        for spec in self.settings.topics:
            try:
                planned = self.controller.plan_topic(
                    spec.name,
                    partitions=spec.partitions,
                    replication_factor=spec.replication_factor,
                    config=spec.config,
                )
            except Refused as refused:
                if refused.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                    continue
                raise ConfigError(f"topic {spec.name} cannot be created: {refused.summary}") from refused
            self.controller.commit([planned])

    def _publish(self, state: ClusterState) -> None:
        for broker in self.brokers.values():
            broker.apply_state(state)

    def kill(self, broker_id: int) -> None:
        """Let a broker die as a killed process does: nothing is closed in order, only its files are left."""
        broker = self._running(broker_id)
        port = broker.node.port
        del self.brokers[broker_id]
        self.links.drop(broker_id)
        broker.kill()
        self._dead[broker_id] = (port, asyncio.get_running_loop().create_task(broker.closed()))

    async def wait_dead(self, broker_id: int) -> None:
        """Return when a killed broker's port is closed."""
        if broker_id in self._dead:
            await asyncio.shield(self._dead[broker_id][1])

    async def restart(self, broker_id: int) -> None:
        """Start a killed broker again, on its old port and from its files; one that runs is killed first."""
        if broker_id not in self._dead:
            self.kill(broker_id)
        port, closed = self._dead.pop(broker_id)
        await closed
        self._advance_leader_epochs(broker_id)
        await self._start_broker(broker_id, port)

    def _running(self, broker_id: int) -> Broker:
        if broker_id not in self.brokers:
            running = ", ".join(map(str, self.brokers))
            raise ConfigError(f"broker {broker_id} is not running", you_want=f"one of: {running or 'none'}")
        return self.brokers[broker_id]

    def _advance_leader_epochs(self, leader: int) -> None:
        """Whoever leads again leads anew, so that what the dead one still had on its way is recognised as old."""
        topics = self.controller.state.topics.values()
        self.controller.commit([TopicSet(topic=led) for topic in topics if (led := _led_anew(topic, leader)) != topic])

    async def stop(self) -> None:
        """Stop every broker in order, then the controller; all logs are closed cleanly."""
        for broker in self.brokers.values():
            await broker.stop()
        self.brokers.clear()
        for _, closed in self._dead.values():
            await closed
        self._dead.clear()
        if self._metadata_log is not None:
            self._metadata_log.close()
            self._metadata_log = None

    def intercept(
        self,
        api: int | str | None,
        action: Action,
        *,
        times: int | None = 1,
        where: Callable[[Seen], bool] | None = None,
    ) -> Hook:
        """Arm a fault hook for one API, named or numbered, or for every request (None)."""
        return self.intercepts.add(api_key_of(api), action, times=times, where=where)


def _led_anew(topic: Topic, leader: int) -> Topic:
    places = tuple(
        replace(place, leader_epoch=place.leader_epoch + 1) if place.leader == leader else place
        for place in topic.partitions
    )
    return replace(topic, partitions=places)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def api_key_of(api: int | str | None) -> int | None:
    """The key of an API given by its name."""
    if api is None or isinstance(api, int):
        return api
    for entry in apis().values():
        if entry.name.lower() == api.lower():
            return entry.key
    raise ConfigError(f"no API is called {api!r}", you_want=", ".join(entry.name for entry in apis().values()))

"""One broker: its partitions, its coordinators, its port. Everything it hears of the cluster comes as a new state."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol
from uuid import UUID

from semel.broker.cluster_state import ClusterState, Node, Topic
from semel.broker.config import BrokerSettings, effective_topic_config
from semel.broker.controller import Controller
from semel.broker.fetch_session import FetchSessions
from semel.broker.groups import Groups
from semel.broker.housekeeping import Housekeeping
from semel.broker.intercept import Intercepts
from semel.broker.links import Links
from semel.broker.log_config import FlushPolicy, LogConfig
from semel.broker.partition import Partition
from semel.broker.sasl import Authenticator
from semel.broker.server import Server
from semel.broker.transactions import Transactions
from semel.world.network import Listener
from semel.world.world import World

log = logging.getLogger("semel.broker")

CLEAN_MARKER = "clean-stop"
TOPIC_ID_FILE = "topic-id"


class ClusterView(Protocol):
    """What a broker may ask the cluster it is part of."""

    @property
    def controller(self) -> Controller:
        """The controller that takes changes."""

    @property
    def controller_id(self) -> int:
        """The broker that clients are told is the controller."""

    @property
    def nodes(self) -> Sequence[Node]:
        """The brokers that can be reached now."""

    @property
    def links(self) -> Links:
        """The connections between the brokers."""

    @property
    def transaction_version(self) -> int:
        """The finalized level of the feature `transaction.version`."""


class Broker:
    """One of the cluster's brokers."""

    def __init__(
        self,
        *,
        broker_id: int,
        folder: Path,
        world: World,
        cluster: ClusterView,
        settings: BrokerSettings,
        flush_policy: FlushPolicy,
        intercepts: Intercepts,
        authenticator: Authenticator | None = None,
    ) -> None:
        """Make a broker that is not started yet."""
        self.id = broker_id
        self.folder = folder
        self.world = world
        self.cluster = cluster
        self.settings = settings
        self.intercepts = intercepts
        self.authenticator = authenticator
        self.state = ClusterState()
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.fetch_sessions = FetchSessions(
            world.rng.fork("fetch sessions"), settings.number("max.incremental.fetch.session.cache.slots")
        )
        self.groups = Groups(self)
        self.transactions = Transactions(self)
        self.server = Server(self)
        self._flush_policy = flush_policy
        self._producer_ids: range = range(0)
        self._listener: Listener | None = None
        self.housekeeping = Housekeeping(self, flush_policy)
        self._clean = False

    @property
    def requires_sasl(self) -> bool:
        """Whether a connection has to authenticate before anything else."""
        return self.authenticator is not None

    @property
    def node(self) -> Node:
        """Where this broker listens."""
        assert self._listener is not None, "the broker was not started"
        return Node(id=self.id, host=self._listener.host, port=self._listener.port)

    async def listen(self, host: str, port: int, ssl_context: ssl.SSLContext | None) -> None:
        """Open the port."""
        self._listener = await self.world.network.listen(
            host,
            port,
            self.server.serve,
            frame_bytes_max=self.settings.number("socket.request.max.bytes"),
            ssl_context=ssl_context,
            connections_max=self.settings.number("max.connections"),
        )

    def start(self, state: ClusterState) -> None:
        """Open the partitions this broker leads."""
        self.world.disk.make_dirs(self.folder)
        marker = self.folder / CLEAN_MARKER
        self._clean = self.world.disk.exists(marker)
        if self._clean:
            self.world.disk.remove(marker)
        self._drop_orphans(state)
        self.apply_state(state)
        self._clean = False
        self.housekeeping.start()

    async def stop(self) -> None:
        """Close the port, finish what is under way, close every log."""
        self.housekeeping.stop()
        if self._listener is not None:
            await self._listener.close()
        self.groups.close()
        self.transactions.close()
        for partition in self.partitions.values():
            partition.close()
        self.partitions.clear()
        if self.world.disk.exists(self.folder):
            self.world.disk.write_atomically(self.folder / CLEAN_MARKER, b"")

    def kill(self) -> None:
        """Die as a killed process does: connections and memory are gone at once, the files stay as they are.

        What is left of the port is closed by `closed`.
        """
        self.housekeeping.stop()
        self.server.abort_all()
        self.groups.abandon()
        self.transactions.abandon()
        for partition in self.partitions.values():
            partition.abandon()
        self.partitions.clear()

    async def closed(self) -> None:
        """End the connections' tasks and give the port back."""
        if self._listener is not None:
            await self._listener.close(grace_ms=0)

    def _drop_orphans(self, state: ClusterState) -> None:
        """Remove folders of partitions that the cluster no longer has, or that belong to a topic of another id."""
        wanted = {
            f"{topic.name}-{index}": topic.id
            for topic in state.topics.values()
            for index, place in enumerate(topic.partitions)
            if place.leader == self.id
        }
        for name in self.world.disk.list_dir(self.folder):
            id_file = self.folder / name / TOPIC_ID_FILE
            if name != CLEAN_MARKER and (name not in wanted or self._read_id(id_file) != wanted[name]):
                self.world.disk.remove_tree(self.folder / name)

    def _read_id(self, path: Path) -> UUID | None:
        if not self.world.disk.exists(path):
            return None
        file = self.world.disk.open(path)
        try:
            return UUID(file.read_at(0, 36).decode())
        except ValueError:
            return None
        finally:
            file.close()

    def apply_state(self, state: ClusterState) -> None:
        """Follow the cluster to a new state: open, change, delete partitions."""
        before, self.state = self.state, state
        if before.topics is state.topics and before.broker_configs is state.broker_configs:
            return
        if before.broker_configs is not state.broker_configs:
            self._apply_settings()
        for name in before.topics.keys() - state.topics.keys():
            self._remove_topic(before.topics[name])
        for name, topic in state.topics.items():
            old = before.topics.get(name)
            if old is topic:
                continue
            if old is not None and old.id != topic.id:
                self._remove_topic(old)
            self._apply_topic(topic)
        self.groups.partitions_changed()
        self.transactions.partitions_changed()

    def _apply_settings(self) -> None:
        """Dynamic broker settings are the defaults of every topic's."""
        for (name, _), partition in self.partitions.items():
            if name in self.state.topics:
                partition.log.config = self.log_config(self.state.topics[name].config)

    def _apply_topic(self, topic: Topic) -> None:
        config = self.log_config(topic.config)
        for index, place in enumerate(topic.partitions):
            partition = self.partitions.get((topic.name, index))
            if partition is not None:
                partition.place = place
                partition.log.config = config
            elif place.leader == self.id:
                self.partitions[topic.name, index] = self._open_partition(topic, index, config)

    def _open_partition(self, topic: Topic, index: int, config: LogConfig) -> Partition:
        folder = self.folder / f"{topic.name}-{index}"
        if not self.world.disk.exists(folder):
            self.world.disk.make_dirs(folder)
            file = self.world.disk.open(folder / TOPIC_ID_FILE, create=True)
            file.append(str(topic.id).encode())
            if self._flush_policy is not FlushPolicy.OS:
                # Without its id the folder would be dropped after a crash, with everything that was synced below it.
                self.world.disk.sync_now(file)
            file.close()
        return Partition.open(
            topic=topic.name,
            topic_id=topic.id,
            index=index,
            place=topic.partitions[index],
            folder=folder,
            config=config,
            clean=self._clean,
            world=self.world,
        )

    def _remove_topic(self, topic: Topic) -> None:
        for index in range(len(topic.partitions)):
            partition = self.partitions.pop((topic.name, index), None)
            if partition is not None:
                partition.close()
                self.world.disk.remove_tree(self.folder / f"{topic.name}-{index}")
        self.groups.topic_deleted(topic.name)

    def log_config(self, own: Mapping[str, str]) -> LogConfig:
        """The log settings of a topic with these settings of its own."""
        base = LogConfig(
            flush_policy=self._flush_policy,
            verify_transactions=self.settings.enabled("transaction.partition.verification.enable"),
            producer_id_expiration_ms=self.settings.number("producer.id.expiration.ms"),
        )
        return LogConfig.from_topic_config(effective_topic_config(own, self.broker_config()), base)

    def broker_config(self) -> dict[str, str]:
        """Broker settings in force: given at start, then the dynamic cluster-wide ones, then this broker's own."""
        dynamic = self.state.broker_configs
        return {**self.settings.given, **dynamic.get("", {}), **dynamic.get(str(self.id), {})}

    def take_producer_id(self) -> int:
        """A producer id that nobody else has."""
        if not self._producer_ids:
            self._producer_ids = self.cluster.controller.take_producer_ids()
        taken, self._producer_ids = self._producer_ids[0], self._producer_ids[1:]
        return taken

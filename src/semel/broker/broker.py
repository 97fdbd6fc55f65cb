"""One broker: its replicas, its coordinators, its port. Everything it hears of the cluster comes as a new state.

Keeps: R11 no partition is led here before this life of the broker is registered.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from uuid import UUID

from semel.broker.broker_life import UNREGISTERED, BrokerLife
from semel.broker.cluster_state import INTERNAL_TOPICS, OFFLINE, ClusterState, Node, PartitionState, Topic
from semel.broker.config import BrokerSettings, effective_topic_config
from semel.broker.context import Context, Session
from semel.broker.controller import Controller
from semel.broker.fetch_loop import Followings
from semel.broker.fetch_session import FetchSessions
from semel.broker.gate import Gate, gated
from semel.broker.groups import Groups
from semel.broker.housekeeping import Housekeeping
from semel.broker.intercept import Intercepts
from semel.broker.isr_changes import IsrChanges
from semel.broker.links import INTERNAL, Links
from semel.broker.log_config import FlushPolicy, LogConfig
from semel.broker.partition import Partition
from semel.broker.refused import Refused
from semel.broker.registry import apis
from semel.broker.sasl import Authenticator
from semel.broker.server import Server
from semel.broker.transactions import Transactions
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from semel.world.clock import Clock, Timer
from semel.world.network import Listener
from semel.world.world import World

log = logging.getLogger("semel.broker")

CLEAN_MARKER = "clean-stop"
TOPIC_ID_FILE = "topic-id"
LAG_CHECK_MS_MAX = 2_500.0


class ClusterView(Protocol):
    """What a broker may ask the cluster it is part of."""

    def controller_for(self, broker_id: int) -> Controller:
        """The active controller, if this broker can reach it; Refused with NOT_CONTROLLER otherwise."""

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
        self.gate = Gate()
        self.world = world = gated(world, self.gate)
        self.cluster = cluster
        self.settings = settings
        self.intercepts = intercepts
        self.authenticator = authenticator
        self.state = ClusterState()
        self.replicas: dict[tuple[str, int], Partition] = {}  # every partition that is stored here
        self.partitions: dict[tuple[str, int], Partition] = {}  # those of them that this broker leads
        self.life = BrokerLife(self)
        self._followings = Followings(self)
        self._isr_changes = IsrChanges(self)
        self._is_member = False
        self._lag_timer: Timer | None = None
        self.fetch_sessions = FetchSessions(
            world.rng.fork("fetch sessions"), settings.number("max.incremental.fetch.session.cache.slots")
        )
        self.groups = Groups(self)
        self.transactions = Transactions(self)
        self.server = Server(self)
        self._flush_policy = flush_policy
        self._producer_ids: range = range(0)
        self._listener: Listener | None = None
        self._advertised_host: str | None = None
        self.housekeeping = Housekeeping(self, flush_policy)
        self._clean = False
        self._unopened: dict[str, None] = {}  # topics with a replica here that could not be opened

    @property
    def requires_sasl(self) -> bool:
        """Whether a connection has to authenticate before anything else."""
        return self.authenticator is not None

    @property
    def clock(self) -> Clock:
        """This broker's time."""
        return self.world.clock

    @property
    def broker_epoch(self) -> int:
        """The epoch of this life, -1 while it is not registered."""
        return self.life.broker_epoch

    @property
    def controller(self) -> Controller:
        """The controller that takes changes; Refused when none can be reached."""
        return self.cluster.controller_for(self.id)

    @property
    def frame_bytes_max(self) -> int:
        """The longest request that is read of whoever may ask."""
        return self.settings.number("socket.request.max.bytes")

    @property
    def node(self) -> Node:
        """Where clients find this broker."""
        assert self._listener is not None, "the broker was not started"
        return Node(id=self.id, host=self._advertised_host or self._listener.host, port=self._listener.port)

    async def listen(
        self, host: str, port: int, ssl_context: ssl.SSLContext | None, *, advertised_host: str | None = None
    ) -> None:
        """Open the port."""
        self._advertised_host = advertised_host
        self._listener = await self.world.network.listen(
            host,
            port,
            self.server.serve,
            frame_bytes_max=self.server.first_frame_bytes_max,
            ssl_context=ssl_context,
            connections_max=self.settings.number("max.connections"),
        )

    def start(self, state: ClusterState) -> None:
        """Open the replicas stored here; what they are used for is known once this life is registered."""
        self.world.disk.make_dirs(self.folder)
        marker = self.folder / CLEAN_MARKER
        self._clean = self.world.disk.exists(marker)
        if self._clean:
            self.world.disk.remove(marker)
        self._drop_orphans(state)
        self.apply_state(state)
        self._clean = False
        self.housekeeping.start()
        self._watch_lag()

    async def stop(self) -> None:
        """Close the port, finish what is under way, close every log."""
        self.stop_background()
        if self._listener is not None:
            await self._listener.close()
        self.groups.close()
        self.transactions.close()
        for partition in self.replicas.values():
            partition.close()
        self._forget_replicas()
        if self.world.disk.exists(self.folder):
            self.world.disk.write_atomically(self.folder / CLEAN_MARKER, b"")

    def stop_background(self) -> None:
        """Do nothing by itself any more; requests are still answered."""
        self.housekeeping.stop()
        self.life.stop()
        self._followings.stop()
        self._isr_changes.stop()
        if self._lag_timer is not None:
            self._lag_timer.cancel()

    def kill(self) -> None:
        """Die as a killed process does: connections and memory are gone at once, the files stay as they are.

        What is left of the port is closed by `closed`.
        """
        self.stop_background()
        self.server.abort_all()
        self.groups.abandon()
        self.transactions.abandon()
        for partition in self.replicas.values():
            partition.abandon()
        self._forget_replicas()

    def _forget_replicas(self) -> None:
        self.replicas.clear()
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
            if self.id in place.replicas
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

    def take_part(self) -> None:
        """This life is registered: lead and follow as the cluster's state says."""
        self.apply_state(self.state)

    def apply_state(self, state: ClusterState) -> None:
        """Follow the cluster to a new state: open, change, delete replicas, take and give up roles."""
        before, self.state = self.state, state
        was_member, self._is_member = self._is_member, self._knows_this_life()
        has_joined = self._is_member != was_member
        if before.topics is state.topics and before.broker_configs is state.broker_configs and not has_joined:
            return
        if before.broker_configs is not state.broker_configs:
            self._apply_settings()
        for name in [name for name in before.topics if name not in state.topics]:
            self._remove_topic(before.topics[name])
        for name, topic in state.topics.items():
            old = before.topics.get(name)
            if old is topic and not has_joined:
                continue
            if old is not None and old.id != topic.id:
                self._remove_topic(old)
            self._apply_topic(topic)
        self._followings.follow(self._followed())
        self._reload_coordinators()

    def _knows_this_life(self) -> bool:
        registration = self.state.brokers.get(self.id)
        is_known = registration is not None and registration.broker_epoch == self.broker_epoch
        return is_known and self.broker_epoch != UNREGISTERED

    def _reload_coordinators(self) -> None:
        self.groups.partitions_changed()
        self.transactions.partitions_changed()

    def _followed(self) -> list[Partition]:
        """The replicas here whose leader is another broker."""
        if not self._is_member:
            return []
        return [one for one in self.replicas.values() if one.leadership is None and one.place.leader != OFFLINE]

    def _apply_settings(self) -> None:
        """Dynamic broker settings are the defaults of every topic's."""
        for (name, _), partition in self.replicas.items():
            if name in self.state.topics:
                partition.log.config = self.log_config(self.state.topics[name].config)

    def _apply_topic(self, topic: Topic) -> None:
        config = self.log_config(topic.config)
        for index, place in enumerate(topic.partitions):
            key = (topic.name, index)
            replica = self.replicas.get(key)
            if self.id not in place.replicas:
                if replica is not None:
                    self._remove_replica(replica)
                continue
            if replica is None:
                replica = self._open_replica(topic, index, config)
            if replica is not None:
                replica.log.config = config
                self._give_role(replica, place)

    def _open_replica(self, topic: Topic, index: int, config: LogConfig) -> Partition | None:
        try:
            replica = self.replicas[topic.name, index] = self._open_partition(topic, index, config)
        except OSError as error:  # one folder that cannot be opened must not take the others along
            log.error("broker %d: %s-%d cannot be opened: %s", self.id, topic.name, index, error)  # noqa: TRY400
            self._unopened[topic.name] = None
            return None
        return replica

    def open_missing(self) -> None:
        """Try again what could not be opened: a disk that was full may have room."""
        if not self._unopened:
            return
        names, self._unopened = self._unopened, {}
        for name in names:
            if name in self.state.topics:
                self._apply_topic(self.state.topics[name])
        self._followings.follow(self._followed())
        self._reload_coordinators()

    def _give_role(self, replica: Partition, place: PartitionState) -> None:
        key = (replica.topic, replica.index)
        if place.leader != self.id or not self._is_member:
            self.partitions.pop(key, None)
            replica.follow(place)
            return
        self.partitions[key] = replica
        if replica.topic in INTERNAL_TOPICS:
            replica.on_settled = self._reload_coordinators
        lag_ms_max = self.settings.number("replica.lag.time.max.ms")
        replica.lead(place, self.id, lag_ms_max=lag_ms_max, eligible=self._may_be_insync)

    def _may_be_insync(self, broker_id: int, broker_epoch: int) -> bool:
        registration = self.state.brokers.get(broker_id)
        return registration is not None and not registration.fenced and registration.broker_epoch == broker_epoch

    def _watch_lag(self) -> None:
        """From time to time, look for followers that lag."""
        interval_ms = min(LAG_CHECK_MS_MAX, self.settings.number("replica.lag.time.max.ms") / 2)
        self._lag_timer = self.clock.call_later_ms(interval_ms, self._watch_lag)
        for partition in self.partitions.values():
            partition.expire_followers()

    def _open_partition(self, topic: Topic, index: int, config: LogConfig) -> Partition:
        folder = self.folder / f"{topic.name}-{index}"
        if not self.world.disk.exists(folder):
            self._make_folder(folder, topic)
        replica = Partition.open(
            topic=topic.name,
            topic_id=topic.id,
            index=index,
            place=topic.partitions[index],
            folder=folder,
            config=config,
            clean=self._clean,
            world=self.world,
        )
        replica.on_proposal = self._isr_changes.propose
        return replica

    def _make_folder(self, folder: Path, topic: Topic) -> None:
        """A folder without its topic's id is dropped at the next start, so it is there with the id or not at all."""
        self.world.disk.make_dirs(folder)
        file = self.world.disk.open(folder / TOPIC_ID_FILE, create=True)
        try:
            file.append(str(topic.id).encode())
            if self._flush_policy is not FlushPolicy.OS:
                self.world.disk.sync_now(file)
        except OSError:
            self.world.disk.remove_tree(folder)
            raise
        finally:
            file.close()

    def _remove_replica(self, replica: Partition) -> None:
        key = (replica.topic, replica.index)
        self.partitions.pop(key, None)
        del self.replicas[key]
        replica.close()
        self.world.disk.remove_tree(self.folder / replica.name)

    def _remove_topic(self, topic: Topic) -> None:
        for index in range(len(topic.partitions)):
            replica = self.replicas.get((topic.name, index))
            if replica is not None:
                self._remove_replica(replica)
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
        """A producer id that nobody else has; Refused while no controller can be reached for more of them."""
        if not self._producer_ids:
            try:
                self._producer_ids = self.controller.take_producer_ids()
            except Refused as refused:
                raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, refused.summary) from refused
        taken, self._producer_ids = self._producer_ids[0], self._producer_ids[1:]
        return taken

    async def answer_link(self, source: int, request: Message, version: int) -> Message | None:
        """Answer another broker as a client would be answered."""
        session = Session(peer=f"broker {source}", authenticated=True, principal=INTERNAL)
        context = Context(broker=self, session=session, version=version, client_id=f"broker-{source}")
        try:
            return await apis()[request.API_KEY].answer(context, request)
        except Refused as refused:
            return self.refuse_link(request, ErrorCode(refused.code))

    def refuse_link(self, request: Message, code: ErrorCode) -> Message:
        """Answer another broker with an error."""
        return apis()[request.API_KEY].refuse(request, code)

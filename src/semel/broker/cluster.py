"""The embedded cluster: brokers and a controller in one process, on one event loop.

For laptops, tests and drills; production is Apache Kafka, which speaks the same protocol. Every broker has its own
port and data folder. `semel.Cluster` has the same for programs without an event loop.

What can be done to a running cluster: `kill`, `restart`, `pause`, `resume`, `shut_down`, `cut`, `heal`, `move_leader`,
`kill_controller`. `pause`, `resume` and `cut` know the controller as 0, or as -2 where a broker has the number 0.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import ssl
from collections.abc import Callable, Sequence

from semel.broker.broker import Broker
from semel.broker.cluster_settings import ClusterSettings
from semel.broker.controller.controller import Controller
from semel.broker.controller.controllers import Controllers
from semel.broker.controller.elections import plan_cluster_started, plan_leader
from semel.broker.controller.publishing import Publisher
from semel.broker.log.config import LogConfig
from semel.broker.log.partition_log import PartitionLog
from semel.broker.metadata.authorizer import Authorizer
from semel.broker.metadata.cluster_state import ClusterId, ClusterState, Node
from semel.broker.metadata.config import BrokerSettings
from semel.broker.metadata.store import MetadataStore
from semel.broker.network.registry import apis
from semel.broker.network.sasl import KEY_BYTES, Authenticator
from semel.broker.replication.controller_messages import CONTROLLER_APIS
from semel.broker.runtime.intercept import Action, Hook, Intercepts, Seen
from semel.broker.runtime.links import REPLICA_FETCH, Links, Party
from semel.broker.runtime.refused import Refused
from semel.errors import ConfigError, ConnectionFailure
from semel.protocol.clear_text import is_loopback
from semel.protocol.error_codes import ErrorCode
from semel.world.rng import Rng
from semel.world.world import World

log = logging.getLogger("semel.broker")

METADATA_FOLDER = "controller/__cluster_metadata-0"
SALT_FILE = "controller/salt"


class ClusterCore:
    """The cluster, to be used from one event loop."""

    def __init__(self, settings: ClusterSettings, world_of: Callable[[int], World]) -> None:
        """`world_of` gives clock, randomness, disk and network: of the controller for 0, of the n-th broker for n."""
        self.settings = settings
        self.intercepts = Intercepts()
        self.links = Links(self._party, self.intercepts, settings.controller_number)
        self.brokers: dict[int, Broker] = {}
        self._publisher = Publisher(lambda: self.brokers, self.links)
        self._dead: dict[int, tuple[int, asyncio.Task[None]]] = {}  # broker id -> its port, the end of its connections
        self._world_of = world_of
        self._controllers: Controllers | None = None
        self._authenticator: Authenticator | None = None

    @property
    def controller(self) -> Controller:
        """The active controller; Refused while there is none."""
        return self._running_controllers.controller

    @property
    def _running_controllers(self) -> Controllers:
        assert self._controllers is not None, "the cluster was not started"
        return self._controllers

    @property
    def has_controller(self) -> bool:
        """Whether a controller is active now."""
        return self._running_controllers.is_serving

    def controller_for(self, broker_id: int) -> Controller:
        """The active controller, if this broker can reach it and be answered."""
        links, controller = self.links, self.links.controller
        # A request and its answer need both directions. Brokers call the controller's functions directly,
        # so the cut has to be looked at here.
        is_open = links.is_open(broker_id, controller) and links.is_open(controller, broker_id)
        if not is_open or not self.has_controller:
            raise Refused(ErrorCode.NOT_CONTROLLER, f"broker {broker_id} cannot reach a controller")
        return self.controller

    @property
    def state(self) -> ClusterState:
        """The newest state of the cluster, which brokers that cannot be reached may not have."""
        return self._publisher.state

    def _party(self, party_id: int) -> Party | None:
        if party_id != self.links.controller:
            return self.brokers.get(party_id)
        return self._controllers.active if self._controllers is not None else None

    @property
    def nodes(self) -> Sequence[Node]:
        """The brokers that run now."""
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
        # Loaded now, so that the first request does not wait for it.
        apis()
        self._warn_if_open()
        ids = self.settings.broker_ids
        if self.settings.credentials is not None:
            rng = self._worlds(self.links.controller).rng.fork("sasl")
            self._authenticator = Authenticator(self.settings.credentials, rng, self._secret(rng))
        authorizer = Authorizer.of(BrokerSettings(self.settings.config))
        self._open_controller(ids)
        if authorizer is not None and authorizer.lets_nobody_in and not self.state.acls:
            log.warning("nobody may do anything: there are no rights yet, and without super.users nobody can give any")
        try:
            for index, broker_id in enumerate(ids):
                await self._start_broker(broker_id, self.settings.port and self.settings.port + index)
            self._create_topics()
        except BaseException:
            # Ports and files of the brokers that did start.
            await self.stop()
            raise

    def _secret(self, rng: Rng) -> bytes:
        """What salts are derived from: drawn once and kept with the data, so that a restart does not change them."""
        disk, path = self._worlds(self.links.controller).disk, self.settings.data / SALT_FILE
        if disk.exists(path):
            file = disk.open(path)
            try:
                found = file.read_at(0, KEY_BYTES)
            finally:
                file.close()
            if len(found) == KEY_BYTES:
                return found
        disk.make_dirs(path.parent)
        secret = rng.token_bytes(KEY_BYTES)
        disk.write_atomically(path, secret)
        return secret

    def _warn_if_open(self) -> None:
        if is_loopback(self.settings.host):
            return
        context = self.settings.ssl_context
        by_certificate = context is not None and context.verify_mode is ssl.CERT_REQUIRED
        if context is None:
            log.warning("listening on %s without TLS: anybody on the network can read along", self.settings.host)
        if self.settings.credentials is None and not by_certificate:
            log.warning("listening on %s without users: anybody who reaches it can read and write", self.settings.host)

    def _open_controller(self, ids: Sequence[int]) -> None:
        world = self._worlds(self.links.controller)
        folder = self.settings.data / METADATA_FOLDER
        world.disk.make_dirs(folder)
        config = LogConfig(flush_policy=self.settings.flush)
        # Checked whole, even after a clean stop: the log is small, and everything else follows from it.
        log = PartitionLog.open(world.disk, folder, config, now_ms=world.clock.wall_ms(), clean=False)
        settings = BrokerSettings(self.settings.config)
        self._controllers = Controllers(MetadataStore(log, world.clock), world, ids, settings, self._publisher)
        self.start_controller()
        if not self.state.cluster_id:
            new_id = base64.urlsafe_b64encode(world.rng.uuid().bytes).decode().rstrip("=")
            self.controller.commit([ClusterId(cluster_id=new_id)])
        self._check_brokers(ids)
        # Before any broker starts: none of them may go on leading under an epoch that it had before.
        self.controller.commit(plan_cluster_started(self.state))

    def start_controller(self) -> None:
        """Let a new controller take over: it reads the metadata log and keeps every older one from writing."""
        self._running_controllers.start()

    def _check_brokers(self, ids: Sequence[int]) -> None:
        topics = self.state.topics.values()
        used = {replica for topic in topics for partition in topic.partitions for replica in partition.replicas}
        if used - set(ids):
            # Started with fewer brokers, partitions would look as if their replicas were dead for good.
            first, last = min(*used, ids[0]), max(used)
            raise ConfigError(
                f"the data in {self.settings.data} was written by brokers up to number {last}"
                if first == ids[0]
                else f"the data in {self.settings.data} was written by brokers from number {first} on",
                you_wrote=f"brokers={len(ids)}, first_broker_id={ids[0]}",
                you_want=f"brokers={last - first + 1}, first_broker_id={first}",
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
        # Opened before the port: nobody can ask for a partition that is still being recovered.
        broker.start(self.state)
        settings = self.settings
        await broker.listen(settings.host, port, settings.ssl_context, advertised_host=settings.advertised_host)
        # Known to the others before it registers, since registering makes the controller hand it the state.
        self.brokers[broker_id] = broker
        await broker.life.start()

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

    # --- what can be done to a running cluster

    def kill(self, broker_id: int) -> None:
        """Let a broker die as a killed process does: nothing is closed in order, only its files are left.

        The controller sees its connection close and fences it at once, if there is a controller it was connected to.
        """
        broker = self._running(broker_id)
        port = broker.node.port
        del self.brokers[broker_id]
        # Requests that it was working on end without an answer, as with a killed process.
        self.links.drop(broker_id)
        broker.kill()
        self._dead[broker_id] = (port, asyncio.get_running_loop().create_task(broker.closed()))
        # With the link cut, the controller sees nothing and has to wait for the session to run out.
        if self.links.is_open(broker_id, self.links.controller):
            self._running_controllers.lost(broker_id)

    def world(self, party_id: int) -> World:
        """The clock, randomness, disk and network of a broker, or of the controller."""
        self._check_party(party_id)
        return self._worlds(party_id)

    def _check_party(self, party_id: int) -> None:
        ids, controller = self.settings.broker_ids, self.links.controller
        if party_id not in ids and party_id != controller:
            raise ConfigError(f"there is no broker {party_id}", you_want=f"{ids[0]} to {ids[-1]}, or {controller}")

    def _worlds(self, party_id: int) -> World:
        is_controller = party_id == self.links.controller
        return self._world_of(0 if is_controller else party_id - self.settings.first_broker_id + 1)

    async def wait_dead(self, broker_id: int) -> None:
        """Return when a killed broker's port is closed."""
        if broker_id in self._dead:
            await asyncio.shield(self._dead[broker_id][1])

    async def restart(self, broker_id: int) -> None:
        """Start a killed broker again, on its old port and from its files; one that runs is killed first."""
        if broker_id not in self._dead:
            self.kill(broker_id)
        # Taken out first, so that two who restart it do not start two.
        port, closed = self._dead.pop(broker_id)
        try:
            # The old port must be free again. A caller that is cancelled must not cancel the closing itself.
            await asyncio.shield(closed)
            await self._start_broker(broker_id, port)
        except BaseException:
            # A broker that could not be started is still a dead one, and can be started again.
            if broker_id not in self.brokers:
                self._dead[broker_id] = (port, closed)
            raise

    async def shut_down(self, broker_id: int) -> None:
        """Stop one broker in order: others lead first, then its logs are closed; `restart` starts it again."""
        broker = self._running(broker_id)
        port = broker.node.port
        with contextlib.suppress(ConnectionFailure):  # without a controller nobody else can lead; it stops all the same
            await broker.life.send_heartbeat(want_shut_down=True)
        del self.brokers[broker_id]
        await broker.stop()
        self.links.drop(broker_id)
        self._dead[broker_id] = (port, asyncio.get_running_loop().create_task(broker.closed()))

    def pause(self, party_id: int) -> None:
        """Stop a broker, or the controller, in place: connections stay, nothing is answered, timers wait.

        Another controller takes over from a stopped one as from a dead one.
        """
        if party_id == self.links.controller:
            self._running_controllers.pause()
        else:
            self._running(party_id).pausing.pause()

    def resume(self, party_id: int) -> None:
        """Let it run again, from the state it had when it was paused."""
        if party_id == self.links.controller:
            self._running_controllers.resume()
        else:
            self._running(party_id).pausing.resume()
            # News that came while it was stopped was not kept: it gets the newest state.
            self._publisher.deliver()

    def kill_controller(self) -> None:
        """Let the active controller die; after the election timeout another one takes over."""
        self._running_controllers.kill()
        self.links.drop(self.links.controller)

    def cut(self, source: int, target: int, *, one_way: bool = False) -> None:
        """Let nothing pass between two parties, brokers or the controller."""
        for party_id in (source, target):
            self._check_party(party_id)
        if source == target:
            raise ConfigError(f"{source} cannot be cut off from itself", you_want="two different parties")
        self.links.cut(source, target)
        if not one_way:
            self.links.cut(target, source)

    def mend(self, source: int, target: int) -> None:
        """Let everything pass again between two parties; brokers get the state that they have missed."""
        self.links.mend(source, target)
        self._catch_up()

    def heal(self) -> None:
        """Let everything pass again; brokers get the state that they have missed."""
        self.links.heal()
        self._catch_up()

    def _catch_up(self) -> None:
        self._running_controllers.healed()

    def move_leader(self, topic: str, index: int, broker_id: int) -> None:
        """Make an in-sync replica the leader of one partition."""
        known = self.state.topics.get(topic)
        if known is None or not 0 <= index < len(known.partitions):
            raise ConfigError(f"there is no partition {topic}-{index}")
        partition = known.partitions[index]
        if partition.leader == broker_id:
            return
        planned = plan_leader(self.state, known, index, broker_id)
        if not planned:
            insync = ", ".join(map(str, partition.isr))
            raise ConfigError(f"broker {broker_id} cannot lead {topic}-{index}", because=f"in sync are {insync}")
        self.controller.commit(planned)

    def _running(self, broker_id: int) -> Broker:
        if broker_id not in self.brokers:
            running = ", ".join(map(str, self.brokers))
            raise ConfigError(f"broker {broker_id} is not running", you_want=f"one of: {running or 'none'}")
        return self.brokers[broker_id]

    async def stop(self) -> None:
        """Stop every broker in order, then the controller; all logs are closed cleanly."""
        if self._controllers is not None:
            self._controllers.stop()
        self.links.drop(self.links.controller)
        for broker in self.brokers.values():
            # Paused brokers go on, or their timers and requests would wait for ever.
            broker.pausing.resume()
            broker.stop_background()
        # Two loops: while one broker closes its logs, no other may still be copying from it or electing.
        for broker in self.brokers.values():
            await broker.stop()
        self.brokers.clear()
        for _, closed in self._dead.values():
            await closed
        self._dead.clear()
        if self._controllers is not None:
            self._controllers.close()
            self._controllers = None

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


def api_key_of(api: int | str | None) -> int | None:
    """The key of an API given by its name."""
    if api is None or isinstance(api, int):
        return api
    keys = {entry.name: entry.key for entry in apis().values()} | CONTROLLER_APIS | {"ReplicaFetch": REPLICA_FETCH}
    for name, key in keys.items():
        if name.lower() == api.lower():
            return key
    raise ConfigError(f"no API is called {api!r}", you_want=", ".join(keys))

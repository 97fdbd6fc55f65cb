"""One broker: its replicas, its coordinators, its port. Everything it hears of the cluster comes as a new state.

Keeps: R11 no partition is led here before this life of the broker is registered.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from semel.broker.broker_life import UNREGISTERED, BrokerLife
from semel.broker.controller.controller import Controller
from semel.broker.groups.shell import Groups
from semel.broker.housekeeping import Housekeeping
from semel.broker.local_replicas import LocalReplicas
from semel.broker.log.config import FlushPolicy
from semel.broker.log.inspection import Inspections
from semel.broker.metadata.authorizer import Authorizer
from semel.broker.metadata.cluster_state import ClusterState, Node
from semel.broker.metadata.config import BrokerSettings
from semel.broker.network.context import INTERNAL, ClientSession, Context
from semel.broker.network.fetch_session import FetchSessions
from semel.broker.network.registry import apis
from semel.broker.network.sasl import Authenticator
from semel.broker.network.server import Server
from semel.broker.replication.partition import Partition
from semel.broker.runtime.intercept import Intercepts
from semel.broker.runtime.links import Links
from semel.broker.runtime.log_limit import LimitedLog
from semel.broker.runtime.pause import PauseSwitch, with_pauses
from semel.broker.runtime.refused import Refused
from semel.broker.transactions.shell import Transactions
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from semel.world.clock import Clock
from semel.world.network import Listener
from semel.world.world import World

log = logging.getLogger("semel.broker")


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
        self.pausing = PauseSwitch()
        self.world = world = with_pauses(world, self.pausing)
        self.cluster = cluster
        self.settings = settings
        self.intercepts = intercepts
        self.authenticator = authenticator
        self.authorizer = Authorizer.of(settings)
        # Replaced whole by `apply_state`, never changed: code that needs one view over
        # several awaits keeps a reference (B9).
        self.state = ClusterState()
        self.is_member = False  # whether the state knows this life of the broker; see R11
        self.local_replicas = LocalReplicas(self, folder, flush_policy)
        # Read for every partition of every request, so not by way of a property.
        self.replicas: Mapping[tuple[str, int], Partition] = self.local_replicas.stored
        self.partitions: Mapping[tuple[str, int], Partition] = self.local_replicas.led
        self.life = BrokerLife(self)
        self.fetch_sessions = FetchSessions(
            world.rng.fork("fetch sessions"), settings.number("max.incremental.fetch.session.cache.slots")
        )
        self.groups = Groups(self)
        self.transactions = Transactions(self)
        self.client_log = LimitedLog(log, world.clock)
        self.server = Server(self)
        self.inspections = Inspections(world.clock)
        self._producer_ids: range = range(0)
        self._listener: Listener | None = None
        self._advertised_host: str | None = None
        self.housekeeping = Housekeeping(self, flush_policy)

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
        """How long a request may be, after the login where there is one; a longer one is not read."""
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
        self.local_replicas.begin_life(state)
        self.apply_state(state)
        self.housekeeping.start()
        self.local_replicas.serve()

    async def stop(self) -> None:
        """Close the port, finish what is under way, close every log."""
        # First, so that nothing new begins while the port is being closed.
        self.stop_background()
        if self._listener is not None:
            await self._listener.close()
        # The timer that did this in portions was cancelled above.
        await self.local_replicas.remove_rest()
        # Coordinators first: they answer everybody who still waits, then their partitions are closed.
        self.groups.close()
        self.transactions.close()
        self.local_replicas.close()

    def stop_background(self) -> None:
        """Stop the background tasks; requests are still answered."""
        self.housekeeping.stop()
        self.life.stop()
        self.local_replicas.stop()

    def kill(self) -> None:
        """Die as a killed process does: connections and memory are gone at once, the files stay as they are.

        What is left of the port is closed by `closed`.
        """
        self.stop_background()
        self.server.abort_all()
        self.groups.abandon()
        self.transactions.abandon()
        self.local_replicas.abandon()

    async def closed(self) -> None:
        """End the connections' tasks and give the port back."""
        if self._listener is not None:
            await self._listener.close(grace_ms=0)

    def take_part(self) -> None:
        """This life is registered: lead and follow as the cluster's state says."""
        self.apply_state(self.state)

    def apply_state(self, state: ClusterState) -> None:
        """Follow the cluster to a new state: open, change, delete replicas, take and give up roles."""
        before, self.state = self.state, state
        was_member, self.is_member = self.is_member, self._knows_this_life()
        # Membership decides who may lead, so that every replica's role is looked at again.
        is_changed = self.is_member != was_member
        # Identity is enough: every change makes new mappings. Most changes, such as a heartbeat's, touch neither.
        if before.topics is state.topics and before.broker_configs is state.broker_configs and not is_changed:
            return
        if before.broker_configs is not state.broker_configs:
            self.local_replicas.apply_settings()
        self.local_replicas.apply_topics(before, state, all_roles=is_changed)

    def _knows_this_life(self) -> bool:
        registration = self.state.brokers.get(self.id)
        is_known = registration is not None and registration.broker_epoch == self.broker_epoch
        return is_known and self.broker_epoch != UNREGISTERED

    def reload_coordinators(self) -> None:
        """Let both kinds of coordinators look again at which of their partitions are led here."""
        self.groups.partitions_changed()
        self.transactions.partitions_changed()

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
                # Clients ask again after this answer. Apache Kafka gives the same while it waits for a block.
                raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, refused.summary) from refused
        # A slice of a range is a range again, so this copies nothing.
        taken, self._producer_ids = self._producer_ids[0], self._producer_ids[1:]
        return taken

    async def answer_link(self, source: int, request: Message, version: int) -> Message | None:
        """Answer another broker as a client would be answered."""
        # Requests of other brokers need no rights of their own.
        session = ClientSession(peer=f"broker {source}", authenticated=True, principal=INTERNAL)
        context = Context(broker=self, session=session, version=version, client_id=f"broker-{source}")
        try:
            return await apis()[request.API_KEY].answer(context, request)
        except Refused as refused:
            return self.refuse_link(request, ErrorCode(refused.code))

    def refuse_link(self, request: Message, code: ErrorCode) -> Message:
        """Answer another broker with an error."""
        return apis()[request.API_KEY].refuse(request, code)

"""The active controller at work: it answers brokers, fences silent ones, decides about leaders and in-sync replicas.

Keeps: R2 a proposal of in-sync replicas is decided against the newest state, by partition epoch and broker epochs;
       R4 to R6 through `elections`, R7 through `metadata/store`.
Why:   all brokers run on one event loop with the controller. When that loop was held up, heartbeats were not
       read either: the time by which the controller's own timer is late is added to every broker's session.
       `BrokerSessions`, which says whose session has run out, is pure: the time comes in with every call.
Sources: KIP-497, KIP-631, KIP-841, KIP-903.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import replace

from semel.broker.controller.controller import Controller
from semel.broker.controller.elections import (
    in_assignment_order,
    partition_changed,
    plan_fenced,
    plan_offline,
    plan_registered,
    plan_unfenced,
)
from semel.broker.controller.publishing import Publisher
from semel.broker.controller.reassignment import completed
from semel.broker.log.types import AppendRefused
from semel.broker.metadata.cluster_state import OFFLINE, ClusterState, MetadataRecord, PartitionState, Topic
from semel.broker.metadata.config import BrokerSettings
from semel.broker.replication.controller_messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    PartitionId,
)
from semel.broker.replication.followers import NO_BROKER_EPOCH, IsrProposal
from semel.broker.runtime.pause import PauseSwitch, with_pauses
from semel.broker.runtime.refused import Refused
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from semel.world.clock import Timer
from semel.world.world import World

log = logging.getLogger("semel.broker")

UNCLEAN = "unclean.leader.election.enable"
# A broker that is silent is noticed at most an eighth of its session late.
TICKS_PER_SESSION = 8


class ControllerService:
    """One life of the active controller."""

    def __init__(self, world: World, controller: Controller, settings: BrokerSettings, publisher: Publisher) -> None:
        """Nothing is done before `start`."""
        self.pausing = PauseSwitch()
        self.clock = with_pauses(world, self.pausing).clock
        self.controller = controller
        self._settings = settings
        self._publisher = publisher
        timeout_ms = settings.number("broker.session.timeout.ms")
        self._sessions = BrokerSessions(timeout_ms)
        self._tick_ms = max(1.0, timeout_ms / TICKS_PER_SESSION)
        self._tick_due_ms = 0.0
        self._timer: Timer | None = None

    @property
    def state(self) -> ClusterState:
        """The newest state."""
        return self.controller.state

    def start(self) -> None:
        """Begin to work; a broker that the log calls alive gets a whole session for its first heartbeat."""
        now_ms = self.clock.monotonic_ms()
        for broker_id in self.state.brokers:
            if self.state.is_alive(broker_id):
                self._sessions.touch(broker_id, now_ms)
        self._schedule()

    def stop(self) -> None:
        """Do nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def may_be_unclean(self, topic: Topic) -> bool:
        """Whether a replica that may lack records can lead this topic's partitions when nobody else can."""
        dynamic = self.state.broker_configs.get("", {})
        text = topic.config.get(UNCLEAN) or dynamic.get(UNCLEAN) or self._settings.text(UNCLEAN)
        return text.lower() == "true"

    # --- time

    def _schedule(self) -> None:
        self._tick_due_ms = self.clock.monotonic_ms() + self._tick_ms
        self._timer = self.clock.call_later_ms(self._tick_ms, self._tick)

    def _tick(self) -> None:
        now_ms = self.clock.monotonic_ms()
        self._sessions.extend_all(max(0.0, now_ms - self._tick_due_ms))
        try:
            for broker_id in self._sessions.expired(now_ms):
                log.info("broker %d is fenced: it was silent for too long", broker_id)
                self.lost(broker_id)
            # Settings may have changed since a partition lost its last leader: unclean election may be allowed by now.
            if _has_offline(self.state):
                self.controller.commit(plan_offline(self.state, self.may_be_unclean))
        except Refused as refused:  # a newer controller has taken over while this one was stopped
            log.info("the controller of epoch %d resigns: %s", self.controller.epoch, refused.summary)
            return
        except (AppendRefused, OSError) as error:  # the metadata log cannot be written: nothing has changed, try again
            log.error("the controller could not write its log: %s", error)  # noqa: TRY400
        # A broker that could not be reached at the last change may be reachable now.
        self._publisher.deliver()
        self._schedule()

    def connection_closed(self, broker_id: int) -> None:
        """Fence a broker that has died; if the log cannot be written now, its session will run out."""
        with contextlib.suppress(Refused, AppendRefused, OSError):
            self.lost(broker_id)

    def lost(self, broker_id: int) -> None:
        """A broker is gone: its session has ended, or its connection was closed."""
        self.controller.commit(plan_fenced(self.state, broker_id, self.may_be_unclean))
        self._sessions.end(broker_id)  # not before: what could not be written is tried again

    # --- requests

    async def answer_link(self, source: int, request: Message, version: int) -> Message:  # noqa: ARG002
        """Answer a broker."""
        try:
            match request:
                case BrokerRegistrationRequest():
                    return self._register(request)
                case BrokerHeartbeatRequest():
                    return self._heartbeat(request)
                case AlterPartitionRequest():
                    return self._alter(request)
        except Refused as refused:
            return self.refuse_link(request, ErrorCode(refused.code))
        raise AssertionError(f"brokers do not send {type(request).__name__} to the controller")

    def refuse_link(self, request: Message, code: ErrorCode) -> Message:
        """The error for all of the request."""
        match request:
            case BrokerRegistrationRequest():
                return BrokerRegistrationResponse(error_code=code)
            case AlterPartitionRequest():
                return AlterPartitionResponse(error_code=code)
            case _:
                return BrokerHeartbeatResponse(error_code=code)

    def _register(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        node = request.node
        self._sessions.touch(node.id, self.clock.monotonic_ms())
        self.controller.commit(plan_registered(self.state, node, self.may_be_unclean))
        return BrokerRegistrationResponse(broker_epoch=self.state.brokers[node.id].broker_epoch)

    def _heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        broker_id = request.broker_id
        registration = self.state.brokers.get(broker_id)
        if registration is None or registration.broker_epoch != request.broker_epoch:
            return BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        # Others lead before this is answered, so the broker can stop without refusing anybody.
        if request.want_shut_down:
            self.lost(broker_id)
            return BrokerHeartbeatResponse()
        self._publisher.deliver()
        if not self._publisher.is_current(broker_id):  # it can send but not receive: no good as a leader
            return BrokerHeartbeatResponse(is_fenced=registration.fenced)
        self._sessions.touch(broker_id, self.clock.monotonic_ms())
        if registration.fenced:
            log.info("broker %d is back", broker_id)
            self.controller.commit(plan_unfenced(self.state, broker_id, self.may_be_unclean))
        return BrokerHeartbeatResponse(is_fenced=False)

    def _alter(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Decide proposals one by one, write what was accepted together."""
        # A broker that has restarted since does not know what it led before.
        registration = self.state.brokers.get(request.broker_id)
        if registration is None or registration.broker_epoch != request.broker_epoch:
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        codes: dict[PartitionId, ErrorCode] = {}
        records: list[MetadataRecord] = []
        for key, proposal in request.proposals.items():
            topic = self.state.topic_by_id(key[0])
            if topic is None or key[1] >= len(topic.partitions):
                codes[key] = ErrorCode.UNKNOWN_TOPIC_ID
                continue
            partition = topic.partitions[key[1]]
            codes[key] = _error_for_proposal(partition, request.broker_id, proposal, self._alive_epochs())
            if not codes[key]:
                accepted = replace(partition, isr=in_assignment_order(partition, proposal.replicas))
                # With this replica in sync a reassignment may be complete.
                records.append(partition_changed(topic, key[1], completed(accepted, self.state.is_alive)))
        self.controller.commit(records)
        return AlterPartitionResponse(codes=codes)

    def _alive_epochs(self) -> Mapping[int, int]:
        return {one: registered.broker_epoch for one, registered in self.state.brokers.items() if not registered.fenced}


def _error_for_proposal(
    partition: PartitionState, source: int, proposal: IsrProposal, alive: Mapping[int, int]
) -> ErrorCode:
    """Why a proposal cannot be accepted."""
    if partition.leader != source or proposal.leader_epoch != partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if proposal.partition_epoch != partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if source not in proposal.replicas or not set(proposal.replicas) <= set(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    # The leader itself, and a member that has not fetched from it yet, come without an epoch. A replica that has
    # restarted since its last fetch may have lost records: it must not be let in by what it had before (KIP-903).
    for replica, broker_epoch in proposal.isr:
        if replica not in alive or broker_epoch not in (NO_BROKER_EPOCH, alive[replica]):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _has_offline(state: ClusterState) -> bool:
    return any(partition.leader == OFFLINE for topic in state.topics.values() for partition in topic.partitions)


class BrokerSessions:
    """The last sign of life of each broker."""

    def __init__(self, timeout_ms: float) -> None:
        """Nobody has a session yet."""
        self._timeout_ms = timeout_ms
        self._heard_ms: dict[int, float] = {}

    def touch(self, broker_id: int, now_ms: float) -> None:
        """The broker has sent a sign of life."""
        self._heard_ms[broker_id] = now_ms

    def end(self, broker_id: int) -> None:
        """The broker is known to be gone."""
        self._heard_ms.pop(broker_id, None)

    def expired(self, now_ms: float) -> list[int]:
        """The brokers whose session has run out."""
        return sorted(one for one, heard_ms in self._heard_ms.items() if now_ms - heard_ms > self._timeout_ms)

    def extend_all(self, ms: float) -> None:
        """Prolong every session by the time in which the controller itself was held up."""
        self._heard_ms = {one: heard_ms + ms for one, heard_ms in self._heard_ms.items()}

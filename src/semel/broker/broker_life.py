"""One life of a broker, from start to stop: it registers with the controller and sends heartbeats (KIP-631).

Keeps: R11 a broker leads nothing before the controller knows of this life: the state it finds at its start may name it
       as a leader it no longer is.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from semel.broker.replication.controller_messages import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from semel.broker.runtime.tasks import Tasks
from semel.errors import ConnectionFailure

if TYPE_CHECKING:
    from semel.broker.broker import Broker

UNREGISTERED = -1


class BrokerLife:
    """Registers and sends heartbeats."""

    def __init__(self, broker: Broker) -> None:
        """Not registered yet."""
        self._broker = broker
        self._tasks = Tasks()
        self.broker_epoch = UNREGISTERED

    async def start(self) -> None:
        """Register, or keep trying in the background."""
        await self._register_or_heartbeat()
        self._tasks.start(self._keep_sending())

    async def _keep_sending(self) -> None:
        clock = self._broker.world.clock
        while True:
            await clock.sleep_ms(self._broker.settings.number("broker.heartbeat.interval.ms"))
            await self._register_or_heartbeat()

    async def _register_or_heartbeat(self) -> None:
        with contextlib.suppress(
            ConnectionFailure
        ):  # the next one tries again; the controller fences a broker that is silent for long
            if self.broker_epoch == UNREGISTERED:
                await self._register()
            else:
                await self.send_heartbeat()

    async def _register(self) -> None:
        broker = self._broker
        request = BrokerRegistrationRequest(node=broker.node)
        response = await broker.cluster.links.ask_controller(broker.id, request, BrokerRegistrationResponse, 0)
        if not response.error_code:
            self.broker_epoch = response.broker_epoch
            # Not before: the controller may have given this broker's partitions to others (R11).
            broker.take_part()

    async def send_heartbeat(self, *, want_shut_down: bool = False) -> None:
        """Say that this broker is alive, or about to stop: then others lead before this returns."""
        broker = self._broker
        request = BrokerHeartbeatRequest(
            broker_id=broker.id, broker_epoch=self.broker_epoch, want_shut_down=want_shut_down
        )
        response = await broker.cluster.links.ask_controller(broker.id, request, BrokerHeartbeatResponse, 0)
        if response.error_code:  # the controller knows of another life, or of none
            self.broker_epoch = UNREGISTERED

    def stop(self) -> None:
        """Send no more heartbeats, so that the controller fences this broker."""
        self._tasks.cancel()

"""The controllers of one cluster, one after the other: who is active, and who takes over when it dies or is stopped.

Keeps: R7 at most one controller can write: each claims the metadata log before it does anything else.
"""

from __future__ import annotations

from collections.abc import Sequence

from semel.broker.controller.controller import Controller
from semel.broker.controller.publishing import Publisher
from semel.broker.controller.service import ControllerService
from semel.broker.metadata.config import BrokerSettings
from semel.broker.metadata.store import MetadataStore
from semel.broker.runtime.refused import Refused
from semel.errors import ConfigError
from semel.protocol.error_codes import ErrorCode
from semel.world.clock import Timer
from semel.world.world import World


class Controllers:
    """Knows which controller is active; one that was stopped in place may still believe that it is."""

    def __init__(
        self,
        store: MetadataStore,
        world: World,
        broker_ids: Sequence[int],
        settings: BrokerSettings,
        publisher: Publisher,
    ) -> None:
        """Nobody is active before `start`."""
        self.active: ControllerService | None = None
        self._stopped: ControllerService | None = None
        self._takeover: Timer | None = None
        self._store = store
        self._world = world
        self._broker_ids = broker_ids
        self._settings = settings
        self._publisher = publisher

    @property
    def controller(self) -> Controller:
        """The active one; Refused while there is none."""
        if self.active is None:
            raise Refused(ErrorCode.NOT_CONTROLLER, "no controller is active")
        return self.active.controller

    @property
    def is_serving(self) -> bool:
        """Whether one is active and not stopped in place."""
        return self.active is not None and not self.active.pausing.is_paused

    def start(self) -> None:
        """Let a new one take over: it reads the metadata log and keeps every older one from writing."""
        self._cancel_takeover()
        # A stream of its own for each controller, so that none draws what an earlier one drew.
        rng = self._world.rng.fork(f"controller {self._store.controller_epoch + 1}")
        controller = Controller(self._store, self._broker_ids, rng, self._publisher.publish)
        self.active = ControllerService(self._world, controller, self._settings, self._publisher)
        self.active.start()

    def kill(self) -> None:
        """Let the active one die; another takes over in time."""
        if self.active is None:
            raise ConfigError("no controller is active", you_want="start_controller()")
        self.active.stop()
        # Until the next one starts, changes are refused with NOT_CONTROLLER; leaders go on leading.
        self.active = None
        self._expect_takeover()

    def pause(self) -> None:
        """Stop the active one in place; another takes over from it as from a dead one."""
        if self.active is None or self.active.pausing.is_paused:
            raise ConfigError("no controller is active", you_want="start_controller()")
        self.active.pausing.pause()
        self._stopped = self.active
        self._expect_takeover()

    def resume(self) -> None:
        """Let the stopped one go on, whether or not it is still active."""
        if self._stopped is None:
            raise ConfigError("the controller is not stopped", you_want="pause(0) first")
        resumed, self._stopped = self._stopped, None
        if resumed is self.active:
            # It went on before anybody took over: it stays the active one.
            self._cancel_takeover()
        resumed.pausing.resume()

    def _expect_takeover(self) -> None:
        self._cancel_takeover()
        wait_ms = self._settings.number("controller.quorum.election.timeout.ms")
        self._takeover = self._world.clock.call_later_ms(wait_ms, self.start)

    def _cancel_takeover(self) -> None:
        if self._takeover is not None:
            self._takeover.cancel()
            self._takeover = None

    def lost(self, broker_id: int) -> None:
        """The connection of a broker to the active controller has closed."""
        service = self.active
        if service is not None:
            # A controller that is stopped in place learns of it when it goes on.
            service.pausing.call(lambda: service.connection_closed(broker_id))

    def healed(self) -> None:
        """Links work again: give every broker the state that it has missed."""
        if self.active is not None:
            self.active.pausing.call(self._publisher.deliver)

    def stop(self) -> None:
        """End all of them; the log stays open for `close`."""
        self._cancel_takeover()
        for service in (self.active, self._stopped):
            if service is not None:
                service.stop()
        self.active = self._stopped = None

    def close(self) -> None:
        """Close the metadata log."""
        self._store.close()

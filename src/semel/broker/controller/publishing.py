"""How brokers learn the cluster's state: every broker that can be reached gets the newest one, whole and in order.

Keeps: B9 nobody ever sees half of a change; a broker's state never goes back. One that was cut off, stopped or dead
       gets the newest state when it is reached again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from semel.broker.metadata.cluster_state import ClusterState
from semel.broker.runtime.links import Links

if TYPE_CHECKING:
    from semel.broker.broker import Broker

log = logging.getLogger("semel.broker")


class Publisher:
    """Hands out states."""

    def __init__(self, brokers: Callable[[], Mapping[int, Broker]], links: Links) -> None:
        """`brokers` gives those that run now."""
        self._brokers = brokers
        self._links = links
        self._delivering = False
        self.state = ClusterState()

    def publish(self, state: ClusterState) -> None:
        """Take a newer state and hand it out."""
        self.state = state
        self.deliver()

    def deliver(self) -> None:
        """Give every broker that can be reached the newest state.

        A broker that takes a change may cause the next one: that one is handed out after this one has reached all.
        """
        # A broker that takes a state may commit another one from inside. The loop below
        # picks that up, so this call can return.
        if self._delivering:
            return
        self._delivering = True
        try:
            while behind := [broker for broker in self._brokers().values() if self._is_behind(broker)]:
                for broker in behind:
                    self._hand_over(broker)
        finally:
            self._delivering = False

    def _hand_over(self, broker: Broker) -> None:
        try:
            broker.apply_state(self.state)
        except OSError as error:  # its disk is full or broken; the others must not wait for it
            log.error("broker %d could not follow to state %d: %s", broker.id, self.state.version, error)  # noqa: TRY400

    def _is_behind(self, broker: Broker) -> bool:
        is_open = self._links.is_open(self._links.controller, broker.id) and not broker.pausing.is_paused
        return is_open and broker.state.version < self.state.version

    def is_current(self, broker_id: int) -> bool:
        """Whether a broker has the newest state."""
        broker = self._brokers().get(broker_id)
        return broker is not None and broker.state.version == self.state.version

"""A broker, or the controller, stops in place and goes on later with whatever it believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from semel.errors import ConfigError
from semel.faults.fault import Fault

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore

CONTROLLER = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseBroker(Fault):
    """SIGSTOP and SIGCONT: connections stay, nothing is answered, timers wait. Broker 0 is the controller."""

    name: ClassVar[str] = "pause-broker"
    broker: int

    async def start(self, cluster: ClusterCore) -> None:
        """Stop it, if it runs."""
        try:
            cluster.pause(self.broker)
        except ConfigError:
            return
        self._felt.add()

    async def stop(self, cluster: ClusterCore) -> None:
        """Let it go on, unless it died meanwhile."""
        if self.fired and (self.broker == CONTROLLER or self.broker in cluster.brokers):
            try:
                cluster.resume(self.broker)
            except ConfigError:
                return

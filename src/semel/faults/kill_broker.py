"""A broker dies as a killed process does, and is started again from its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from semel.faults.fault import Fault

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore


@dataclass(frozen=True, slots=True, kw_only=True)
class KillBroker(Fault):
    """SIGKILL: memory and connections are gone at once, everything it wrote is still there."""

    name: ClassVar[str] = "kill-broker"
    broker: int

    async def start(self, cluster: ClusterCore) -> None:
        """Kill it, if it runs."""
        if self.broker in cluster.brokers:
            cluster.kill(self.broker)
            await cluster.wait_dead(self.broker)
            self._felt.add()

    async def stop(self, cluster: ClusterCore) -> None:
        """Start it again, if nobody has."""
        if self.fired and self.broker not in cluster.brokers:
            await cluster.restart(self.broker)

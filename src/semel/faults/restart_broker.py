"""A broker dies and is back at once, as under a supervisor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from semel.faults.fault import Fault

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartBroker(Fault):
    """Killed and started again from its files; there is nothing left to mend."""

    name: ClassVar[str] = "restart-broker"
    broker: int

    async def start(self, cluster: ClusterCore) -> None:
        """Kill it, if it runs, and start it."""
        if self.broker in cluster.brokers:
            await cluster.restart(self.broker)
            self._felt.add()

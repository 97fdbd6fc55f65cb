"""The machine of a broker stops: what was written and not synced is lost, all of it or a part."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from semel.faults.fault import Fault
from semel.world.levers import disk_levers

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashMachine(Fault, ABC):
    """The broker dies and its disk loses bytes; felt only when it had any to lose."""

    torn: ClassVar[bool]
    broker: int

    async def start(self, cluster: ClusterCore) -> None:
        """Kill the broker, if it runs, and take bytes from its files."""
        if self.broker not in cluster.brokers:
            return
        disk = disk_levers(cluster.world(self.broker))
        cluster.kill(self.broker)
        await cluster.wait_dead(self.broker)
        self._felt.add(int(disk.crash(torn=self.torn) > 0))
        self._felt.undo = lambda: None

    async def stop(self, cluster: ClusterCore) -> None:
        """Start the broker again from what is left."""
        was_crashed, self._felt.undo = self._felt.undo is not None, None
        if was_crashed and self.broker not in cluster.brokers:
            await cluster.restart(self.broker)

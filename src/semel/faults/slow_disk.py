"""A broker's disk needs long to sync."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from semel.faults.fault import Fault
from semel.world.levers import disk_levers

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDisk(Fault):
    """Every sync takes this much longer. Only a cluster that syncs feels it: see `flush`."""

    name: ClassVar[str] = "slow-disk"
    broker: int
    sync_ms: float = 200.0

    async def start(self, cluster: ClusterCore) -> None:
        """Slow it down."""
        disk = disk_levers(cluster.world(self.broker))
        before_ms, disk.sync_delay_ms = disk.sync_delay_ms, self.sync_ms
        self._felt.count_by(lambda: disk.slow_syncs)

        def undo() -> None:
            disk.sync_delay_ms = before_ms

        self._felt.undo = undo

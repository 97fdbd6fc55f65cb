"""A broker's disk takes no more bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from semel.faults.fault import Fault
from semel.world.levers import disk_levers

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore


@dataclass(frozen=True, slots=True, kw_only=True)
class FullDisk(Fault):
    """Only `room_bytes` more fit; then producers get KAFKA_STORAGE_ERROR until there is room again."""

    name: ClassVar[str] = "full-disk"
    broker: int
    room_bytes: int = 0

    async def start(self, cluster: ClusterCore) -> None:
        """Fill it up."""
        disk = disk_levers(cluster.world(self.broker))
        disk.fill(self.room_bytes)
        self._felt.count_by(lambda: disk.refused_writes)
        self._felt.undo = disk.make_room

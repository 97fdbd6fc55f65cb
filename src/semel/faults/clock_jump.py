"""A broker's date is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from semel.faults.fault import Fault
from semel.world.levers import clock_levers

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJump(Fault):
    """The wall clock of one broker moves by `ms`, forward or back, until the fault ends; timers do not notice."""

    name: ClassVar[str] = "clock-jump"
    broker: int
    ms: int = 3_600_000

    async def start(self, cluster: ClusterCore) -> None:
        """Jump."""
        clock = clock_levers(cluster.world(self.broker))
        clock.jump_ms(self.ms)
        self._felt.add()
        self._felt.undo = lambda: clock.jump_ms(-self.ms)

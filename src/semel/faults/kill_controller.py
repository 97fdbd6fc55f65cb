"""The controller dies; another one takes over from its log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from semel.errors import ConfigError
from semel.faults.fault import Fault

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore


@dataclass(frozen=True, slots=True, kw_only=True)
class KillController(Fault):
    """Its memory is gone; until the next one has taken over nobody elects leaders or creates topics."""

    name: ClassVar[str] = "kill-controller"

    async def start(self, cluster: ClusterCore) -> None:
        """Kill it, if there is one."""
        try:
            cluster.kill_controller()
        except ConfigError:
            return
        self._felt.add()

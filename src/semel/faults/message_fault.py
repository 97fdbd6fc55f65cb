"""What faults on single requests share: a hook of `semel.broker.intercept` on one API, for so many requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from semel.broker.intercept import Action, Seen
from semel.faults.fault import Fault

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore

EVERY = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFault(Fault, ABC):
    """Meets requests of one API (`api` None: of any), on one broker (0: on any), `times` times (0: until it ends).

    With `client`, only those of clients with this client.id.
    """

    api: str | None = None
    broker: int = 0
    times: int = 1
    client: str = ""

    @property
    @abstractmethod
    def action(self) -> Action:
        """What happens to a request that is met."""

    async def start(self, cluster: ClusterCore) -> None:
        """Arm the hook."""
        times = None if self.times == EVERY else self.times
        hook = cluster.intercept(self.api, self.action, times=times, where=self._meets)
        self._felt.count_by(lambda: hook.fired)
        self._felt.undo = lambda: cluster.intercepts.remove(hook)

    def _meets(self, seen: Seen) -> bool:
        return self.broker in (0, seen.broker_id) and self.client in ("", seen.client_id)

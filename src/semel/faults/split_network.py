"""Nothing passes between two parties of the cluster, one way or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from semel.faults.fault import Fault

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitNetwork(Fault):
    """Requests and answers between two brokers are lost; 0 is the controller. Clients reach both all the same.

    It is felt when something that should have passed did not.
    """

    name: ClassVar[str] = "split-network"
    source: int
    target: int
    one_way: bool = False

    async def start(self, cluster: ClusterCore) -> None:
        """Cut the link."""
        links = cluster.links
        cluster.cut(self.source, self.target, one_way=self.one_way)
        self._felt.count_by(lambda: links.lost_between(self.source, self.target))
        self._felt.undo = lambda: cluster.mend(self.source, self.target)

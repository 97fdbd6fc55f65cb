"""Another in-sync replica becomes the leader of one partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from semel.errors import ConfigError
from semel.faults.fault import Fault

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore

ANY = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLeader(Fault):
    """Leadership moves to `broker`, or with 0 to the next in-sync replica that runs; it stays there."""

    name: ClassVar[str] = "move-leader"
    topic: str
    partition: int = 0
    broker: int = ANY

    async def start(self, cluster: ClusterCore) -> None:
        """Move it, if somebody else can lead."""
        topic = cluster.state.topics.get(self.topic)
        if topic is None or self.partition >= len(topic.partitions):
            raise ConfigError(f"there is no partition {self.topic}-{self.partition}")
        place = topic.partitions[self.partition]
        able = [one for one in place.isr if one != place.leader and one in cluster.brokers]
        target = self.broker or next(iter(able), ANY)
        if target in able:
            cluster.move_leader(self.topic, self.partition, target)
            self._felt.add()

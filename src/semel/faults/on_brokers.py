"""Faults of a process: a broker or the controller dies, stops in place, or leads no longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from semel.errors import ConfigError
from semel.faults.fault import Fault

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore


@dataclass(frozen=True, slots=True, kw_only=True)
class KillBroker(Fault):
    """A broker dies as a killed process does, and is started again from its files.

    SIGKILL: memory and connections are gone at once, everything it wrote is still there.
    """

    name: ClassVar[str] = "kill-broker"
    broker: int

    async def start(self, cluster: ClusterCore) -> None:
        """Kill it, if it runs."""
        if self.broker in cluster.brokers:
            cluster.kill(self.broker)
            # Before anything is waited for: it is dead now, and `stop` has to know that.
            self._record.add()
            await cluster.wait_dead(self.broker)

    async def stop(self, cluster: ClusterCore) -> None:
        """Start it again, if nobody has."""
        if self.fired and self.broker not in cluster.brokers:
            await cluster.restart(self.broker)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartBroker(Fault):
    """A broker dies and is back at once, as under a supervisor.

    Killed and started again from its files; there is nothing left to mend.
    """

    name: ClassVar[str] = "restart-broker"
    broker: int

    async def start(self, cluster: ClusterCore) -> None:
        """Kill it, if it runs, and start it."""
        if self.broker in cluster.brokers:
            await cluster.restart(self.broker)
            self._record.add()


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseBroker(Fault):
    """A broker, or the controller, stops in place and goes on later with whatever it believed.

    SIGSTOP and SIGCONT: connections stay, nothing is answered, timers wait. 0 is the controller, or -2 where a
    broker has the number 0.
    """

    name: ClassVar[str] = "pause-broker"
    broker: int

    async def start(self, cluster: ClusterCore) -> None:
        """Stop it, if it runs."""
        try:
            cluster.pause(self.broker)
        except ConfigError:
            return
        self._record.add()

    async def stop(self, cluster: ClusterCore) -> None:
        """Let it go on, unless it died meanwhile."""
        if self.fired and (self.broker == cluster.links.controller or self.broker in cluster.brokers):
            try:
                # It may have been resumed by hand meanwhile, or killed and started again.
                cluster.resume(self.broker)
            except ConfigError:
                return


ANY = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLeader(Fault):
    """Another in-sync replica becomes the leader of one partition.

    Leadership moves to `broker`, or with 0 to the next in-sync replica that runs; it stays there.
    """

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
        # Only replicas that are in sync: a fault must not lose what was acknowledged by itself.
        able = [one for one in place.isr if one != place.leader and one in cluster.brokers]
        target = self.broker or next(iter(able), ANY)
        if target in able:
            cluster.move_leader(self.topic, self.partition, target)
            self._record.add()


@dataclass(frozen=True, slots=True, kw_only=True)
class KillController(Fault):
    """The controller dies; another one takes over from its log.

    Its memory is gone; until the next one has taken over nobody elects leaders or creates topics.
    """

    name: ClassVar[str] = "kill-controller"

    async def start(self, cluster: ClusterCore) -> None:
        """Kill it, if there is one."""
        try:
            cluster.kill_controller()
        except ConfigError:
            return
        self._record.add()

"""Faults of what a broker runs on: the machine stops, its disk is full or slow, its clock or network is wrong."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from semel.faults.fault import Fault
from semel.world.levers import clock_levers, disk_levers

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
        # Says that it crashed something, also where no bytes were lost and so nothing counts as felt. Before anything
        # is waited for: the broker is dead now, and `stop` has to know that.
        self._record.undo = lambda: None
        await cluster.wait_dead(self.broker)
        self._record.add(int(disk.crash(torn=self.torn) > 0))

    async def stop(self, cluster: ClusterCore) -> None:
        """Start the broker again from what is left."""
        if self._record.undo is not None and self.broker not in cluster.brokers:
            await cluster.restart(self.broker)
        # Not before: who stops it again after half a restart has something left to do.
        self._record.undo = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostSync(CrashMachine):
    """A machine stops and what was not synced is gone.

    Every file ends where its last sync left it.
    """

    name: ClassVar[str] = "lost-sync"
    torn: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TornWrite(CrashMachine):
    """A machine stops in the middle of a write.

    Of the bytes that were not synced a part is there, perhaps as zeros: a batch without its end.
    """

    name: ClassVar[str] = "torn-write"
    torn: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FullDisk(Fault):
    """A broker's disk takes no more bytes.

    Only `room_bytes` more fit; then producers get KAFKA_STORAGE_ERROR until there is room again.
    """

    name: ClassVar[str] = "full-disk"
    broker: int
    room_bytes: int = 0

    async def start(self, cluster: ClusterCore) -> None:
        """Fill it up."""
        disk = disk_levers(cluster.world(self.broker))
        disk.fill(self.room_bytes)
        self._record.count_by(lambda: disk.refused_writes)
        self._record.undo = disk.make_room


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDisk(Fault):
    """A broker's disk needs long to sync.

    Every sync takes this much longer. Only a cluster that syncs feels it: see `flush`.
    """

    name: ClassVar[str] = "slow-disk"
    broker: int
    sync_ms: float = 200.0

    async def start(self, cluster: ClusterCore) -> None:
        """Slow it down."""
        disk = disk_levers(cluster.world(self.broker))
        # Not to 0 afterwards: an engine may have made this disk slow for the whole run.
        before_ms, disk.sync_delay_ms = disk.sync_delay_ms, self.sync_ms
        self._record.count_by(lambda: disk.slow_syncs)

        def undo() -> None:
            disk.sync_delay_ms = before_ms

        self._record.undo = undo


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJump(Fault):
    """A broker's date is wrong.

    The wall clock of one broker moves by `ms`, forward or back, until the fault ends; timers do not notice.
    """

    name: ClassVar[str] = "clock-jump"
    broker: int
    ms: int = 3_600_000

    async def start(self, cluster: ClusterCore) -> None:
        """Jump."""
        clock = clock_levers(cluster.world(self.broker))
        clock.jump_ms(self.ms)
        self._record.add()
        # Back by the same amount: another fault may have moved the clock meanwhile.
        self._record.undo = lambda: clock.jump_ms(-self.ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitNetwork(Fault):
    """Nothing passes between two parties of the cluster, one way or both.

    Requests and answers between two brokers are lost. Clients reach both all the same. 0 is the controller, or -2 where
    a broker has the number 0. The fault is felt when something that should have passed did not.
    """

    name: ClassVar[str] = "split-network"
    source: int
    target: int
    one_way: bool = False

    async def start(self, cluster: ClusterCore) -> None:
        """Cut the link."""
        links = cluster.links
        cluster.cut(self.source, self.target, one_way=self.one_way)
        # Counted where something is lost: a cut that nobody tried to cross was not felt.
        self._record.count_by(lambda: links.lost_between(self.source, self.target))
        self._record.undo = lambda: cluster.mend(self.source, self.target)

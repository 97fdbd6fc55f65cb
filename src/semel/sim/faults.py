"""The faults of a simulation: each strikes at a moment that the schedule draws, and is undone some time later.

Keeps: a fault is written into the history when it really happened, so a run that none of them struck is known as one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from semel.broker.intercept import Action, After, CutMidFrame, Delay, DropRequest, DropResponse, Hook
from semel.world.rng import Rng
from semel.world.virtual_disk import UNLIMITED_BYTES

if TYPE_CHECKING:
    from semel.sim.stage import Stage

DELAY_MS_MAX = 4_000
SLOW_SYNC_MS_MAX = 400
SLOW_NETWORK_MS_MAX = 300
CLOCK_JUMP_MS_MAX = 3_600_000
APIS = (
    "Produce",
    "EndTxn",
    "InitProducerId",
    "TxnOffsetCommit",
    "OffsetCommit",
    "AddPartitionsToTxn",
    "WriteTxnMarkers",
)


class Fault(ABC):
    """One fault from its beginning to its end."""

    def __init__(self, stage: Stage, rng: Rng, kind: str) -> None:
        """Not injected yet; `kind` is its name in the table below."""
        self.stage = stage
        self.rng = rng
        self.kind = kind

    @abstractmethod
    async def inject(self) -> None:
        """Let it strike; when there is nothing to strike, nothing is told."""

    @abstractmethod
    async def undo(self) -> None:
        """Undo it, as far as it can be."""

    def tell(self, text: str) -> None:
        """Write down that it struck."""
        self.stage.tell(text, kind=self.kind)

    def running(self) -> list[int]:
        """The brokers that could be struck."""
        return sorted(self.stage.cluster.brokers)


class KillBroker(Fault):
    """The process dies; its files stay."""

    keeps_unsynced = True
    torn = False
    word = "killed"
    broker_id = 0

    async def inject(self) -> None:
        """Kill any broker that runs."""
        if not self.running():
            return
        self.broker_id = self.rng.choice(self.running())
        self.stage.cluster.kill(self.broker_id)
        self.stage.worlds[self.broker_id].disk.crash(keep_unsynced=self.keeps_unsynced, torn=self.torn)
        self.tell(f"broker {self.broker_id} {self.word}")

    async def undo(self) -> None:
        """Start it again from what it has on its disk."""
        if self.broker_id and self.broker_id not in self.stage.cluster.brokers:
            await self.stage.cluster.restart(self.broker_id)
            self.stage.tell(f"broker {self.broker_id} restarted")


class CrashMachine(KillBroker):
    """The machine stops: bytes that were not synced are gone."""

    keeps_unsynced = False
    word = "lost what it had not synced"


class TearWrite(CrashMachine):
    """The machine stops in the middle of a write: a part of the unsynced bytes is there, perhaps as zeros."""

    torn = True
    word = "stopped in the middle of a write"


class LoseMessages(Fault):
    """Requests or answers of one API are lost, late or cut in two."""

    hook: Hook | None = None

    async def inject(self) -> None:
        """Arm a hook for a few messages; it is told when one is met."""
        api = self.rng.choice((None, *APIS))
        action = self.action()
        self.hook = self.stage.cluster.intercept(api, action, times=self.rng.integer(1, 3))
        self.hook.on_fire.append(lambda seen: self.tell(f"broker {seen.broker_id}, request {seen.api_key}: {action}"))

    def action(self) -> Action:
        """What happens to the messages."""
        then = self.rng.choice((After.CUT, After.SILENCE))
        actions: tuple[Action, ...] = (DropRequest(then=then), DropResponse(then=then), CutMidFrame())
        return self.rng.choice(actions)

    async def undo(self) -> None:
        """Disarm the hook."""
        if self.hook is not None:
            self.stage.cluster.intercepts.remove(self.hook)


class DelayMessages(LoseMessages):
    """Requests or answers come late, some after their client gave up."""

    def action(self) -> Action:
        """Late by a drawn time."""
        return Delay(ms=self.rng.integer(10, DELAY_MS_MAX), response=self.rng.chance(0.5))


class SplitClient(Fault):
    """Nothing passes between one client and one broker, one way or both."""

    async def inject(self) -> None:
        """Split any pair."""
        client = self.rng.choice(self.stage.clients).name
        broker = f"broker-{self.rng.integer(1, len(self.stage.worlds) - 1)}"
        one_way = self.rng.chance(0.5)
        ends = (client, broker) if self.rng.chance(0.5) else (broker, client)
        self.stage.network.split(*ends, one_way=one_way)
        self.tell(f"nothing passes {'from' if one_way else 'between'} {ends[0]} {'to' if one_way else 'and'} {ends[1]}")

    async def undo(self) -> None:
        """All splits heal together."""
        self.stage.network.heal()


class CutLink(Fault):
    """Nothing passes from one broker to another, or both ways."""

    async def inject(self) -> None:
        """Cut any pair."""
        source, target = (
            self.rng.integer(1, len(self.stage.worlds) - 1),
            self.rng.integer(1, len(self.stage.worlds) - 1),
        )
        if source == target:
            return
        self.stage.cluster.links.cut(source, target)
        if self.rng.chance(0.5):
            self.stage.cluster.links.cut(target, source)
            self.tell(f"links between brokers {source} and {target} cut")
        else:
            self.tell(f"link from broker {source} to {target} cut")

    async def undo(self) -> None:
        """All links heal together."""
        self.stage.cluster.links.heal()


class SlowDisk(Fault):
    """Syncs of one broker take long."""

    broker_id = 1

    async def inject(self) -> None:
        """Slow any broker's disk."""
        self.broker_id = self.rng.integer(1, len(self.stage.worlds) - 1)
        delay_ms = self.rng.integer(20, SLOW_SYNC_MS_MAX)
        self.stage.worlds[self.broker_id].disk.sync_delay_ms = delay_ms
        self.tell(f"disk of broker {self.broker_id} needs {delay_ms} ms for a sync")

    async def undo(self) -> None:
        """As fast as before."""
        self.stage.worlds[self.broker_id].disk.sync_delay_ms = 0.0


class FullDisk(Fault):
    """One broker's disk takes no more bytes, or only a few."""

    broker_id = 1

    async def inject(self) -> None:
        """Fill any broker's disk."""
        self.broker_id = self.rng.integer(1, len(self.stage.worlds) - 1)
        disk = self.stage.worlds[self.broker_id].disk
        disk.capacity_bytes -= max(disk.free_bytes("/") - self.rng.integer(0, 2000), 0)
        self.tell(f"disk of broker {self.broker_id} is full")

    async def undo(self) -> None:
        """Room again."""
        self.stage.worlds[self.broker_id].disk.capacity_bytes = UNLIMITED_BYTES


class JumpClock(Fault):
    """One broker's wall clock jumps, forward or back, and stays there."""

    async def inject(self) -> None:
        """Move any broker's clock."""
        broker_id = self.rng.integer(0, len(self.stage.worlds) - 1)
        delta_ms = self.rng.integer(-CLOCK_JUMP_MS_MAX, CLOCK_JUMP_MS_MAX)
        self.stage.worlds[broker_id].clock.jump_ms(delta_ms)
        self.tell(f"clock of broker {broker_id} jumps by {delta_ms} ms")

    async def undo(self) -> None:
        """Nobody sets the clock right: a wrong date must hurt nobody for good."""


class SlowNetwork(Fault):
    """Everything between clients and brokers takes long."""

    async def inject(self) -> None:
        """Raise the latencies."""
        self.stage.network.latency_ms_max = self.rng.integer(30, SLOW_NETWORK_MS_MAX)
        self.tell(f"network takes up to {self.stage.network.latency_ms_max} ms")

    async def undo(self) -> None:
        """As fast as the seed said."""
        self.stage.network.latency_ms_max = self.stage.options.latency_ms_max


KINDS: dict[str, type[Fault]] = {
    "kill": KillBroker,
    "crash": CrashMachine,
    "torn write": TearWrite,
    "lose messages": LoseMessages,
    "delay messages": DelayMessages,
    "split client": SplitClient,
    "cut link": CutLink,
    "slow disk": SlowDisk,
    "full disk": FullDisk,
    "clock jump": JumpClock,
    "slow network": SlowNetwork,
}
LOSES_UNSYNCED = frozenset({"crash", "torn write"})

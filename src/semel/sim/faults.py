"""The faults of a simulation: each strikes at a moment that the schedule draws, and is undone some time later.

Keeps: a fault is written into the history when it really happened, so a run that none of them struck is known as one.
Why:   not those of `semel.faults`, though both pull the levers of the same cluster. There a fault is a value that names
       its target, because a schedule must be written down to be played again on real machines. Here the seed is all
       that is written down, so a fault may choose among those that run at the moment it strikes, or wait for a request
       and strike in the middle of it, which finds bugs that targets fixed beforehand miss. And it breaks what only a
       virtual world has: bytes that were not synced, hosts of clients, the latency of every message.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from semel.broker.runtime.intercept import Action, After, CutMidFrame, Delay, DropRequest, DropResponse, Hook, Seen
from semel.broker.runtime.refused import Refused
from semel.errors import ConfigError
from semel.world.rng import Rng
from semel.world.virtual_disk import UNLIMITED_BYTES

if TYPE_CHECKING:
    from semel.sim.stage import Stage

CONTROLLER = 0
AT_REQUEST_MS_MAX = 6.0
DELAY_MS_MAX = 4_000
SLOW_SYNC_MS_MAX = 400
SLOW_NETWORK_MS_MAX = 300
CLOCK_JUMP_MS_MAX = 3_600_000
# Produce twice: it is drawn twice as often.
APIS = (
    "Produce",
    "Produce",
    "EndTxn",
    "InitProducerId",
    "TxnOffsetCommit",
    "OffsetCommit",
    "AddPartitionsToTxn",
    "WriteTxnMarkers",
    "ReplicaFetch",
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
        """Inject it; if there is nothing to break now, nothing is recorded."""

    @abstractmethod
    async def undo(self) -> None:
        """Undo it, as far as it can be."""

    def tell(self, text: str) -> None:
        """Record that it was injected."""
        self.stage.tell(text, kind=self.kind)

    def running(self) -> list[int]:
        """The brokers that run."""
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
        # At the same moment: a killed process keeps what the system has, a crashed machine only what was synced.
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
        """Arm a hook for a few messages, and record when one is met."""
        api = self.rng.choice((None, *APIS))
        action = self.action()
        self.hook = self.stage.cluster.intercept(api, action, times=self.rng.integer(1, 3))
        # Recorded when it fires and not when it is armed: a hook that meets nothing has broken nothing.
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
    """Nothing passes between two of the brokers and the controller, one way or both."""

    async def inject(self) -> None:
        """Cut any pair."""
        parties = sorted(self.stage.worlds)
        source = self.rng.choice(parties)
        target = self.rng.choice([party for party in parties if party != source])
        one_way = self.rng.chance(0.5)
        self.stage.cluster.cut(source, target, one_way=one_way)
        self.tell(f"link {'from' if one_way else 'between'} {source} {'to' if one_way else 'and'} {target} cut")

    async def undo(self) -> None:
        """All links heal together."""
        self.stage.cluster.heal()


class PauseBroker(Fault):
    """A broker stops in place and goes on later, with whatever it believed."""

    broker_id = 0

    async def inject(self) -> None:
        """Stop any broker that runs."""
        if not self.running():
            return
        self.broker_id = self.rng.choice(self.running())
        self.stage.cluster.pause(self.broker_id)
        self.tell(f"broker {self.broker_id} stopped in place")

    async def undo(self) -> None:
        """Let it go on, unless it died meanwhile."""
        if self.broker_id in self.stage.cluster.brokers:
            self.stage.cluster.resume(self.broker_id)
            self.stage.tell(f"broker {self.broker_id} goes on")


class KillController(Fault):
    """The controller dies; after a while another one takes over from its log."""

    async def inject(self) -> None:
        """Kill it, unless there is none."""
        try:
            self.stage.cluster.kill_controller()
        except ConfigError:
            return
        self.tell("controller killed")

    async def undo(self) -> None:
        """Another one takes over by itself."""


class PauseController(Fault):
    """The controller stops in place; when it goes on it may have been replaced."""

    has_struck = False

    async def inject(self) -> None:
        """Stop it, unless there is none."""
        try:
            self.stage.cluster.pause(CONTROLLER)
        except ConfigError:
            return
        self.has_struck = True
        self.tell("controller stopped in place")

    async def undo(self) -> None:
        """Let it go on."""
        if not self.has_struck:
            return
        try:
            self.stage.cluster.resume(CONTROLLER)
        except ConfigError:
            return
        self.stage.tell("the old controller goes on")


class MoveLeader(Fault):
    """Another in-sync replica becomes the leader of one partition."""

    async def inject(self) -> None:
        """Move any partition, the coordinators' too."""
        topics = self.stage.cluster.state.topics
        topic = self.rng.choice(sorted(topics))
        index = self.rng.integer(0, len(topics[topic].partitions) - 1)
        target = self.rng.integer(1, len(self.stage.worlds) - 1)
        if topics[topic].partitions[index].leader == target:
            return
        try:
            self.stage.cluster.move_leader(topic, index, target)
        # The target may be dead or not in sync, or no controller is there: then nothing has changed.
        except (ConfigError, Refused):
            return
        self.tell(f"broker {target} leads {topic}-{index}")

    async def undo(self) -> None:
        """It may stay there."""


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
        # A few bytes may be left: small files still fit then, and larger appends do not.
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


class AtRequest(Fault):
    """Another fault strikes while a request of a chosen kind is being carried out, or just after."""

    inner: Fault | None = None
    hook: Hook | None = None

    async def inject(self) -> None:
        """Wait for the request; the fault strikes within a few milliseconds of it."""
        # Under this one's name, so that the history counts what was drawn.
        self.inner = self.rng.choice(INNER)(self.stage, self.rng, self.kind)
        self._delay_ms = self.rng.uniform(0, AT_REQUEST_MS_MAX)
        # A delay of nothing: it changes nothing and tells when such a request comes.
        self.hook = self.stage.cluster.intercept(self.rng.choice(APIS), Delay(ms=0))
        self.hook.on_fire.append(self._expect)

    def _expect(self, _: Seen) -> None:
        # The controller's clock: it goes on whichever broker is stopped.
        self.stage.worlds[CONTROLLER].clock.call_later_ms(self._delay_ms, self._strike)

    def _strike(self) -> None:
        if self.inner is not None:
            # Kept, since asyncio itself holds its tasks by weak references only.
            self._striking = asyncio.get_running_loop().create_task(self.inner.inject())

    async def undo(self) -> None:
        """Disarm the hook, undo what it let loose."""
        if self.hook is not None:
            self.stage.cluster.intercepts.remove(self.hook)
        if self.inner is not None:
            inner, self.inner = self.inner, None
            await inner.undo()


# A kill stands here twice, so that it is drawn twice as often.
INNER: tuple[type[Fault], ...] = (KillBroker, KillBroker, PauseBroker, CutLink, MoveLeader, KillController)

KINDS: dict[str, type[Fault]] = {
    "at request": AtRequest,
    "kill": KillBroker,
    "crash": CrashMachine,
    "torn write": TearWrite,
    "lose messages": LoseMessages,
    "delay messages": DelayMessages,
    "split client": SplitClient,
    "cut link": CutLink,
    "pause": PauseBroker,
    "kill controller": KillController,
    "pause controller": PauseController,
    "move leader": MoveLeader,
    "slow disk": SlowDisk,
    "full disk": FullDisk,
    "clock jump": JumpClock,
    "slow network": SlowNetwork,
}
LOSES_UNSYNCED = frozenset({"crash", "torn write"})

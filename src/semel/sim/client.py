"""A client of a simulation: it connects, learns who leads and coordinates, and asks again until a deadline.

Around it stands an `Activity`: it works while faults come, and must get one more thing done once all is healed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from semel.errors import ConnectionFailure
from semel.history import Outcome, Place, Settle
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from semel.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from semel.sim.channel import FRAME_BYTES_MAX, Channel
from semel.sim.recorder import Recorder
from semel.world.world import World

# Shorter than a session, so that a client asks again while a dead broker is still in the metadata.
REQUEST_MS_MAX = 1_500
CONNECT_MS_MAX = 1_000
BACKOFF_MS = 100
OP_MS_MAX = 8_000
# Sessions, transactions and elections must all be able to time out before a client counts as stuck.
HEALED_MS_MAX = 60_000
GROUP, TRANSACTION = 0, 1
COORDINATOR_MOVED = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)

Address = tuple[str, int]
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Led:
    """Who leads a partition, as far as this client knows."""

    leader: int
    leader_epoch: int


class Client:
    """Connections and beliefs of one client."""

    def __init__(self, name: str, world: World, bootstrap: Sequence[Address], recorder: Recorder) -> None:
        """Know the brokers' addresses and nothing else."""
        self.name = name
        self.clock = world.clock
        self.rng = world.rng
        self.recorder = recorder
        self._network = world.network
        self._bootstrap = list(bootstrap)
        self._channels: dict[Address, Channel] = {}
        self._nodes: dict[int, Address] = {}
        self._led: dict[Place, Led] = {}
        self._newest_epochs: dict[Place, int] = {}
        self._coordinators: dict[tuple[int, str], Address] = {}

    async def pause(self, ms_max: float = BACKOFF_MS) -> None:
        """Wait a little before the next attempt."""
        await self.clock.sleep_ms(self.rng.uniform(ms_max / 4, ms_max))

    async def channel(self, address: Address) -> Channel:
        """A connection that looks alive."""
        known = self._channels.get(address)
        if known is None or known.closed:
            connection = await self._network.connect(
                *address, frame_bytes_max=FRAME_BYTES_MAX, timeout_ms=CONNECT_MS_MAX
            )
            known = self._channels[address] = Channel(connection, self.clock, self.name)
        return known

    async def ask_any(self, request: Message, response: type[M], version: int) -> M:
        """Ask whichever broker the draw says."""
        # At random, so that brokers with old news are asked as well.
        channel = await self.channel(self.rng.choice(self._bootstrap))
        return await channel.ask(request, response, version, REQUEST_MS_MAX)

    async def leader_of(self, place: Place) -> tuple[Channel, int]:
        """A connection to the leader, and the leader epoch it is believed to lead under; ConnectionFailure if none."""
        if place not in self._led:
            await self._learn(place[0])
        led = self._led.get(place)
        # Metadata may name a leader whose address it does not list, when that broker has just been fenced.
        if led is None or led.leader not in self._nodes:
            self._led.pop(place, None)
            raise ConnectionFailure(f"nobody leads {place[0]}-{place[1]}")
        return await self.channel(self._nodes[led.leader]), led.leader_epoch

    def forget_leader(self, place: Place) -> None:
        """Ask again before the next attempt."""
        self._led.pop(place, None)

    async def _learn(self, topic: str) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        answer = await self.ask_any(request, MetadataResponse, 12)
        self._nodes |= {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        for row in (row for found in answer.topics for row in found.partitions):
            if not row.error_code and row.leader_id >= 0:
                self._believe((topic, row.partition_index), Led(row.leader_id, row.leader_epoch))

    def _believe(self, place: Place, led: Led) -> None:
        """Ignore an answer with an older leader epoch than the newest one known, as the Java client does (KIP-320)."""
        # An equal epoch is taken: the address may have been forgotten in between.
        if led.leader_epoch >= self._newest_epochs.get(place, 0):
            self._newest_epochs[place] = led.leader_epoch
            self._led[place] = led

    async def ask_coordinator(self, kind: int, key: str, request: Message, response: type[M], version: int) -> M:
        """Ask the coordinator of a group or a transactional id."""
        if (kind, key) not in self._coordinators:
            await self._find_coordinator(kind, key)
        address = self._coordinators[kind, key]
        try:
            return await (await self.channel(address)).ask(request, response, version, REQUEST_MS_MAX)
        # It may have died or moved. The next attempt asks any broker who it is now.
        except ConnectionFailure:
            self.forget_coordinator(kind, key)
            raise

    def coordinator_of(self, kind: int, key: str) -> str:
        """Who is believed to be the coordinator; a host, for histories."""
        return self._coordinators.get((kind, key), ("", 0))[0]

    def forget_coordinator(self, kind: int, key: str) -> None:
        """Ask again before the next attempt."""
        self._coordinators.pop((kind, key), None)

    async def _find_coordinator(self, kind: int, key: str) -> None:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        row = (await self.ask_any(request, FindCoordinatorResponse, 4)).coordinators[0]
        if row.error_code:
            raise ConnectionFailure(f"no coordinator: {ErrorCode(row.error_code).name}")
        self._coordinators[kind, key] = (row.host, row.port)

    def close(self) -> None:
        """Let go of every connection."""
        for channel in self._channels.values():
            channel.close()


@dataclass(slots=True)
class Attempts:
    """What the attempts at one op have shown so far, and what that makes of it in the end."""

    may_have_happened: bool = False
    error: str = ""

    def failed(self, error: ConnectionFailure) -> None:
        """No answer came."""
        # The request may have been carried out before the connection broke, or may still be.
        self.may_have_happened = True
        self.error = error.summary

    def refused(self, code: ErrorCode, *, surely: bool) -> None:
        """An error came; `surely` says that it proves that nothing happened."""
        # An earlier attempt without an answer is not made good by a later refusal.
        self.may_have_happened |= not surely
        self.error = code.name

    @property
    def outcome(self) -> Outcome:
        """Of an op that was given up."""
        return Outcome.UNKNOWN if self.may_have_happened else Outcome.FAILED


class Activity(ABC):
    """One client at work."""

    def __init__(self, client: Client) -> None:
        """Nothing happens before `run`."""
        self.client = client
        self.stopping = False

    async def run(self) -> None:
        """Work until stopped, then settle."""
        while not self.stopping:
            await self.work()
            await self.client.pause(self.pace_ms)
        # Everything is healed by now, so what does not succeed has no fault to blame: the law of progress judges it.
        invoked = self.client.recorder.begin()
        done = await self.settle()
        outcome = Outcome.OK if done else Outcome.FAILED
        self.client.recorder.end(self.client.name, Settle(what=self.aim), outcome, invoked)

    pace_ms: float = 200
    aim: str = "get its last work done"

    @abstractmethod
    async def work(self) -> None:
        """One piece of work; failures are recorded, not raised."""

    @abstractmethod
    async def settle(self) -> bool:
        """The last piece of work, which must succeed within HEALED_MS_MAX."""

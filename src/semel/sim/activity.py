"""The frame around every client: it works while faults come, and must get one more thing done once all is healed."""

from __future__ import annotations

from abc import ABC, abstractmethod

from semel.history import Outcome, Settle
from semel.sim.client import Client

OP_MS_MAX = 8_000
HEALED_MS_MAX = 60_000


class Activity(ABC):
    """One client at work."""

    def __init__(self, client: Client) -> None:
        """Nothing happens before `run`."""
        self.client = client
        self.stopping = False

    async def run(self) -> None:
        """Work until told to stop, then settle."""
        while not self.stopping:
            await self.work()
            await self.client.pause(self.pace_ms)
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

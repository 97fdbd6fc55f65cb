"""Producers outside transactions: plain ones, which may repeat records, and idempotent ones, which may not."""

from __future__ import annotations

from collections.abc import Sequence

from semel.errors import ConnectionFailure
from semel.history import Place
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.sim.client import HEALED_MS_MAX, OP_MS_MAX, Activity, Client
from semel.sim.sending import Identity, Sender

BATCHES_MAX = 4
RECORDS_MAX = 3


class Values:
    """Values that no other client of the run sends."""

    def __init__(self, client: Client) -> None:
        """They begin with the client's name."""
        self._client = client
        self._count = 0

    def batches(self) -> list[list[str]]:
        """A few batches of a few values."""
        rng = self._client.rng
        return [self.some(rng.integer(1, RECORDS_MAX)) for _ in range(rng.integer(1, BATCHES_MAX))]

    def some(self, count: int) -> list[str]:
        """New values."""
        self._count += count
        return [f"{self._client.name}.{number}" for number in range(self._count - count, self._count)]


class PlainProducer(Activity):
    """Sends without producer id."""

    aim = "send one more batch"

    def __init__(self, client: Client, places: Sequence[Place], *, acks: int) -> None:
        """Send to any of these partitions."""
        super().__init__(client)
        self._places = places
        self._values = Values(client)
        self._sender = Sender(client, Identity(), acks=acks)

    async def work(self) -> None:
        """Send a few batches to one partition."""
        await self._sender.send(self.client.rng.choice(self._places), self._values.batches(), limit_ms=OP_MS_MAX)

    async def settle(self) -> bool:
        """Every partition takes a record."""
        for place in self._places:
            # What comes back is what was not acknowledged.
            if await self._sender.send(place, [self._values.some(1)], limit_ms=HEALED_MS_MAX):
                return False
        return True


class IdempotentProducer(Activity):
    """Sends under a producer id; after a failure that leaves a gap it takes a new one, as the libraries do."""

    aim = "send one more batch"

    def __init__(self, client: Client, places: Sequence[Place]) -> None:
        """Send to any of these partitions."""
        super().__init__(client)
        self._places = places
        self._values = Values(client)
        self._sender: Sender | None = None

    async def work(self) -> None:
        """Send a few batches to one partition."""
        await self._send(self.client.rng.choice(self._places), self._values.batches(), OP_MS_MAX)

    async def settle(self) -> bool:
        """Every partition takes a record."""
        for place in self._places:
            if not await self._send(place, [self._values.some(1)], HEALED_MS_MAX):
                return False
        return True

    async def _send(self, place: Place, batches: Sequence[Sequence[str]], limit_ms: float) -> bool:
        deadline_ms = self.client.clock.monotonic_ms() + limit_ms
        sender = self._sender or await self._start(deadline_ms)
        if sender is None:
            return False
        self._sender = sender
        if await sender.send(place, batches, limit_ms=deadline_ms - self.client.clock.monotonic_ms()) is None:
            return True
        # Whether the lost batch is in the log is unknown, so no sequence can follow it.
        self._sender = None
        return False

    async def _start(self, deadline_ms: float) -> Sender | None:
        # Any broker gives out producer ids: without a transactional id no coordinator is needed.
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        while self.client.clock.monotonic_ms() < deadline_ms:
            try:
                answer = await self.client.ask_any(request, InitProducerIdResponse, 4)
            except ConnectionFailure:
                await self.client.pause()
                continue
            if not answer.error_code:
                return Sender(self.client, Identity(answer.producer_id, answer.producer_epoch))
            await self.client.pause()
        return None

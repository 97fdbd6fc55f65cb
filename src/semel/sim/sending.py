"""Sending batches to one partition: a window of five under way, and again what was not acknowledged, in order.

Why: a batch is never built again for another attempt. Its producer id, epoch and sequence are what the broker knows it
     by, so the same bytes go out until they are acknowledged or given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from semel.errors import ConnectionFailure
from semel.history import Outcome, Place, Send
from semel.history.op import ACKS_ALL
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from semel.protocol.record_batch import DraftRecord, encode_batch
from semel.sim.channel import Channel
from semel.sim.client import REQUEST_MS_MAX, Attempts, Client

PRODUCE_VERSION = 12
# As many as a broker remembers of one producer: an older batch that comes again could not be recognised.
IN_FLIGHT_MAX = 5
PRODUCE_MS_MAX = 1_000
FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
# A broker answers these before it appends. NOT_ENOUGH_REPLICAS_AFTER_APPEND, for one, is not among them.
SURELY_NOT = FENCED | {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


@dataclass(slots=True)
class Identity:
    """A producer id and epoch, with the next sequence of each partition."""

    producer_id: int = -1
    producer_epoch: int = -1
    sequences: dict[Place, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How histories name it; plain producers have none."""
        return f"{self.producer_id}/{self.producer_epoch}" if self.producer_id >= 0 else ""

    def take(self, place: Place, count: int) -> int:
        """The base sequence of the next batch."""
        if self.producer_id < 0:
            return -1
        base = self.sequences.get(place, 0)
        self.sequences[place] = base + count
        return base


@dataclass(slots=True)
class Outgoing:
    """One batch until it is acknowledged or given up."""

    values: Sequence[str]
    data: bytes
    invoked: Sequence[int]
    attempts: Attempts = field(default_factory=Attempts)
    fatal: ErrorCode | None = None
    base_offset: int = -1
    acknowledged: bool = False

    def judge(self, row: PartitionProduceResponse, *, is_first: bool) -> None:
        """Take the broker's answer; a gap behind an unacknowledged batch is no verdict on this one."""
        code = ErrorCode(row.error_code)
        # A duplicate was written by an earlier attempt, so it is done.
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self.acknowledged, self.base_offset = True, row.base_offset
            return
        self.attempts.refused(code, surely=code in SURELY_NOT)
        is_gap = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not is_first
        if not code.retriable and not is_gap:
            self.fatal = code


class Sender:
    """Sends for one client under one identity."""

    def __init__(self, client: Client, identity: Identity, *, acks: int = ACKS_ALL, transactional_id: str = "") -> None:
        """`transactional_id` makes every batch part of a transaction."""
        self._client = client
        self.identity = identity
        self._acks = acks
        self._transactional_id = transactional_id

    async def send(
        self, place: Place, batches: Sequence[Sequence[str]], *, transaction: str = "", limit_ms: float
    ) -> ErrorCode | None:
        """Send these batches of values in order and record how each ended; the fatal error, if there was one.

        Unacknowledged batches without a fatal error are REQUEST_TIMED_OUT: the time was over.
        """
        todo = [self._outgoing(place, values) for values in batches]
        everything, deadline_ms = list(todo), self._client.clock.monotonic_ms() + limit_ms
        while todo and not any(one.fatal for one in todo) and self._client.clock.monotonic_ms() < deadline_ms:
            await self._attempt(place, todo[:IN_FLIGHT_MAX])
            todo = [one for one in todo if not one.acknowledged]
            if todo:
                self._client.forget_leader(place)
                await self._client.pause()
        for number, one in enumerate(everything):
            is_overtaken = any(later.acknowledged for later in everything[number + 1 :])
            self._record(place, one, transaction, is_overtaken=is_overtaken)
        fatal = next((one.fatal for one in todo if one.fatal), None)
        return fatal or (ErrorCode.REQUEST_TIMED_OUT if todo else None)

    def _outgoing(self, place: Place, values: Sequence[str]) -> Outgoing:
        now_ms = self._client.clock.wall_ms()
        data = encode_batch(
            [DraftRecord(key=None, value=value.encode(), timestamp_ms=now_ms) for value in values],
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            base_sequence=self.identity.take(place, len(values)),
            transactional=bool(self._transactional_id),
        )
        return Outgoing(values, data, [self._client.recorder.begin() for _ in values])

    async def _attempt(self, place: Place, window: Sequence[Outgoing]) -> None:
        try:
            channel, _ = await self._client.leader_of(place)
        except ConnectionFailure as error:
            # Nothing was sent this time, so no batch of the window becomes uncertain.
            window[0].attempts.error = error.summary
            return
        if self._acks == 0:
            for one in window:
                channel.tell(self._request(place, one), PRODUCE_VERSION)
                # With acks=0 a record that was sent counts as done, whatever becomes of it.
                one.acknowledged = True
            return
        await asyncio.gather(*(self._exchange(channel, place, one, one is window[0]) for one in window))

    async def _exchange(self, channel: Channel, place: Place, one: Outgoing, is_first: bool) -> None:
        try:
            answer = await channel.ask(self._request(place, one), ProduceResponse, PRODUCE_VERSION, REQUEST_MS_MAX)
        except ConnectionFailure as error:
            one.attempts.failed(error)
        else:
            one.judge(answer.responses[0].partition_responses[0], is_first=is_first)

    def _request(self, place: Place, one: Outgoing) -> ProduceRequest:
        rows = [PartitionProduceData(index=place[1], records=one.data)]
        return ProduceRequest(
            transactional_id=self._transactional_id or None,
            acks=self._acks,
            timeout_ms=PRODUCE_MS_MAX,
            topic_data=[TopicProduceData(name=place[0], partition_data=rows)],
        )

    def _record(self, place: Place, one: Outgoing, transaction: str, *, is_overtaken: bool) -> None:
        outcome = Outcome.OK if one.acknowledged else one.attempts.outcome
        for delta, (value, invoked) in enumerate(zip(one.values, one.invoked, strict=True)):
            act = Send(
                value=value,
                place=place,
                acks=self._acks,
                producer=self.identity.name,
                transaction=transaction,
                offset=one.base_offset + delta if one.base_offset >= 0 else -1,
                gap=one.fatal is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not is_overtaken,
            )
            self._client.recorder.end(self._client.name, act, outcome, invoked, one.attempts.error)

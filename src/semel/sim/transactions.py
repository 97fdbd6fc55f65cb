"""Transactional producers: own an id, write to several partitions, commit offsets, end; fenced ones come back.

Two of them may share a transactional id, so that each in turn is the zombie of the other.

Why: version 2 of the protocol only. Under version 1 an EndTxn that comes very late may end the next transaction of the
     same producer epoch; Apache Kafka has that hole too, and no law could hold while messages are delayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from semel.errors import ConnectionFailure
from semel.history import CommitOffset, EndTransaction, Outcome, Own, Place
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from semel.sim.client import COORDINATOR_MOVED, GROUP, HEALED_MS_MAX, OP_MS_MAX, TRANSACTION, Activity, Attempts, Client
from semel.sim.producers import RECORDS_MAX, Values
from semel.sim.sending import FENCED, Identity, Sender

# Short beside a run, so that transactions time out while their owners are cut off.
TRANSACTION_MS_MAX = 10_000
PARTITIONS_MAX = 3
ABORT_CHANCE = 0.2
OFFSETS_CHANCE = 0.4
START_OVER_CHANCE = 0.1
WALK_AWAY_CHANCE = 0.07


class Transactions(Activity):
    """One producer of a transactional id."""

    aim = "commit one more transaction"
    pace_ms = 400

    def __init__(
        self, client: Client, places: Sequence[Place], transactional_id: str, *, take_offset: Callable[[], int]
    ) -> None:
        """`take_offset` gives each transaction of this id a higher offset to commit than the last."""
        super().__init__(client)
        self._places = places
        self._id = transactional_id
        self._take_offset = take_offset
        self._values = Values(client)
        self._sender: Sender | None = None
        self._count = 0

    async def work(self) -> None:
        """One transaction; now and then start over, or walk away in the middle."""
        rng = self.client.rng
        if rng.chance(START_OVER_CHANCE):
            self._sender = None
        await self._transaction(OP_MS_MAX, commit=not rng.chance(ABORT_CHANCE), walks_away=rng.chance(WALK_AWAY_CHANCE))

    async def settle(self) -> bool:
        """One transaction is committed, however often that has to be tried."""
        deadline_ms = self.client.clock.monotonic_ms() + HEALED_MS_MAX
        while (left_ms := deadline_ms - self.client.clock.monotonic_ms()) > 0:
            if await self._transaction(left_ms, commit=True):
                return True
            await self.client.pause(2000)
        return False

    async def _transaction(self, limit_ms: float, *, commit: bool, walks_away: bool = False) -> bool:
        deadline_ms = self.client.clock.monotonic_ms() + limit_ms
        if self._sender is None:
            self._sender = await self._own(deadline_ms)
        if self._sender is None:
            return False
        self._count += 1
        name = f"{self.client.name}/{self._count}"
        fine = await self._write(self._sender, name, deadline_ms)
        # Leaves the transaction open: somebody else, or the timeout, has to end it.
        if walks_away:
            self._sender = None
            return False
        return await self._end(name, deadline_ms, commit=commit and fine) and commit and fine

    async def _own(self, deadline_ms: float) -> Sender | None:
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=TRANSACTION_MS_MAX)
        recorder, invoked, attempts = self.client.recorder, self.client.recorder.begin(), Attempts()
        while self.client.clock.monotonic_ms() < deadline_ms:
            try:
                answer = await self.client.ask_coordinator(TRANSACTION, self._id, request, InitProducerIdResponse, 4)
            except ConnectionFailure as error:
                attempts.failed(error)
            else:
                code = ErrorCode(answer.error_code)
                if code is ErrorCode.NONE:
                    own = Own(
                        transactional_id=self._id,
                        producer_id=answer.producer_id,
                        producer_epoch=answer.producer_epoch,
                    )
                    recorder.end(self.client.name, own, Outcome.OK, invoked)
                    return self._sender_of(answer.producer_id, answer.producer_epoch)
                self._note(code, attempts)
            await self.client.pause()
        recorder.end(self.client.name, Own(transactional_id=self._id), attempts.outcome, invoked, attempts.error)
        return None

    def _sender_of(self, producer_id: int, producer_epoch: int) -> Sender:
        return Sender(self.client, Identity(producer_id, producer_epoch), transactional_id=self._id)

    def _note(self, code: ErrorCode, attempts: Attempts) -> None:
        attempts.refused(code, surely=code in FENCED)
        if code in COORDINATOR_MOVED:
            self.client.forget_coordinator(TRANSACTION, self._id)

    async def _write(self, sender: Sender, name: str, deadline_ms: float) -> bool:
        """Write the transaction's parts; false when one of them did not arrive, so that it must be aborted."""
        rng, clock = self.client.rng, self.client.clock
        for _ in range(rng.integer(1, PARTITIONS_MAX)):
            batches = [self._values.some(rng.integer(1, RECORDS_MAX)) for _ in range(rng.integer(1, 2))]
            # Half of what is left, so that there is time to end it.
            left_ms = max(deadline_ms - clock.monotonic_ms(), 0) / 2
            if await sender.send(rng.choice(self._places), batches, transaction=name, limit_ms=left_ms):
                return False
        return await self._commit_offset(sender, name, deadline_ms) if rng.chance(OFFSETS_CHANCE) else True

    async def _commit_offset(self, sender: Sender, name: str, deadline_ms: float) -> bool:
        act = CommitOffset(group=self._id, place=self._places[0], offset_next=self._take_offset(), transaction=name)
        recorder, invoked, attempts = self.client.recorder, self.client.recorder.begin(), Attempts()
        while self.client.clock.monotonic_ms() < deadline_ms:
            try:
                answer = await self.client.ask_coordinator(
                    GROUP, self._id, self._offset_request(sender, act), TxnOffsetCommitResponse, 5
                )
            except ConnectionFailure as error:
                attempts.failed(error)
            else:
                code = ErrorCode(answer.topics[0].partitions[0].error_code)
                if code is ErrorCode.NONE:
                    done = replace(act, coordinator=self.client.coordinator_of(GROUP, self._id))
                    recorder.end(self.client.name, done, Outcome.OK, invoked)
                    return True
                attempts.refused(code, surely=code in FENCED)
                self.client.forget_coordinator(GROUP, self._id)
                # Only an abort is left, and the caller sees to that.
                if not code.retriable:
                    break
            await self.client.pause()
        recorder.end(self.client.name, act, attempts.outcome, invoked, attempts.error)
        return False

    def _offset_request(self, sender: Sender, act: CommitOffset) -> TxnOffsetCommitRequest:
        row = TxnOffsetCommitRequestPartition(partition_index=act.place[1], committed_offset=act.offset_next)
        return TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=act.group,
            producer_id=sender.identity.producer_id,
            producer_epoch=sender.identity.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name=act.place[0], partitions=[row])],
        )

    async def _end(self, name: str, deadline_ms: float, *, commit: bool) -> bool:
        """Ask until it is answered; whatever the answer is, the next transaction is under another producer epoch."""
        assert self._sender is not None
        identity, self._sender = self._sender.identity, None
        act = EndTransaction(transaction=name, commit=commit)
        recorder, invoked, attempts = self.client.recorder, self.client.recorder.begin(), Attempts()
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            committed=commit,
        )
        while self.client.clock.monotonic_ms() < deadline_ms:
            try:
                answer = await self.client.ask_coordinator(TRANSACTION, self._id, request, EndTxnResponse, 5)
            except ConnectionFailure as error:
                attempts.failed(error)
            else:
                code = ErrorCode(answer.error_code)
                if code is ErrorCode.NONE:
                    recorder.end(self.client.name, act, Outcome.OK, invoked)
                    self._sender = self._sender_of(answer.producer_id, answer.producer_epoch)
                    return True
                # Everything else may come from a coordinator that has written its decision and lost sight of it.
                surely = code in FENCED or code is ErrorCode.INVALID_TXN_STATE
                attempts.refused(code, surely=surely)
                if surely:
                    break
                self.client.forget_coordinator(TRANSACTION, self._id)
            await self.client.pause()
        recorder.end(self.client.name, act, attempts.outcome, invoked, attempts.error)
        return False

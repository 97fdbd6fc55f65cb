"""A producer that begins again while its last transaction is being completed, on three brokers in virtual time.

Keeps: T1, T5: waiting for its turn lets no write into a transaction that is not its producer's own.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from semel.broker.metadata.cluster_state import TRANSACTION_TOPIC
from semel.broker.runtime.intercept import Delay
from semel.broker.transactions.verification import BUSY_MS_MAX
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from semel.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from semel.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from semel.protocol.record_batch import DraftRecord, encode_batch
from tests.unit.broker.replication.replicated import CLIENT, Trio, play

NAME = "tickets"
SPREAD = "spread"
PARTITIONS = 3


@dataclass
class Client:
    """A producer of transaction version 2, which never adds partitions by itself."""

    trio: Trio
    coordinator: int = 0
    producer_id: int = -1
    producer_epoch: int = -1

    async def start(self) -> Client:
        """One topic with a partition led by each broker; a producer id."""
        assignments = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
        controller = self.trio.core.controller
        controller.commit(
            [controller.plan_topic(SPREAD, partitions=3, replication_factor=3, config={}, assignments=assignments)]
        )
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[NAME])
        found = await self.trio.core.brokers[1].answer_link(CLIENT, find, 4)
        assert isinstance(found, FindCoordinatorResponse)
        self.coordinator = found.coordinators[0].node_id
        await self.init()
        return self

    async def init(self) -> None:
        request = InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=60_000)
        told = await self.trio.core.brokers[self.coordinator].answer_link(CLIENT, request, 5)
        assert isinstance(told, InitProducerIdResponse)
        assert told.error_code == ErrorCode.NONE
        self.producer_id, self.producer_epoch = told.producer_id, told.producer_epoch

    async def send(self, index: int) -> ErrorCode:
        """The first batch of this epoch to one partition, sent to the partition's leader."""
        batch = encode_batch(
            [DraftRecord(key=None, value=b"seat", timestamp_ms=self.trio.clock.wall_ms())],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        rows = [PartitionProduceData(index=index, records=memoryview(bytearray(batch)))]
        data = [TopicProduceData(name=SPREAD, partition_data=rows)]
        leader = self.trio.core.state.topics[SPREAD].partitions[index].leader
        sent = await self.trio.core.brokers[leader].answer_link(
            CLIENT, ProduceRequest(transactional_id=NAME, acks=-1, timeout_ms=5_000, topic_data=data), 12
        )
        assert isinstance(sent, ProduceResponse)
        return ErrorCode(sent.responses[0].partition_responses[0].error_code)

    async def send_to_all(self) -> list[ErrorCode]:
        return list(await asyncio.gather(*(self.send(index) for index in range(PARTITIONS))))

    async def send_offsets(self) -> ErrorCode:
        """Commit an offset of a group in the transaction."""
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[NAME])
        found = await self.trio.core.brokers[1].answer_link(CLIENT, find, 4)
        assert isinstance(found, FindCoordinatorResponse)
        request = TxnOffsetCommitRequest(
            transactional_id=NAME,
            group_id=NAME,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=SPREAD,
                    partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
                )
            ],
        )
        told = await self.trio.core.brokers[found.coordinators[0].node_id].answer_link(CLIENT, request, 5)
        assert isinstance(told, TxnOffsetCommitResponse)
        return ErrorCode(told.topics[0].partitions[0].error_code)

    async def commit(self) -> None:
        end = EndTxnRequest(
            transactional_id=NAME,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=True,
        )
        told = await self.trio.core.brokers[self.coordinator].answer_link(CLIENT, end, 5)
        assert isinstance(told, EndTxnResponse)
        assert told.error_code == ErrorCode.NONE
        self.producer_id, self.producer_epoch = told.producer_id, told.producer_epoch


def test_writes_to_several_leaders_at_once_are_all_taken() -> None:
    async def scene(trio: Trio) -> None:
        client = await Client(trio).start()
        for _ in range(3):
            assert await client.send_to_all() == [ErrorCode.NONE] * PARTITIONS
            await client.commit()

    play(scene)


def test_a_write_waits_until_the_last_transaction_is_completed() -> None:
    async def scene(trio: Trio) -> None:
        client = await Client(trio).start()
        assert await client.send_to_all() == [ErrorCode.NONE] * PARTITIONS
        delayed = trio.core.intercept("WriteTxnMarkers", Delay(ms=BUSY_MS_MAX / 2), times=1)
        await client.commit()
        assert await client.send_to_all() == [ErrorCode.NONE] * PARTITIONS
        assert delayed.fired == 1

    play(scene)


def test_markers_go_to_all_leaders_at_once() -> None:
    """One slow leader after another would take longer than a write waits."""

    async def scene(trio: Trio) -> None:
        client = await Client(trio).start()
        assert await client.send_to_all() == [ErrorCode.NONE] * PARTITIONS
        delayed = trio.core.intercept("WriteTxnMarkers", Delay(ms=BUSY_MS_MAX / 2), times=PARTITIONS)
        await client.commit()
        assert await client.send(0) == ErrorCode.NONE
        assert delayed.fired == PARTITIONS

    play(scene)


def test_the_wait_has_a_limit_and_the_refused_write_leaves_nothing() -> None:
    async def scene(trio: Trio) -> None:
        client = await Client(trio).start()
        assert await client.send_to_all() == [ErrorCode.NONE] * PARTITIONS
        trio.core.intercept("WriteTxnMarkers", Delay(ms=5 * BUSY_MS_MAX), times=PARTITIONS)
        await client.commit()
        began_ms = trio.clock.monotonic_ms()
        assert await client.send(0) == ErrorCode.CONCURRENT_TRANSACTIONS
        assert trio.clock.monotonic_ms() - began_ms <= 2 * BUSY_MS_MAX
        await trio.settle(10 * BUSY_MS_MAX)
        log = trio.core.brokers[1].partitions[SPREAD, 0].log
        assert log.last_stable_offset == log.log_end_offset
        assert await client.send(0) == ErrorCode.NONE

    play(scene)


def test_whoever_was_fenced_while_waiting_writes_nothing() -> None:
    async def scene(trio: Trio) -> None:
        client = await Client(trio).start()
        assert await client.send(0) == ErrorCode.NONE
        trio.core.intercept("WriteTxnMarkers", Delay(ms=BUSY_MS_MAX / 2), times=PARTITIONS)
        stale = Client(trio, client.coordinator, client.producer_id, client.producer_epoch)
        await client.commit()
        assert await stale.send(1) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert trio.core.brokers[2].partitions[SPREAD, 1].log.log_end_offset == 0

    play(scene)


def test_offsets_wait_as_records_do() -> None:
    async def scene(trio: Trio) -> None:
        client = await Client(trio).start()
        assert await client.send_offsets() == ErrorCode.NONE
        delayed = trio.core.intercept("WriteTxnMarkers", Delay(ms=BUSY_MS_MAX / 2), times=1)
        await client.commit()
        assert await client.send_offsets() == ErrorCode.NONE
        assert delayed.fired == 1

    play(scene)


def test_a_coordinator_that_is_replaced_meanwhile_is_not_fatal() -> None:
    async def scene(trio: Trio) -> None:
        client = await Client(trio).start()
        assert await client.send_to_all() == [ErrorCode.NONE] * PARTITIONS
        trio.core.intercept("WriteTxnMarkers", Delay(ms=5 * BUSY_MS_MAX), times=PARTITIONS)
        await client.commit()
        waiting = asyncio.ensure_future(client.send(0))
        await trio.settle(BUSY_MS_MAX / 10)
        place = trio.core.state.topics[TRANSACTION_TOPIC].partitions[0]
        trio.core.move_leader(TRANSACTION_TOPIC, 0, next(one for one in place.isr if one != place.leader))
        # All that a producer may be told here is "try again".
        assert await waiting in {ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS}

    play(scene)

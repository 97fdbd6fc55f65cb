"""A coordinator that is replaced while its markers are on their way, in virtual time.

Keeps: T2 the next coordinator finishes what was decided; R9 the one before writes no marker under an epoch that is not
       its own.
"""

from __future__ import annotations

from semel.broker.coordinator.shell import stored_batches
from semel.broker.metadata.cluster_state import TRANSACTION_TOPIC
from semel.broker.runtime.intercept import DropRequest
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
from semel.protocol.record_batch import DraftRecord, Marker, decode_marker, encode_batch
from tests.unit.broker.replication.replicated import CLIENT, KEY, TOPIC, Trio, play

NAME = "tickets"


async def open_transaction(trio: Trio) -> tuple[int, int, int]:
    """Write one record in a transaction; the coordinator, the producer id and its epoch."""
    found = await trio.core.brokers[1].answer_link(
        CLIENT, FindCoordinatorRequest(key_type=1, coordinator_keys=[NAME]), 4
    )
    assert isinstance(found, FindCoordinatorResponse)
    coordinator = found.coordinators[0].node_id
    request = InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=60_000)
    told = await trio.core.brokers[coordinator].answer_link(CLIENT, request, 5)
    assert isinstance(told, InitProducerIdResponse)
    draft = DraftRecord(key=None, value=b"seat", timestamp_ms=trio.clock.wall_ms())
    batch = encode_batch(
        [draft],
        producer_id=told.producer_id,
        producer_epoch=told.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    rows = [PartitionProduceData(index=0, records=memoryview(bytearray(batch)))]
    data = [TopicProduceData(name=TOPIC, partition_data=rows)]
    sent = await trio.leader.answer_link(
        CLIENT, ProduceRequest(transactional_id=NAME, acks=-1, timeout_ms=5_000, topic_data=data), 12
    )
    assert isinstance(sent, ProduceResponse)
    assert sent.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    return coordinator, told.producer_id, told.producer_epoch


def markers(trio: Trio) -> list[tuple[Marker, int]]:
    """Every marker in the leader's log, with the epoch of the coordinator that wrote it."""
    replica = trio.leader.partitions[KEY]
    return [
        decode_marker(data, header, position) for data, position, header in stored_batches(replica) if header.is_control
    ]


def test_the_next_coordinator_writes_the_marker_and_the_one_before_does_not() -> None:
    async def scene(trio: Trio) -> None:
        first, producer_id, producer_epoch = await open_transaction(trio)
        lost = trio.core.intercept("WriteTxnMarkers", DropRequest(), times=None)
        end = EndTxnRequest(
            transactional_id=NAME, producer_id=producer_id, producer_epoch=producer_epoch, committed=True
        )
        answer = await trio.core.brokers[first].answer_link(CLIENT, end, 5)
        assert isinstance(answer, EndTxnResponse)
        assert answer.error_code == ErrorCode.NONE
        await trio.settle(100)
        assert lost.fired > 0
        place = trio.core.state.topics[TRANSACTION_TOPIC].partitions[0]
        second = next(one for one in place.isr if one != first)
        trio.core.move_leader(TRANSACTION_TOPIC, 0, second)
        await trio.settle(100)
        assert markers(trio) == []
        trio.core.intercepts.clear()
        await trio.settle(10_000)
        epoch = trio.core.state.topics[TRANSACTION_TOPIC].partitions[0].leader_epoch
        assert markers(trio) == [(Marker.COMMIT, epoch)]
        log = trio.leader.partitions[KEY].log
        assert log.last_stable_offset == log.log_end_offset

    play(scene)

"""Coordinators on replicated topics, in virtual time: they move with the leader of their partition.

Keeps: G7 a commit that was answered without error is visible after any election; T2 and R9 a coordinator acts only on
       what the next election cannot take back, and writes nothing once another one leads; B3 producer ids are handed
       out once.
"""

from __future__ import annotations

from semel.broker.metadata.cluster_state import GROUP_TOPIC, TRANSACTION_TOPIC, PartitionState
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from semel.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.unit.broker.replication.replicated import CLIENT, SESSION_MS, TOPIC, Trio, play

GROUP = "readers"
INSYNC_2 = {"min.insync.replicas": "2"}


async def find(trio: Trio, key_type: int = 0) -> int:
    """Make the coordinators' topic, wait until every replica is in sync, and give the coordinator."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[GROUP])
    response = await next(iter(trio.core.brokers.values())).answer_link(CLIENT, request, 4)
    assert isinstance(response, FindCoordinatorResponse)
    return response.coordinators[0].node_id


async def commit(trio: Trio, offset: int, *, to: int) -> ErrorCode:
    rows = [OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
    request = OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=rows)])
    response = await trio.core.brokers[to].answer_link(CLIENT, request, 8)
    assert isinstance(response, OffsetCommitResponse)
    return ErrorCode(response.topics[0].partitions[0].error_code)


async def committed(trio: Trio, *, to: int) -> int | ErrorCode:
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)])
    response = await trio.core.brokers[to].answer_link(CLIENT, request, 8)
    assert isinstance(response, OffsetFetchResponse)
    group = response.groups[0]
    return ErrorCode(group.error_code) if group.error_code else group.topics[0].partitions[0].committed_offset


def place(trio: Trio, topic: str = GROUP_TOPIC) -> PartitionState:
    return trio.core.state.topics[topic].partitions[0]


def test_committed_offsets_survive_the_coordinator() -> None:
    async def scene(trio: Trio) -> None:
        first = await find(trio)
        assert len(place(trio).replicas) == 3
        assert await commit(trio, 41, to=first) is ErrorCode.NONE
        trio.core.kill(first)
        second = await find(trio)
        assert second not in (first, -1)
        await trio.settle(100)
        assert await committed(trio, to=second) == 41
        assert await commit(trio, 42, to=second) is ErrorCode.NONE
        await trio.core.restart(first)
        assert await committed(trio, to=first) is ErrorCode.NOT_COORDINATOR
        await trio.until(lambda: len(place(trio).isr) == 3, "all in sync")
        trio.core.move_leader(GROUP_TOPIC, 0, first)
        await trio.settle(100)
        assert await committed(trio, to=first) == 42
        assert await commit(trio, 43, to=second) is ErrorCode.NOT_COORDINATOR

    play(scene)


def test_a_commit_is_answered_only_when_all_in_sync_have_it() -> None:
    async def scene(trio: Trio) -> None:
        coordinator = await find(trio)
        assert await commit(trio, 1, to=coordinator) is ErrorCode.NONE
        trio.isolate(coordinator)
        assert await commit(trio, 2, to=coordinator) is not ErrorCode.NONE
        await trio.until(lambda: place(trio).leader != coordinator, "another coordinator")
        await trio.settle(100)
        assert await committed(trio, to=place(trio).leader) == 1
        trio.core.heal()
        await trio.settle(SESSION_MS)
        assert await committed(trio, to=coordinator) is ErrorCode.NOT_COORDINATOR

    play(scene)


def test_below_the_minimum_the_coordinator_is_not_available() -> None:
    async def scene(trio: Trio) -> None:
        coordinator = await find(trio)
        for other in place(trio).replicas:
            if other != coordinator:
                trio.core.kill(other)
        log = trio.core.brokers[coordinator].partitions[GROUP_TOPIC, 0].log
        before = log.log_end_offset
        assert await commit(trio, 1, to=coordinator) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert log.log_end_offset == before, "what is refused is not written"

    play(scene, config=INSYNC_2)


def test_what_is_not_on_all_replicas_yet_is_not_acted_upon() -> None:
    async def scene(trio: Trio) -> None:
        first = await find(trio)
        assert await commit(trio, 1, to=first) is ErrorCode.NONE
        await trio.settle()
        second, third = (one for one in place(trio).replicas if one != first)
        trio.core.cut(third, first)  # the next record reaches one follower only
        log = trio.core.brokers[second].replicas[GROUP_TOPIC, 0].log
        before = log.log_end_offset
        assert await commit(trio, 2, to=first) is not ErrorCode.NONE
        assert log.log_end_offset > before
        trio.core.cut(third, second)
        trio.core.kill(first)
        assert place(trio).leader == second
        assert await committed(trio, to=second) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await commit(trio, 3, to=second) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        trio.core.heal()
        await trio.settle()
        assert await committed(trio, to=second) == 2

    play(scene, config={"replica.lag.time.max.ms": "60000"})


def test_producer_ids_go_on_when_the_coordinator_moves() -> None:
    async def scene(trio: Trio) -> None:
        first = await find(trio, key_type=1)
        assert len(place(trio, TRANSACTION_TOPIC).replicas) == 3
        assert trio.core.state.topics[TRANSACTION_TOPIC].config["min.insync.replicas"] == "2"
        told = await initialise(trio, to=first)
        trio.core.kill(first)
        second = await find(trio, key_type=1)
        await trio.settle(100)
        again = await initialise(trio, to=second)
        assert again.producer_id == told.producer_id
        assert again.producer_epoch == told.producer_epoch + 1

    play(scene)


def test_without_a_controller_a_producer_is_told_to_come_again() -> None:
    async def scene(trio: Trio) -> None:
        coordinator = await find(trio, key_type=1)
        trio.core.kill_controller()
        refused = await initialise(trio, to=coordinator)
        assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        trio.core.start_controller()
        assert (await initialise(trio, to=coordinator)).error_code == ErrorCode.NONE

    play(scene)


async def initialise(trio: Trio, *, to: int) -> InitProducerIdResponse:
    request = InitProducerIdRequest(transactional_id=GROUP, transaction_timeout_ms=60_000)
    response = await trio.core.brokers[to].answer_link(CLIENT, request, 4)
    assert isinstance(response, InitProducerIdResponse)
    return response

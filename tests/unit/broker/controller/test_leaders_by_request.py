"""What an administrator asks for: elections and moves of partitions, in virtual time (R4, R5)."""

from __future__ import annotations

from semel.broker.metadata.cluster_state import OFFLINE
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from semel.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from semel.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
)
from tests.unit.broker.replication.replicated import CLIENT, TOPIC, Trio, play

PREFERRED, UNCLEAN = 0, 1


async def elect(trio: Trio, election_type: int, *, ask: int) -> ErrorCode:
    rows = [TopicPartitions(topic=TOPIC, partitions=[0])]
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=rows)
    response = await trio.core.brokers[ask].answer_link(CLIENT, request, 2)
    assert isinstance(response, ElectLeadersResponse)
    return ErrorCode(response.replica_election_results[0].partition_result[0].error_code)


async def move(trio: Trio, replicas: list[int] | None, *, may_resize: bool = True, index: int = 0) -> ErrorCode:
    rows = [ReassignableTopic(name=TOPIC, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])]
    request = AlterPartitionReassignmentsRequest(topics=rows, allow_replication_factor_change=may_resize)
    response = await trio.core.brokers[1].answer_link(CLIENT, request, 1)
    assert isinstance(response, AlterPartitionReassignmentsResponse)
    return ErrorCode(response.responses[0].partitions[0].error_code)


async def under_way(trio: Trio, *, name: str | None = None) -> list[OngoingPartitionReassignment]:
    asked = None if name is None else [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 9])]
    response = await trio.core.brokers[1].answer_link(CLIENT, ListPartitionReassignmentsRequest(topics=asked), 0)
    assert isinstance(response, ListPartitionReassignmentsResponse)
    return [row for topic in response.topics for row in topic.partitions]


def test_the_preferred_replica_leads_again_on_request() -> None:
    async def scene(trio: Trio) -> None:
        await trio.core.restart(1)
        assert trio.partition.leader == 2
        assert await elect(trio, PREFERRED, ask=3) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        await trio.all_in_sync()
        assert await elect(trio, PREFERRED, ask=3) is ErrorCode.NONE
        assert trio.partition.leader == 1
        assert await elect(trio, PREFERRED, ask=3) is ErrorCode.ELECTION_NOT_NEEDED
        assert await trio.produce("a") is ErrorCode.NONE

    play(scene)


def test_an_unclean_election_is_held_on_request_where_nobody_leads() -> None:
    async def scene(trio: Trio) -> None:
        assert await elect(trio, UNCLEAN, ask=2) is ErrorCode.ELECTION_NOT_NEEDED
        trio.core.kill(2)
        trio.core.kill(3)
        assert await trio.produce("a") is ErrorCode.NONE
        trio.core.kill(1)
        await trio.core.restart(2)
        assert trio.partition.leader == OFFLINE
        assert await elect(trio, PREFERRED, ask=2) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert await elect(trio, UNCLEAN, ask=2) is ErrorCode.NONE
        assert (trio.partition.leader, trio.partition.isr) == (2, (2,))

    play(scene)


def test_without_a_controller_nothing_is_elected() -> None:
    async def scene(trio: Trio) -> None:
        trio.core.kill_controller()
        assert await elect(trio, PREFERRED, ask=1) is ErrorCode.NOT_CONTROLLER
        trio.core.start_controller()
        trio.core.cut(1, 0)
        assert await elect(trio, PREFERRED, ask=1) is ErrorCode.NOT_CONTROLLER
        assert await elect(trio, PREFERRED, ask=2) is ErrorCode.ELECTION_NOT_NEEDED

    play(scene)


def test_a_move_is_listed_until_the_new_replica_is_in_sync() -> None:
    async def scene(trio: Trio) -> None:
        assert await move(trio, [1, 2]) is ErrorCode.NONE
        assert trio.partition.replicas == (1, 2)
        assert await trio.produce("a") is ErrorCode.NONE
        trio.core.cut(3, 1)
        assert await move(trio, [3, 1]) is ErrorCode.NONE
        listed = await under_way(trio)
        assert [(row.replicas, row.adding_replicas, row.removing_replicas) for row in listed] == [
            ((3, 1, 2), (3,), (2,))
        ]
        assert await under_way(trio, name=TOPIC) == listed
        assert await under_way(trio, name="other") == []
        trio.core.heal()
        await trio.until(lambda: trio.partition.replicas == (3, 1), "the move is done")
        assert await under_way(trio) == []
        assert trio.values(3) == ["a"]

    play(scene)


def test_a_move_can_be_taken_back_once() -> None:
    async def scene(trio: Trio) -> None:
        assert await move(trio, [1]) is ErrorCode.NONE
        trio.core.cut(2, 1)
        assert await move(trio, [2]) is ErrorCode.NONE
        assert await move(trio, None) is ErrorCode.NONE
        assert trio.partition.replicas == (1,)
        assert await move(trio, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

    play(scene)


def test_moves_that_make_no_sense_are_refused() -> None:
    async def scene(trio: Trio) -> None:
        for replicas in ([], [1, 1], [1, 9]):
            assert await move(trio, replicas) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await move(trio, [1], may_resize=False) is ErrorCode.INVALID_REPLICATION_FACTOR
        assert await move(trio, [1], index=7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert trio.partition.replicas == (1, 2, 3)

    play(scene)

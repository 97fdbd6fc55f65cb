"""ElectLeaders (key 43, v0-2): make the preferred replica the leader, or any replica of an offline partition.

Keeps:    R4 the preferred replica leads only if it is in sync; an unclean election is held only where nobody leads.
Differs:  docs/DIFFERENCES.md#k43
Versions: v1 election type; v2 first flexible.
Sources:  KIP-183, KIP-460.
"""

from __future__ import annotations

from semel.broker.controller.controller import Controller
from semel.broker.controller.elections import elected, partition_changed, plan_leader
from semel.broker.metadata.cluster_state import OFFLINE, ClusterState, MetadataRecord, Topic
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.runtime.refused import Refused
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)

PREFERRED = 0
UNCLEAN = 1


def refuse(request: ElectLeadersRequest, code: ErrorCode) -> ElectLeadersResponse:
    """Answer with this error at the top and for every partition."""
    rows = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=code, error_message=None) for index in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code, replica_election_results=rows)


@api(ElectLeadersRequest, ElectLeadersResponse, first=0, last=2, refuse=refuse)
async def answer(context: Context, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Elect leaders, or say why not; null asks for all partitions, and is answered for those that need a leader."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        refused = refuse(request, ErrorCode.INVALID_REQUEST)
        for row in refused.replica_election_results:
            for result in row.partition_result:
                result.error_message = f"Election type {request.election_type} is unknown."
        return refused
    controller = context.broker.controller
    asked = request.topic_partitions
    if asked is None:
        asked = [
            TopicPartitions(topic=topic.name, partitions=range(len(topic.partitions)))
            for topic in controller.state.topics.values()
        ]
    rows = [_topic(controller, topic, request.election_type) for topic in asked]
    if request.topic_partitions is None:
        # Nobody named them, so partitions where nothing was to do are no errors.
        rows = [row for row in map(_without_needless, rows) if row.partition_result]
    return ElectLeadersResponse(replica_election_results=rows)


def _topic(controller: Controller, topic: TopicPartitions, election_type: int) -> ReplicaElectionResult:
    rows = [_elect(controller, topic.topic, index, election_type) for index in topic.partitions]
    return ReplicaElectionResult(topic=topic.topic, partition_result=rows)


def _without_needless(row: ReplicaElectionResult) -> ReplicaElectionResult:
    kept = [result for result in row.partition_result if result.error_code != ErrorCode.ELECTION_NOT_NEEDED]
    return ReplicaElectionResult(topic=row.topic, partition_result=kept)


def _elect(controller: Controller, topic: str, index: int, election_type: int) -> PartitionResult:
    state = controller.state
    known = state.topics.get(topic)
    if known is None:
        return _result(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}")
    if not 0 <= index < len(known.partitions):
        return _result(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}")
    plan = _plan_unclean if election_type == UNCLEAN else _plan_preferred
    try:
        # Each by itself: one that fails must not keep the others from their leaders.
        controller.commit(plan(state, known, index))
    except Refused as refused:
        return _result(index, ErrorCode(refused.code), refused.summary)
    return _result(index, ErrorCode.NONE, None)


def _plan_unclean(state: ClusterState, topic: Topic, index: int) -> list[MetadataRecord]:
    partition = topic.partitions[index]
    # While somebody leads, an unclean election could only lose records.
    if partition.leader != OFFLINE:
        raise Refused(ErrorCode.ELECTION_NOT_NEEDED, "The partition has a leader.")
    chosen = elected(partition, state.is_alive, unclean=True)
    if chosen.leader == OFFLINE:
        raise Refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica is available.")
    return [partition_changed(topic, index, chosen)]


def _plan_preferred(state: ClusterState, topic: Topic, index: int) -> list[MetadataRecord]:
    partition = topic.partitions[index]
    if partition.leader == partition.replicas[0]:
        raise Refused(ErrorCode.ELECTION_NOT_NEEDED, "The preferred replica leads already.")
    planned = plan_leader(state, topic, index, partition.replicas[0])
    if not planned:
        raise Refused(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred replica is not available.")
    return planned


def _result(index: int, code: ErrorCode, message: str | None) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=code, error_message=message)

"""Administration over the wire: partitions, records, leader epochs, producers, folders, the cluster itself."""

from semel.engine.embedded import Cluster
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from semel.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from semel.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from semel.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from semel.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from semel.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from semel.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from semel.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from semel.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.topics import create_topic, produce
from tests.support.wire import Wire

PREFERRED, UNCLEAN = 0, 1


def delete_records(cluster: Cluster, topic: str, offset: int, *, partition: int = 0) -> tuple[int, int]:
    """Return the low watermark and the error code."""
    row = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[row])])
    known = topic in cluster.core.controller.state.topics
    with Wire.to_leader(cluster, topic) if known else Wire.to_broker(cluster) as wire:
        result = wire.ask(request, DeleteRecordsResponse).topics[0].partitions[0]
    return result.low_watermark, result.error_code


def first_offset(cluster: Cluster, topic: str) -> int:
    request = ListOffsetsRequest(
        topics=[ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-2)])]
    )
    with Wire.to_leader(cluster, topic) as wire:
        return wire.ask(request, ListOffsetsResponse, version=7).topics[0].partitions[0].offset


def test_records_are_deleted_up_to_an_offset_and_up_to_the_high_watermark(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)
    produce(cluster, name, 5)
    assert delete_records(cluster, name, 3) == (3, ErrorCode.NONE)
    assert first_offset(cluster, name) == 3
    assert delete_records(cluster, name, 1) == (3, ErrorCode.NONE)
    assert delete_records(cluster, name, -1) == (5, ErrorCode.NONE)
    assert first_offset(cluster, name) == 5


def test_records_that_must_stay_are_not_deleted(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)
    create_topic(cluster, f"{name}.compacted", config={"cleanup.policy": "compact"})
    produce(cluster, name, 2)
    Wire.to_group(cluster, name).close()
    assert delete_records(cluster, name, 3) == (-1, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert delete_records(cluster, name, -2) == (-1, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert delete_records(cluster, name, 0, partition=1) == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert delete_records(cluster, "no-such-topic", 0) == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert delete_records(cluster, f"{name}.compacted", 0) == (-1, ErrorCode.POLICY_VIOLATION)
    assert delete_records(cluster, "__consumer_offsets", 0) == (-1, ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert first_offset(cluster, name) == 0


def test_only_the_leader_deletes_records(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)
    leader = cluster.core.controller.state.topics[name].partitions[0].leader
    topics = [DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])]
    with Wire.to_broker(cluster, leader % 3 + 1) as wire:
        answer = wire.ask(DeleteRecordsRequest(topics=topics), DeleteRecordsResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_end_of_a_leader_epoch_is_told(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)
    produce(cluster, name, 4)

    def end_of(leader_epoch: int, *, current: int = -1, partition: int = 0) -> EpochEndOffset:
        row = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=leader_epoch)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=name, partitions=[row])])
        with Wire.to_leader(cluster, name) as wire:
            return wire.ask(request, OffsetForLeaderEpochResponse).topics[0].partitions[0]

    assert (end_of(0).leader_epoch, end_of(0).end_offset) == (0, 4)
    assert (end_of(7).leader_epoch, end_of(7).end_offset) == (-1, -1)
    assert end_of(0, current=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert end_of(0, partition=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def grow(cluster: Cluster, *topics: CreatePartitionsTopic, validate_only: bool = False) -> list[int]:
    request = CreatePartitionsRequest(topics=topics, validate_only=validate_only)
    with Wire.to_broker(cluster) as wire:
        return [row.error_code for row in wire.ask(request, CreatePartitionsResponse).results]


def test_a_topic_grows_where_it_is_told_to(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)
    where = [CreatePartitionsAssignment(broker_ids=[broker_id]) for broker_id in (3, 2)]
    grown = CreatePartitionsTopic(name=name, count=3, assignments=where)
    assert grow(cluster, grown, validate_only=True) == [ErrorCode.NONE]
    assert len(cluster.core.controller.state.topics[name].partitions) == 1
    assert grow(cluster, grown) == [ErrorCode.NONE]
    places = cluster.core.controller.state.topics[name].partitions
    assert [place.leader for place in places[1:]] == [3, 2]
    produce(cluster, name, 1, partition=2)
    assert grow(cluster, CreatePartitionsTopic(name=name, count=5, assignments=None)) == [ErrorCode.NONE]
    produce(cluster, name, 1, partition=4)


def test_a_growth_that_makes_no_sense_is_refused(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name, partitions=2)
    Wire.to_group(cluster, name).close()
    same = CreatePartitionsTopic(name=name, count=2, assignments=None)
    unknown = CreatePartitionsTopic(name="no-such-topic", count=2, assignments=None)
    internal = CreatePartitionsTopic(name="__consumer_offsets", count=99, assignments=None)
    wrong = CreatePartitionsTopic(name=name, count=3, assignments=[CreatePartitionsAssignment(broker_ids=[9])])
    assert grow(cluster, same, unknown, internal) == [
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PARTITIONS,
    ]
    assert grow(cluster, wrong) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    more = CreatePartitionsTopic(name=name, count=3, assignments=None)
    assert grow(cluster, more, more) == [ErrorCode.INVALID_REQUEST]
    assert len(cluster.core.controller.state.topics[name].partitions) == 2


def test_leaders_that_lead_already_need_no_election(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)

    def elect(election_type: int, topics: list[TopicPartitions] | None) -> ElectLeadersResponse:
        request = ElectLeadersRequest(election_type=election_type, topic_partitions=topics)
        with Wire.to_broker(cluster) as wire:
            return wire.ask(request, ElectLeadersResponse)

    asked = [TopicPartitions(topic=name, partitions=[0, 5]), TopicPartitions(topic="no-such-topic", partitions=[0])]
    codes = [
        [row.error_code for row in topic.partition_result] for topic in elect(PREFERRED, asked).replica_election_results
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [[ErrorCode.ELECTION_NOT_NEEDED, unknown], [unknown]]
    unclean = elect(UNCLEAN, asked[:1]).replica_election_results[0]
    assert unclean.partition_result[0].error_code == ErrorCode.ELECTION_NOT_NEEDED
    assert elect(PREFERRED, None).replica_election_results == []
    assert elect(7, asked).error_code == ErrorCode.INVALID_REQUEST


def test_no_partition_is_on_its_way_elsewhere(cluster: Cluster) -> None:
    with Wire.to_broker(cluster) as wire:
        answer = wire.ask(ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse)
    assert (answer.error_code, answer.topics) == (ErrorCode.NONE, [])


def test_the_size_of_partitions_is_told(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)
    produce(cluster, name, 3)
    asked = [DescribableLogDirTopic(topic=name, partitions=[0, 7])]
    with Wire.to_leader(cluster, name) as wire:
        some = wire.ask(DescribeLogDirsRequest(topics=asked), DescribeLogDirsResponse).results[0]
        every = wire.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, version=1).results[0]
    (row,) = some.topics
    assert [(partition.partition_index, partition.partition_size > 300) for partition in row.partitions] == [(0, True)]
    assert name in {topic.name for topic in every.topics}
    assert every.log_dir.startswith(str(cluster.data))


def test_the_producers_of_a_partition_are_told(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)
    produce(cluster, name, 3, producer_id=77)
    topics = [TopicRequest(name=name, partition_indexes=[0, 1]), TopicRequest(name="bad name", partition_indexes=[0])]
    with Wire.to_leader(cluster, name) as wire:
        answer = wire.ask(DescribeProducersRequest(topics=topics), DescribeProducersResponse)
    here, missing = answer.topics[0].partitions
    (producer,) = here.active_producers
    seen = (producer.producer_id, producer.producer_epoch, producer.last_sequence, producer.current_txn_start_offset)
    assert seen == (77, 0, 2, -1)
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.topics[1].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_cluster_describes_itself(cluster: Cluster) -> None:
    with Wire.to_broker(cluster, 2) as wire:
        answer = wire.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), DescribeClusterResponse)
        controllers = wire.ask(DescribeClusterRequest(endpoint_type=2), DescribeClusterResponse)
        unknown = wire.ask(DescribeClusterRequest(endpoint_type=9), DescribeClusterResponse)
    assert answer.cluster_id == cluster.core.controller.state.cluster_id
    addresses = ",".join(f"{row.host}:{row.port}" for row in answer.brokers)
    assert (addresses, answer.controller_id) == (cluster.bootstrap, 1)
    assert answer.cluster_authorized_operations > 0
    assert controllers.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert unknown.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE

"""Cases about records and topics."""

from __future__ import annotations

from collections.abc import Sequence

from semel.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from semel.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from semel.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from semel.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from semel.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from semel.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from semel.protocol.messages.describe_topic_partitions import TopicRequest as DescribedTopic
from semel.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from semel.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from semel.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from semel.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from semel.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.acls.cases import TOPIC, Case, Place
from tests.differential.acts import batch, new_topic

PRODUCE_IDS, FETCH_IDS, METADATA_IDS, DELETE_BY_ID = 13, 13, 12, 6


def produce(place: Place, names: Sequence[str], version: int) -> ProduceRequest:
    rows = [
        TopicProduceData(
            name="" if version >= PRODUCE_IDS else place.name(name),
            topic_id=place.ids[name] if version >= PRODUCE_IDS else None,
            partition_data=[PartitionProduceData(index=0, records=batch())],
        )
        for name in names
    ]
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=rows)


def produce_in_transaction(place: Place, names: Sequence[str], _version: int) -> ProduceRequest:
    data = batch(producer=place.producer, sequence=0, transactional=True)
    rows = [
        TopicProduceData(name=place.name(name), partition_data=[PartitionProduceData(index=0, records=data)])
        for name in names
    ]
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=rows, transactional_id=place.name("transfers"))


def fetch(place: Place, names: Sequence[str], version: int) -> FetchRequest:
    row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    topics = [
        FetchTopic(
            topic="" if version >= FETCH_IDS else place.name(name),
            topic_id=place.ids[name] if version >= FETCH_IDS else None,
            partitions=[row],
        )
        for name in names
    ]
    return FetchRequest(topics=topics)


def list_offsets(place: Place, names: Sequence[str], _version: int) -> ListOffsetsRequest:
    row = ListOffsetsPartition(partition_index=0, timestamp=-2)
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=place.name(name), partitions=[row]) for name in names]
    )


def delete_records(place: Place, names: Sequence[str], _version: int) -> DeleteRecordsRequest:
    row = DeleteRecordsPartition(partition_index=0, offset=0)
    topics = [DeleteRecordsTopic(name=place.name(name), partitions=[row]) for name in names]
    return DeleteRecordsRequest(topics=topics, timeout_ms=10_000)


def leader_epochs(place: Place, names: Sequence[str], _version: int) -> OffsetForLeaderEpochRequest:
    row = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    return OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=place.name(name), partitions=[row]) for name in names]
    )


def producers(place: Place, names: Sequence[str], _version: int) -> DescribeProducersRequest:
    return DescribeProducersRequest(
        topics=[TopicRequest(name=place.name(name), partition_indexes=[0]) for name in names]
    )


def metadata(place: Place, names: Sequence[str], _version: int) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=place.name(name)) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )


def metadata_of_all(_place: Place, _names: Sequence[str], version: int) -> MetadataRequest:
    return MetadataRequest(topics=None if version else [], include_topic_authorized_operations=True)


def metadata_by_id(place: Place, names: Sequence[str], _version: int) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=None, topic_id=place.ids[name]) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def metadata_on_demand(place: Place, _names: Sequence[str], _version: int) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=place.name("demanded"))])


def topic_partitions(place: Place, names: Sequence[str], _version: int) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(topics=[DescribedTopic(name=place.name(name)) for name in names])


def all_topic_partitions(_place: Place, _names: Sequence[str], _version: int) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest()


def create_topics(place: Place, names: Sequence[str], _version: int) -> CreateTopicsRequest:
    topics = [new_topic(place.name(f"new-{name}")) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=True)


def create_twice(place: Place, _names: Sequence[str], _version: int) -> CreateTopicsRequest:
    topics = [new_topic(place.name("twice")), new_topic(place.name("twice")), new_topic(place.name("new-used"))]
    return CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=True)


def delete_topics(place: Place, names: Sequence[str], version: int) -> DeleteTopicsRequest:
    full = [place.name(f"lost-{name}") for name in names]
    if version < DELETE_BY_ID:
        return DeleteTopicsRequest(topic_names=full, timeout_ms=10_000)
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in full], timeout_ms=10_000)


def delete_nothing(place: Place, _names: Sequence[str], version: int) -> DeleteTopicsRequest:
    name = place.name("nothing")
    if version < DELETE_BY_ID:
        return DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)


def delete_by_id(place: Place, names: Sequence[str], _version: int) -> DeleteTopicsRequest:
    topics = [DeleteTopicState(name=None, topic_id=place.ids[name]) for name in names]
    return DeleteTopicsRequest(topics=topics, timeout_ms=10_000)


def create_partitions(place: Place, names: Sequence[str], _version: int) -> CreatePartitionsRequest:
    topics = [CreatePartitionsTopic(name=place.name(name), count=2, assignments=None) for name in names]
    return CreatePartitionsRequest(topics=topics, timeout_ms=10_000, validate_only=True)


RECORD_CASES = (
    Case(
        name="produce",
        response=ProduceResponse,
        request=produce,
        needs=(("WRITE", "TOPIC", "used"),),
        refused=TOPIC,
        mixed=True,
        mixed_version=PRODUCE_IDS - 1,  # ids are numbered by their order, which means nothing here
    ),
    Case(
        name="produce in a transaction",
        response=ProduceResponse,
        request=produce_in_transaction,
        needs=(("WRITE", "TRANSACTIONAL_ID", "transfers"), ("WRITE", "TOPIC", "used")),
        refused=None,
        versions=range(12, 13),
    ),
    Case(
        name="fetch",
        response=FetchResponse,
        request=fetch,
        needs=(("READ", "TOPIC", "used"),),
        refused=TOPIC,
        mixed=True,
    ),
    Case(
        name="list offsets",
        response=ListOffsetsResponse,
        request=list_offsets,
        needs=(("DESCRIBE", "TOPIC", "used"),),
        refused=TOPIC,
        mixed=True,
    ),
    Case(
        name="delete records",
        response=DeleteRecordsResponse,
        request=delete_records,
        needs=(("DELETE", "TOPIC", "used"),),
        refused=TOPIC,
        mixed=True,
    ),
    Case(
        name="leader epochs",
        response=OffsetForLeaderEpochResponse,
        request=leader_epochs,
        needs=(("DESCRIBE", "TOPIC", "used"),),
        refused=TOPIC,
        mixed=True,
    ),
    Case(
        name="leader epochs of all topics",
        response=OffsetForLeaderEpochResponse,
        request=leader_epochs,
        needs=(("CLUSTER_ACTION",),),
        refused=TOPIC,
    ),
    Case(
        name="describe producers",
        response=DescribeProducersResponse,
        request=producers,
        needs=(("READ", "TOPIC", "used"),),
        refused=TOPIC,
        mixed=True,
    ),
    Case(
        name="metadata",
        response=MetadataResponse,
        request=metadata,
        needs=(("DESCRIBE", "TOPIC", "used"),),
        refused=TOPIC,
        mixed=True,
    ),
    Case(
        name="metadata of a writer",
        response=MetadataResponse,
        request=metadata,
        needs=(("WRITE", "TOPIC", "used"), ("ALTER",)),
        refused=None,
        hiding=(1,),
        versions=range(8, 11),
    ),
    Case(
        name="metadata of all topics",
        response=MetadataResponse,
        request=metadata_of_all,
        needs=(("DESCRIBE", "TOPIC", "used"),),
        refused=None,
        hiding=(0,),
    ),
    Case(
        name="metadata by id",
        response=MetadataResponse,
        request=metadata_by_id,
        needs=(("DESCRIBE", "TOPIC", "used"),),
        refused=TOPIC,
        mixed=True,
        versions=range(METADATA_IDS, 14),
    ),
    Case(
        name="metadata that makes a topic",
        response=MetadataResponse,
        request=metadata_on_demand,
        needs=(("DESCRIBE", "TOPIC", "demanded"), ("CREATE", "TOPIC", "demanded")),
        refused=TOPIC,
        compared_when_allowed=False,
    ),
    Case(
        name="describe topic partitions",
        response=DescribeTopicPartitionsResponse,
        request=topic_partitions,
        needs=(("DESCRIBE", "TOPIC", "used"),),
        refused=TOPIC,
        mixed=True,
    ),
    Case(
        name="describe all topic partitions",
        response=DescribeTopicPartitionsResponse,
        request=all_topic_partitions,
        needs=(("DESCRIBE", "TOPIC", "used"),),
        refused=None,
        hiding=(0,),
    ),
    Case(
        name="create topics",
        response=CreateTopicsResponse,
        request=create_topics,
        needs=(("CREATE", "TOPIC", "new-used"), ("DESCRIBE_CONFIGS", "TOPIC", "new-used")),
        refused=TOPIC,
        hiding=(1,),
        mixed=True,
    ),
    Case(
        name="create any topic",
        response=CreateTopicsResponse,
        request=create_topics,
        needs=(("CREATE",), ("DESCRIBE_CONFIGS", "TOPIC", "new-used")),
        refused=TOPIC,
        hiding=(1,),
    ),
    Case(
        name="create a topic twice",
        response=CreateTopicsResponse,
        request=create_twice,
        needs=(("CREATE",), ("DESCRIBE_CONFIGS", "TOPIC", "new-used")),
        refused=TOPIC,
        hiding=(1,),
    ),
    Case(
        name="delete topics",
        response=DeleteTopicsResponse,
        request=delete_topics,
        needs=(("DELETE", "TOPIC", "lost-used"),),
        refused=TOPIC,
        mixed=True,
    ),
    Case(
        name="delete a topic that is not there",
        response=DeleteTopicsResponse,
        request=delete_nothing,
        needs=(("DESCRIBE", "TOPIC", "nothing"),),
        refused=TOPIC,
    ),
    Case(
        name="delete topics by id without the right",
        response=DeleteTopicsResponse,
        request=delete_by_id,
        needs=(("DESCRIBE", "TOPIC", "used"),),
        refused=None,
        hiding=(0,),
        always_refused=True,
        mixed=True,
        versions=range(DELETE_BY_ID, 7),
    ),
    Case(
        name="create partitions",
        response=CreatePartitionsResponse,
        request=create_partitions,
        needs=(("ALTER", "TOPIC", "used"),),
        refused=TOPIC,
        mixed=True,
    ),
)

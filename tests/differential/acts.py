"""What scripts do again and again: make a topic and wait for it, build a batch, produce, read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from semel.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from semel.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from semel.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from semel.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from semel.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from semel.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from semel.protocol.record_batch import DraftRecord, encode_batch
from tests.differential.talk import MAIN, Talk

TIME_MS = 1_700_000_000_000
NAMES_LAST = 12  # the last version of Produce and Fetch that names topics
PARTITION_BYTES_MAX = 1_000_000


def new_topic(
    topic: str, partitions: int = 1, factor: int = 1, config: Mapping[str, str | None] | None = None
) -> CreatableTopic:
    """A topic as CreateTopics wants it."""
    rows = [CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()]
    return CreatableTopic(name=topic, num_partitions=partitions, replication_factor=factor, configs=rows)


def topic_in_metadata(talk: Talk, topic: str) -> int:
    """How many partitions with a leader the cluster's metadata shows."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    found = talk.peek(request, MetadataResponse).topics[0]
    return sum(1 for row in found.partitions if not row.error_code and not found.error_code)


def make_topic(talk: Talk, text: str, partitions: int = 1, config: Mapping[str, str | None] | None = None) -> str:
    """Create a topic without recording, and wait until it is everywhere."""
    topic = talk.name(text)
    request = CreateTopicsRequest(topics=[new_topic(topic, partitions, config=config)], timeout_ms=10_000)
    answer = talk.peek(request, CreateTopicsResponse).topics[0]
    assert not answer.error_code, answer
    await_partitions(talk, topic, partitions)
    return topic


def await_partitions(talk: Talk, topic: str, partitions: int) -> None:
    """Wait until the metadata shows so many partitions, 0 for a topic that is gone."""
    talk.until(lambda: topic_in_metadata(talk, topic) == partitions, f"{partitions} partitions of {topic}")
    talk.until(lambda: all(_is_led(talk, topic, index) for index in range(partitions)), f"leaders of {topic}")


def _is_led(talk: Talk, topic: str, partition: int) -> bool:
    row = ListOffsetsPartition(partition_index=partition, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[row])])
    return not talk.peek(request, ListOffsetsResponse).topics[0].partitions[0].error_code


def topic_id(talk: Talk, topic: str) -> UUID | None:
    """The id a cluster gave to a topic."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    return talk.peek(request, MetadataResponse).topics[0].topic_id


def records(
    count: int = 1, *, key: bytes | None = b"k", value: bytes | None = b"v", at_ms: int = TIME_MS
) -> list[DraftRecord]:
    """Some records, a millisecond apart."""
    return [DraftRecord(key=key, value=value, timestamp_ms=at_ms + index) for index in range(count)]


def batch(
    count: int = 1,
    *,
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    transactional: bool = False,
    drafts: Sequence[DraftRecord] | None = None,
) -> bytes:
    """One record batch."""
    return encode_batch(
        records(count) if drafts is None else drafts,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        transactional=transactional,
    )


def produce_request(
    topic: str,
    data: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
    id: UUID | None = None,  # noqa: A002
) -> ProduceRequest:
    """A request with one record set."""
    row = PartitionProduceData(index=partition, records=data)
    topics = [TopicProduceData(name=topic, topic_id=id, partition_data=[row])]
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics, transactional_id=transactional_id)


def produce(
    talk: Talk,
    name: str,
    topic: str,
    data: bytes | None,
    *,
    version: int = NAMES_LAST,
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
    on: str = MAIN,
) -> ProduceResponse:
    """Produce and record the answer."""
    request = produce_request(topic, data, partition=partition, acks=acks, transactional_id=transactional_id)
    return talk.ask(name, request, ProduceResponse, version=version, on=on)


def fill(talk: Talk, topic: str, batches: int, *, partition: int = 0, data: bytes | None = None) -> None:
    """Produce without recording."""
    for _ in range(batches):
        request = produce_request(topic, data or batch(), partition=partition)
        answer = talk.peek(request, ProduceResponse, version=NAMES_LAST).responses[0].partition_responses[0]
        assert not answer.error_code, answer


def fetch_request(topic: str, *, offset: int = 0, partition: int = 0, isolation: int = 0) -> FetchRequest:
    """A full fetch of one partition that does not wait."""
    row = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES_MAX)
    return FetchRequest(isolation_level=isolation, topics=[FetchTopic(topic=topic, partitions=[row])])


def fetch(
    talk: Talk, name: str, topic: str, *, offset: int = 0, partition: int = 0, isolation: int = 0
) -> FetchResponse:
    """Fetch one partition and record the answer."""
    request = fetch_request(topic, offset=offset, partition=partition, isolation=isolation)
    return talk.ask(name, request, FetchResponse, version=NAMES_LAST)


def new_producer(talk: Talk) -> tuple[int, int]:
    """An idempotent producer's id and epoch, not recorded."""
    answer = talk.peek(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse)
    assert not answer.error_code, answer
    return answer.producer_id, answer.producer_epoch


def transaction_state(talk: Talk, transactional_id: str) -> str:
    """The state a cluster says a transactional id is in."""
    answer = talk.peek(DescribeTransactionsRequest(transactional_ids=[transactional_id]), DescribeTransactionsResponse)
    return answer.transaction_states[0].transaction_state


def commit_request(
    group: str,
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    member: tuple[str, int] = ("", -1),
    instance: str | None = None,
    metadata: str | None = "m",
    leader_epoch: int = -1,
) -> OffsetCommitRequest:
    """A commit of one offset."""
    row = OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset,
        committed_metadata=metadata,
        committed_leader_epoch=leader_epoch,
    )
    return OffsetCommitRequest(
        group_id=group,
        member_id=member[0],
        generation_id_or_member_epoch=member[1],
        group_instance_id=instance,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[row])],
    )


def offsets_request(
    group: str,
    topic: str,
    partitions: Sequence[int] | None,
    *,
    stable: bool = False,
    member: tuple[str, int] = ("", -1),
) -> OffsetFetchRequest:
    """A fetch of committed offsets, in the forms of old and new versions; None asks for all."""
    old = None if partitions is None else [OffsetFetchRequestTopic(name=topic, partition_indexes=list(partitions))]
    new = None if partitions is None else [OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions))]
    row = OffsetFetchRequestGroup(group_id=group, member_id=member[0] or None, member_epoch=member[1], topics=new)
    return OffsetFetchRequest(group_id=group, topics=old, groups=[row], require_stable=stable)

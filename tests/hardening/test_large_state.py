"""Short requests about much: thousands of partitions, or the same thing thousands of times.

What they need is done in pieces, so that others are served in between, and no answer grows without end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from semel.broker.log.inspection import COMPACTED_RECORDS_MAX
from semel.broker.network.context import ROWS_MAX
from semel.broker.network.registry import apis
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from semel.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from semel.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from semel.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from semel.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from semel.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from semel.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.protocol.record_batch import Codec, DraftRecord, encode_batch
from tests.hardening.raw import RawClient, request_frame
from tests.hardening.requests import MIB, check_served
from tests.hardening.served import BUSY_HOLD_S_MAX, ServedCluster
from tests.support.waiting import eventually

PARTITIONS = 1_000
PEAK_BYTES_MAX = 400 * MIB
TOPIC, BROKER = 2, 4
ALL_DELETED = [DeleteRecordsPartition(partition_index=index, offset=-1) for index in range(PARTITIONS)]


@pytest.fixture(scope="module")
def large() -> Iterator[ServedCluster]:
    """A cluster with a topic of many partitions, all of them open."""
    with ServedCluster(watched=True, auto_create_topics_enable="false") as cluster:
        create(cluster, "large")
        yield cluster


def create(cluster: ServedCluster, topic: str) -> None:
    """Make a topic of many partitions, and wait until all of them can be written."""
    wanted = CreatableTopic(name=topic, num_partitions=PARTITIONS, replication_factor=1)
    ask(cluster, CreateTopicsRequest(topics=[wanted], timeout_ms=30_000))
    eventually(lambda: not any(produced(cluster, topic)))


def produced(cluster: ServedCluster, topic: str) -> list[int]:
    """Write a record to each partition; the errors."""
    batch = encode_batch([DraftRecord(key=b"k", value=b"v", timestamp_ms=1_700_000_000_000)])
    data = [PartitionProduceData(index=index, records=batch) for index in range(PARTITIONS)]
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    answer = ask(cluster, request, version=9)
    return [row.error_code for row in answer.responses[0].partition_responses]  # type: ignore[attr-defined]


def ask(cluster: ServedCluster, request: Message, version: int | None = None) -> Message:
    """Ask while a good client is connected, which is served before and after."""
    api = apis()[request.API_KEY]
    version = api.last if version is None else version
    with RawClient(cluster.bootstrap) as good, RawClient(cluster.bootstrap) as client:
        check_served(good)
        client.send(request_frame(request, version))
        answer = client.read_response(api.response, version)
        check_served(good)
    return answer


def check_holds(cluster: ServedCluster, request: Message, version: int | None = None) -> Message:
    cluster.longest_hold_s()
    answer = ask(cluster, request, version)
    assert cluster.longest_hold_s() < BUSY_HOLD_S_MAX
    assert cluster.peak_bytes() < PEAK_BYTES_MAX
    assert cluster.failures() == []
    return answer


def metadata_of(cluster: ServedCluster, topic: str) -> MetadataResponse:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    answer = ask(cluster, asked)
    assert isinstance(answer, MetadataResponse)
    return answer


@pytest.mark.full
@pytest.mark.parametrize(
    "request_",
    [
        MetadataRequest(topics=None),
        DescribeLogDirsRequest(topics=None),
        DeleteRecordsRequest(
            timeout_ms=30_000,
            topics=[DeleteRecordsTopic(name="large", partitions=ALL_DELETED)],
        ),
    ],
    ids=lambda request: type(request).__name__,
)
def test_what_is_asked_of_every_partition_holds_up_nobody(large: ServedCluster, request_: Message) -> None:
    check_holds(large, request_)


@pytest.mark.full
def test_a_record_for_every_partition_holds_up_nobody(large: ServedCluster) -> None:
    large.longest_hold_s()
    assert not any(produced(large, "large"))
    assert large.longest_hold_s() < BUSY_HOLD_S_MAX


@pytest.mark.full
def test_a_topic_of_many_partitions_is_deleted_and_made_again_and_holds_up_nobody(large: ServedCluster) -> None:
    create(large, "brief")
    for _ in range(2):  # the second time while files of the first are still there
        before = metadata_of(large, "brief").topics[0].topic_id
        large.longest_hold_s()
        ask(large, DeleteTopicsRequest(topics=[DeleteTopicState(name="brief")], timeout_ms=30_000))
        create(large, "brief")
        assert large.longest_hold_s() < BUSY_HOLD_S_MAX
        assert metadata_of(large, "brief").topics[0].topic_id != before
    ask(large, DeleteTopicsRequest(topics=[DeleteTopicState(name="brief")], timeout_ms=30_000))
    assert large.failures() == []


@pytest.mark.full
def test_a_topic_is_described_once_however_many_names_stand_beside_its_id(large: ServedCluster) -> None:
    topic_id = metadata_of(large, "large").topics[0].topic_id
    repeated = [MetadataRequestTopic(name=f"n{number}", topic_id=topic_id) for number in range(5_000)]
    answer = check_holds(large, MetadataRequest(topics=repeated))
    assert isinstance(answer, MetadataResponse)
    assert [(row.name, len(row.partitions)) for row in answer.topics] == [("large", PARTITIONS)]


@pytest.mark.full
@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "quiet"), (BROKER, "1")], ids=["topic", "broker"])
def test_an_answer_does_not_grow_without_end(large: ServedCluster, kind: int, name: str) -> None:
    asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    answer = check_holds(large, DescribeConfigsRequest(resources=[asked] * 9_000, include_synonyms=True))
    assert isinstance(answer, DescribeConfigsResponse)
    assert {row.error_code for row in answer.results} == {ErrorCode.INVALID_REQUEST}


@pytest.mark.full
def test_an_answer_below_the_limit_is_given_whole(large: ServedCluster) -> None:
    asked = DescribeConfigsResource(resource_type=TOPIC, resource_name="quiet", configuration_keys=None)
    answer = check_holds(large, DescribeConfigsRequest(resources=[asked] * 500))
    assert isinstance(answer, DescribeConfigsResponse)
    first = answer.results[0]
    assert first.configs
    assert answer.results == [first] * 500
    assert sum(len(row.configs) for row in answer.results) < ROWS_MAX


@pytest.mark.full
def test_files_of_a_deleted_topic_go_with_the_next_start_if_the_broker_dies_before(tmp_path: Path) -> None:
    with ServedCluster(data=tmp_path, auto_create_topics_enable="false") as cluster:
        create(cluster, "brief")
        ask(cluster, DeleteTopicsRequest(topics=[DeleteTopicState(name="brief")], timeout_ms=30_000))
        cluster.kill()
    with ServedCluster(data=tmp_path, auto_create_topics_enable="false") as cluster:
        assert metadata_of(cluster, "brief").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not list(tmp_path.rglob("brief-*"))
        create(cluster, "brief")


def test_a_coordinator_is_there_at_once_beside_a_topic_whose_partitions_are_being_opened() -> None:
    many = CreatableTopic(name="many", num_partitions=30, replication_factor=1)
    asked = [
        request_frame(CreateTopicsRequest(topics=[many], timeout_ms=30_000), 7),
        request_frame(FindCoordinatorRequest(coordinator_keys=["g"]), 6),
        request_frame(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 9),
    ]
    with ServedCluster(auto_create_topics_enable="false") as cluster, RawClient(cluster.bootstrap) as client:
        client.send(b"".join(asked))
        client.read_response(CreateTopicsResponse, 7)
        assert client.read_response(FindCoordinatorResponse, 6).coordinators[0].error_code == ErrorCode.NONE
        assert client.read_response(OffsetFetchResponse, 9).groups[0].error_code == ErrorCode.NONE


@pytest.mark.full
def test_compaction_of_batches_that_are_as_large_as_can_be_holds_up_nobody(tmp_path: Path) -> None:
    drafts = [
        DraftRecord(key=b"k%d" % number, value=b"v" * 50, timestamp_ms=1_700_000_000_000 + number % 7)
        for number in range(COMPACTED_RECORDS_MAX)
    ]
    batch = encode_batch(drafts, codec=Codec.GZIP)
    asked = ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name="table", partition_data=[PartitionProduceData(index=0, records=batch)])],
    )
    config = [
        CreatableTopicConfig(name=name, value=value)
        for name, value in {
            "cleanup.policy": "compact",
            "segment.bytes": str(MIB),
            "min.cleanable.dirty.ratio": "0",
        }.items()
    ]
    with ServedCluster(watched=True, data=tmp_path, log_cleaner_backoff_ms="100") as cluster:
        wanted = CreatableTopic(name="table", num_partitions=1, replication_factor=1, configs=config)
        ask(cluster, CreateTopicsRequest(topics=[wanted], timeout_ms=30_000))
        cluster.longest_hold_s()
        for _ in range(6):
            answer = ask(cluster, asked, version=9)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE  # type: ignore[attr-defined]
        eventually(lambda: stored_bytes(tmp_path, "table-0") < 4 * len(batch), 120, what="the cleaner has been there")
        assert cluster.longest_hold_s() < BUSY_HOLD_S_MAX
        assert cluster.peak_bytes() < PEAK_BYTES_MAX
        assert cluster.failures() == []


def stored_bytes(data: Path, partition: str) -> int:
    """How large the log of a partition is; compaction may be at work on its files."""
    files = [path for folder in data.rglob(partition) for path in folder.glob("*.log")]
    with suppress(FileNotFoundError):
        return sum(path.stat().st_size for path in files)
    return 1 << 60

"""Offsets that thousands of commits have left go a few at a time, and nobody is held up by that or sees half of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from semel.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from semel.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from semel.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from semel.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from tests.hardening.raw import RawClient
from tests.hardening.served import BUSY_HOLD_S_MAX, ServedCluster
from tests.support.waiting import eventually

PARTITIONS = 1_000
GROUPS = [f"group-{number}" for number in range(60)]
SIZES = [pytest.param(30, GROUPS[:5], id="few"), pytest.param(PARTITIONS, GROUPS, id="many", marks=pytest.mark.full)]


def started(data: Path) -> ServedCluster:
    """A cluster with few coordinators, so that all of them have long work to do at the same time."""
    return ServedCluster(watched=True, data=data, auto_create_topics_enable="false", offsets_topic_num_partitions="10")


def create(client: RawClient, topic: str, partitions: int) -> None:
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
    answer = client.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), CreateTopicsResponse, 7)
    assert [row.error_code for row in answer.topics] == [ErrorCode.NONE]


def delete(client: RawClient, topic: str) -> None:
    asked = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=30_000)
    answer = client.ask(asked, DeleteTopicsResponse, 6)
    assert [row.error_code for row in answer.responses] == [ErrorCode.NONE]


def find_coordinator(client: RawClient) -> None:
    def is_there() -> bool:
        answer = client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse, 6)
        return answer.coordinators[0].error_code == ErrorCode.NONE

    eventually(is_there)


def commit(client: RawClient, group_id: str, topic: str, partitions: int, offset: int) -> set[int]:
    rows = [OffsetCommitRequestPartition(partition_index=index, committed_offset=offset) for index in range(partitions)]
    asked = OffsetCommitRequest(group_id=group_id, topics=[OffsetCommitRequestTopic(name=topic, partitions=rows)])
    answer = client.ask(asked, OffsetCommitResponse, 9)
    return {row.error_code for row in answer.topics[0].partitions}


def commit_all(client: RawClient, group_id: str, topic: str, partitions: int) -> None:
    """Commit each partition, as soon as the coordinator is there."""
    eventually(lambda: commit(client, group_id, topic, partitions, 5) == {ErrorCode.NONE})


def committed(client: RawClient, group_id: str) -> list[tuple[str, int]]:
    """Topic and offset of all that the group has committed."""
    groups = [OffsetFetchRequestGroup(group_id=group_id, topics=None)]
    answer = client.ask(OffsetFetchRequest(groups=groups), OffsetFetchResponse, 9)
    return [(topic.name, row.committed_offset) for topic in answer.groups[0].topics for row in topic.partitions]


def read_by_all(client: RawClient, partitions: int, groups: list[str]) -> None:
    """A topic of many partitions, which many groups have read."""
    create(client, "read", partitions)
    find_coordinator(client)
    for group_id in groups:
        commit_all(client, group_id, "read", partitions)


@pytest.mark.parametrize(("partitions", "groups"), SIZES)
def test_a_topic_that_many_groups_have_read_is_deleted_and_holds_up_nobody(
    tmp_path: Path, partitions: int, groups: list[str]
) -> None:
    with started(tmp_path) as cluster, RawClient(cluster.bootstrap) as client:
        read_by_all(client, partitions, groups)
        cluster.longest_hold_s()
        delete(client, "read")
        create(client, "read", 1)
        assert {tuple(committed(client, group_id)) for group_id in groups} == {()}  # none of them at any time
        assert commit(client, groups[-1], "read", 1, 7) == {ErrorCode.NONE}
        assert cluster.longest_hold_s() < BUSY_HOLD_S_MAX
        assert committed(client, groups[-1]) == [("read", 7)]
        assert committed(client, groups[0]) == []
        assert cluster.failures() == []
    with started(tmp_path) as cluster, RawClient(cluster.bootstrap) as client:
        find_coordinator(client)
        assert committed(client, groups[-1]) == [("read", 7)]
        assert {tuple(committed(client, group_id)) for group_id in groups[:-1]} == {()}


@pytest.mark.full
@pytest.mark.parametrize(("partitions", "groups"), SIZES)
def test_a_crash_in_the_middle_of_it_leaves_no_offset_behind(
    tmp_path: Path, partitions: int, groups: list[str]
) -> None:
    with started(tmp_path) as cluster, RawClient(cluster.bootstrap) as client:
        read_by_all(client, partitions, groups)
        delete(client, "read")
        cluster.kill()
    with started(tmp_path) as cluster, RawClient(cluster.bootstrap) as client:
        find_coordinator(client)
        create(client, "read", 1)
        assert {tuple(committed(client, group_id)) for group_id in groups} == {()}


@pytest.mark.full
def test_a_group_with_many_offsets_is_deleted_whole_and_holds_up_nobody(tmp_path: Path) -> None:
    topics = [f"read-{number}" for number in range(4)]
    with started(tmp_path) as cluster, RawClient(cluster.bootstrap) as client:
        for topic in topics:
            create(client, topic, PARTITIONS)
        find_coordinator(client)
        for topic in topics:
            commit_all(client, "large", topic, PARTITIONS)
        assert len(committed(client, "large")) == 4 * PARTITIONS
        cluster.longest_hold_s()
        answer = client.ask(DeleteGroupsRequest(groups_names=["large"]), DeleteGroupsResponse, 2)
        assert [row.error_code for row in answer.results] == [ErrorCode.NONE]
        assert cluster.longest_hold_s() < BUSY_HOLD_S_MAX
        assert committed(client, "large") == []
        assert cluster.failures() == []

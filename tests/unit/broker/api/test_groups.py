"""Groups over the wire: rebalances, fencing, committed offsets, and what administrators see. Shows G3 to G8."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from semel.broker.replication.partition import Partition
from semel.engine.embedded import Cluster
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from semel.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from semel.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from semel.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from semel.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from semel.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from semel.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from semel.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.groups import Member
from tests.support.topics import create_topic
from tests.support.waiting import eventually
from tests.support.wire import Wire


class Members:
    """Members of one test's group, closed at its end."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.cluster = cluster
        self.group_id = group_id
        self._made: list[Member] = []

    def add(self, *, instance: str | None = None) -> Member:
        member = Member(self.cluster, self.group_id, instance=instance)
        self._made.append(member)
        return member

    def close(self) -> None:
        for member in self._made:
            member.close()


@pytest.fixture
def members(cluster: Cluster, name: str) -> Iterator[Members]:
    made = Members(cluster, name)
    yield made
    made.close()


def describe(cluster: Cluster, group_id: str, *, version: int = 5) -> DescribedGroup:
    with Wire.to_group(cluster, group_id) as wire:
        return wire.ask(DescribeGroupsRequest(groups=[group_id]), DescribeGroupsResponse, version=version).groups[0]


def join_two(members: Members, *, session_ms: int = 60_000) -> tuple[Member, Member]:
    """Make a stable group of two; the first one leads."""
    first, second = members.add(), members.add()
    first.enter()
    second.post_join(session_ms=session_ms)
    eventually(lambda: first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS)
    first.post_join()
    assert {first.receive_join().error_code, second.receive_join().error_code} == {ErrorCode.NONE}
    first.post_sync({first.id: b"one", second.id: b"two"})
    assert (first.receive_sync().assignment, second.sync().assignment) == (b"one", b"two")
    return first, second


def test_two_members_share_one_generation_leader_and_protocol(members: Members) -> None:
    """G3 and G4."""
    first, second = join_two(members)
    assert first.generation == second.generation == 2
    assert first.leader == second.leader == first.id
    assert first.heartbeat() == second.heartbeat() == ErrorCode.NONE


def test_a_member_that_leaves_starts_a_rebalance(members: Members) -> None:
    first, second = join_two(members)
    assert second.leave() == ErrorCode.NONE
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    joined = first.join()
    assert [row.member_id for row in joined.members] == [first.id]
    assert second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_whose_connection_breaks_is_missed_after_its_session(members: Members) -> None:
    """G5: nobody is waited for beyond the session timeout."""
    first, second = join_two(members, session_ms=300)
    second.close()
    eventually(lambda: first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS)
    assert [row.member_id for row in first.join().members] == [first.id]


def test_a_join_whose_connection_breaks_leaves_nothing_behind(members: Members, cluster: Cluster) -> None:
    first, lost = members.add(), members.add()
    first.enter()
    lost.post_join(session_ms=200)
    eventually(lambda: first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS)
    lost.close()
    first.join()
    coordinators = [coordinator for broker in cluster.core.brokers.values() for coordinator in broker.groups.all()]
    eventually(lambda: not any(coordinator._waiting for coordinator in coordinators))


def test_a_join_is_not_waited_for_beyond_the_rebalance_timeout(members: Members) -> None:
    """G5: a member that keeps its session but does not come back is left behind."""
    first, second = members.add(), members.add()
    first.join(rebalance_ms=200)
    first.sync({first.id: b"all"})
    second.post_join(rebalance_ms=200)
    assert second.receive_join().error_code == ErrorCode.NONE
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_restarts_keeps_its_assignment_without_a_rebalance(members: Members) -> None:
    before = members.add(instance="i1")
    before.enter()
    generation = before.generation
    after = members.add(instance="i1")
    joined = after.join()
    assert (joined.error_code, after.generation, joined.skip_assignment) == (ErrorCode.NONE, generation, True)
    assert after.sync().assignment == b"all"
    assert after.id != before.id
    assert before.heartbeat() == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_is_removed_by_its_instance_alone(members: Members) -> None:
    member = members.add(instance="i1")
    member.enter()
    real, member.id = member.id, ""
    assert member.leave() == ErrorCode.NONE
    member.id = real
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_of_an_older_generation_is_refused_and_never_visible(members: Members, name: str) -> None:
    """G6."""
    create_topic(members.cluster, name)
    first, second = join_two(members)
    assert second.commit(name, 5) == ErrorCode.NONE
    second.generation -= 1
    assert second.commit(name, 7) == ErrorCode.ILLEGAL_GENERATION
    second.generation += 1
    second.id = "stranger"
    assert second.commit(name, 7) == ErrorCode.UNKNOWN_MEMBER_ID
    assert first.committed(name) == 5


def test_a_commit_for_a_partition_that_does_not_exist_is_refused(members: Members, name: str) -> None:
    create_topic(members.cluster, name)
    member = members.add()
    member.enter()
    assert member.commit("no-such-topic", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert member.commit(name, 1, partition=1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert member.commit(name, 1, partition=-1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert member.committed(name) == -1


@pytest.mark.parametrize("version", range(2, 10))
def test_every_version_commits_by_name(cluster: Cluster, name: str, version: int) -> None:
    create_topic(cluster, name, partitions=2)
    rows = [OffsetCommitRequestPartition(partition_index=index, committed_offset=10 + index) for index in (0, 1, 2)]
    request = OffsetCommitRequest(
        group_id=name, topics=[OffsetCommitRequestTopic(name=name, partitions=rows)], retention_time_ms=-1
    )
    with Wire.to_group(cluster, name) as wire:
        answer = wire.ask(request, OffsetCommitResponse, version=version)
        found = wire.ask(OffsetFetchRequest(group_id=name, topics=None), OffsetFetchResponse, version=7)
    codes = [row.error_code for row in answer.topics[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [(row.partition_index, row.committed_offset) for row in found.topics[0].partitions] == [(0, 10), (1, 11)]


def test_topic_ids_name_topics_in_the_newest_versions(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)
    known = cluster.core.controller.state.topics[name].id
    unknown = known.__class__(int=1)
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topics = [OffsetCommitRequestTopic(topic_id=topic_id, partitions=[row]) for topic_id in (known, unknown)]
    asked = [OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0]) for topic_id in (known, unknown)]
    groups = [OffsetFetchRequestGroup(group_id=name, topics=wanted) for wanted in (asked, None)]
    with Wire.to_group(cluster, name) as wire:
        answer = wire.ask(OffsetCommitRequest(group_id=name, topics=topics), OffsetCommitResponse, version=10)
        found = wire.ask(OffsetFetchRequest(groups=groups), OffsetFetchResponse, version=10)
    assert [topic.partitions[0].error_code for topic in answer.topics] == [0, ErrorCode.UNKNOWN_TOPIC_ID]
    named = [(t.topic_id, t.partitions[0].committed_offset, t.partitions[0].error_code) for t in found.groups[0].topics]
    assert named == [(known, 3, 0), (unknown, -1, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert [topic.topic_id for topic in found.groups[1].topics] == [known]


@pytest.mark.parametrize("version", range(1, 8))
def test_every_version_reads_one_group(members: Members, name: str, version: int) -> None:
    create_topic(members.cluster, name)
    member = members.add()
    member.enter()
    member.commit(name, 4)
    topics = [OffsetFetchRequestTopic(name=name, partition_indexes=[0, 1])]
    request = OffsetFetchRequest(group_id=name, topics=topics, require_stable=True)
    answer = member.wire.ask(request, OffsetFetchResponse, version=version)
    rows = [(row.committed_offset, row.metadata, row.error_code) for row in answer.topics[0].partitions]
    assert rows == [(4, "m", 0), (-1, "", 0)]


def test_a_broker_that_is_not_the_coordinator_says_so(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)
    with Wire.to_broker(cluster) as wire:
        request = FindCoordinatorRequest(coordinator_keys=[name])
        coordinator = wire.ask(request, FindCoordinatorResponse).coordinators[0].node_id
    with Wire.to_broker(cluster, coordinator % 3 + 1) as wire:
        answer = wire.ask(HeartbeatRequest(group_id=name), HeartbeatResponse)
        fetched = wire.ask(OffsetFetchRequest(group_id=name), OffsetFetchResponse, version=7)
        deleted = wire.ask(DeleteGroupsRequest(groups_names=[name]), DeleteGroupsResponse)
        row = OffsetCommitRequestPartition(partition_index=0)
        topics = [OffsetCommitRequestTopic(name=name, partitions=[row])]
        committed = wire.ask(OffsetCommitRequest(group_id=name, topics=topics), OffsetCommitResponse, version=9)
    codes = {answer.error_code, fetched.error_code, deleted.results[0].error_code}
    assert codes | {committed.topics[0].partitions[0].error_code} == {ErrorCode.NOT_COORDINATOR}


@pytest.mark.parametrize("version", range(6))
def test_every_version_leaves(members: Members, name: str, version: int) -> None:
    member = members.add()
    member.enter()
    request = LeaveGroupRequest(group_id=name, member_id=member.id)
    if version >= 3:
        assert member.leave() == ErrorCode.NONE
    else:
        assert member.wire.ask(request, LeaveGroupResponse, version=version).error_code == ErrorCode.NONE
        again = member.wire.ask(request, LeaveGroupResponse, version=version)
        assert again.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert describe(members.cluster, name).group_state == "Empty"


def test_sync_without_its_protocol_is_refused_from_version_5_on(members: Members, name: str) -> None:
    member = members.add()
    member.join()
    request = SyncGroupRequest(group_id=name, generation_id=member.generation, member_id=member.id)
    refused = member.wire.ask(request, SyncGroupResponse, version=5)
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert member.wire.ask(request, SyncGroupResponse, version=4).error_code == ErrorCode.NONE


def test_a_group_is_described_and_listed(members: Members, name: str) -> None:
    first, second = join_two(members)
    group = describe(members.cluster, name)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    rows = {(row.member_id, row.client_id, row.client_host, row.member_assignment) for row in group.members}
    assert rows == {(first.id, "wire", "/127.0.0.1", b"one"), (second.id, "wire", "/127.0.0.1", b"two")}
    for filters, is_listed in ((["stable"], True), (["Empty"], False), ([], True)):
        answer = first.wire.ask(ListGroupsRequest(states_filter=filters), ListGroupsResponse)
        assert ((name, "Stable", "classic") in {(g.group_id, g.group_state, g.group_type) for g in answer.groups}) is (
            is_listed
        )
    assert not first.wire.ask(ListGroupsRequest(types_filter=["share"]), ListGroupsResponse).groups


def test_a_group_that_does_not_exist_is_dead_and_not_found_from_version_6_on(cluster: Cluster, name: str) -> None:
    old, new = (describe(cluster, name, version=version) for version in (5, 6))
    assert (old.error_code, old.group_state) == (ErrorCode.NONE, "Dead")
    assert (new.error_code, new.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {name} not found.")


def test_only_an_empty_group_is_deleted_with_its_offsets(members: Members, name: str) -> None:
    """G8."""
    create_topic(members.cluster, name)
    member = members.add()
    member.enter()
    member.commit(name, 3)
    request = DeleteGroupsRequest(groups_names=[name, name])
    refused = member.wire.ask(request, DeleteGroupsResponse)
    assert [row.error_code for row in refused.results] == [ErrorCode.NON_EMPTY_GROUP]
    member.leave()
    deleted = member.wire.ask(request, DeleteGroupsResponse)
    assert [row.error_code for row in deleted.results] == [ErrorCode.NONE]
    assert member.committed(name) == -1
    again = member.wire.ask(request, DeleteGroupsResponse)
    assert [row.error_code for row in again.results] == [ErrorCode.GROUP_ID_NOT_FOUND]


def test_offsets_of_partitions_are_deleted_one_by_one(members: Members, name: str) -> None:
    create_topic(members.cluster, name, partitions=2)
    member = members.add()
    member.enter()
    for partition in (0, 1):
        member.commit(name, 9, partition=partition)
    member.leave()
    rows = [OffsetDeleteRequestPartition(partition_index=index) for index in (1, 5)]
    request = OffsetDeleteRequest(group_id=name, topics=[OffsetDeleteRequestTopic(name=name, partitions=rows)])
    answer = member.wire.ask(request, OffsetDeleteResponse)
    assert [row.error_code for row in answer.topics[0].partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [member.committed(name, partition=index) for index in (0, 1)] == [9, -1]


@pytest.mark.parametrize(("group_id", "code"), [("", ErrorCode.INVALID_GROUP_ID), ("x", ErrorCode.GROUP_ID_NOT_FOUND)])
def test_offsets_of_no_group_cannot_be_deleted(cluster: Cluster, group_id: str, code: ErrorCode) -> None:
    with Wire.to_group(cluster, group_id) as wire:
        assert wire.ask(OffsetDeleteRequest(group_id=group_id), OffsetDeleteResponse).error_code == code


def test_commits_survive_a_restart_of_the_cluster(tmp_path: Path) -> None:
    """G7."""
    with Cluster(brokers=2, data=tmp_path, topics=["t:2:1"]) as cluster, closing(Member(cluster, "g")) as member:
        member.enter()
        assert [member.commit("t", 40 + index, partition=index) for index in (0, 1)] == [0, 0]
    with Cluster(brokers=2, data=tmp_path) as cluster, closing(Member(cluster, "g")) as again:
        again.id, again.generation = member.id, member.generation
        assert [again.committed("t", partition=index) for index in (0, 1)] == [40, 41]
        assert again.heartbeat() == ErrorCode.NONE
        assert describe(cluster, "g").group_state == "Stable"


def test_a_commit_that_does_not_become_durable_is_answered_in_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """G5, and G2: a commit is not visible before it is durable."""
    with Cluster(brokers=1, topics=[f"{name}:1:1"], config={"offsets.commit.timeout.ms": "50"}) as cluster:
        blocked = asyncio.Event()

        async def never(partition: Partition, offset_next: int) -> None:
            await blocked.wait()

        with closing(Member(cluster, name)) as member, monkeypatch.context() as patch:
            member.enter()
            patch.setattr(Partition, "acknowledge", never)
            assert member.commit(name, 5) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert member.committed(name) == -1

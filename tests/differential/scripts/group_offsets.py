"""Offsets of groups, the administration of groups, and finding their coordinators."""

from __future__ import annotations

from uuid import UUID

from semel.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from semel.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from semel.protocol.messages.offset_commit import OffsetCommitResponse
from semel.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from semel.protocol.messages.offset_fetch import OffsetFetchResponse
from tests.differential.acts import commit_request, make_topic, offsets_request, topic_id
from tests.differential.scripts.groups import Member
from tests.differential.talk import Talk

NO_SUCH_ID = UUID(int=0x1234_5678)
BY_ID = 10


def offsets(talk: Talk) -> None:
    """Commit, fetch and delete offsets."""
    topic, other = make_topic(talk, "kept", 2), talk.name("no")
    group = talk.name("keeper")
    for version in talk.common(OffsetCommitResponse)[:-1]:
        talk.ask("commit alone", commit_request(group, topic, version), OffsetCommitResponse, version=version)
        talk.ask("commit unknown topic", commit_request(group, other, 1), OffsetCommitResponse, version=version)
    for name, request in (
        ("unknown partition", commit_request(group, topic, 1, partition=9)),
        ("unknown member", commit_request(group, topic, 1, member=("stranger", -1))),
        ("a generation", commit_request(group, topic, 1, member=("", 3))),
        ("member and generation", commit_request(group, topic, 1, member=("stranger", 3))),
        ("into a new group as a member", commit_request(talk.name("new"), topic, 1, member=("stranger", 3))),
        ("no group id", commit_request("", topic, 1)),
        ("long metadata", commit_request(group, topic, 1, metadata="x" * 5000)),
        ("null metadata", commit_request(group, topic, 1, metadata=None)),
        ("below zero", commit_request(group, topic, -1)),
        ("leader epoch", commit_request(group, topic, 9, leader_epoch=4)),
    ):
        talk.ask(f"commit {name}", request, OffsetCommitResponse, version=9)
    for version in talk.common(OffsetFetchResponse)[:-1]:
        talk.ask("fetch one", offsets_request(group, topic, [0, 1, 9]), OffsetFetchResponse, version=version)
        talk.ask("fetch of an unknown topic", offsets_request(group, other, [0]), OffsetFetchResponse, version=version)
        talk.ask("fetch of an unknown group", offsets_request(other, topic, [0]), OffsetFetchResponse, version=version)
        if version >= 2:
            talk.ask("fetch all", offsets_request(group, topic, None), OffsetFetchResponse, version=version)
    talk.ask("fetch stable", offsets_request(group, topic, [0], stable=True), OffsetFetchResponse, version=9)
    talk.ask("fetch: no group id", offsets_request("", topic, [0]), OffsetFetchResponse, version=9)
    for member in (("stranger", -1), ("stranger", 4), ("", 4)):
        asked = offsets_request(group, topic, [0], member=member)
        talk.ask(f"fetch as {member}", asked, OffsetFetchResponse, version=9)
    _by_id(talk, group, topic)
    _removal(talk, group, topic, other)


def _by_id(talk: Talk, group: str, topic: str) -> None:
    for name, asked in (("known", topic_id(talk, topic)), ("unknown", NO_SUCH_ID), ("no", None)):
        commit = commit_request(group, topic, 11)
        commit.topics[0].topic_id = asked
        talk.ask(f"commit by id, {name}", commit, OffsetCommitResponse, version=BY_ID)
        fetch = offsets_request(group, topic, [0, 1])
        (fetch.groups[0].topics or ())[0].topic_id = asked
        talk.ask(f"fetch by id, {name}", fetch, OffsetFetchResponse, version=BY_ID)
    talk.ask("fetch all by id", offsets_request(group, topic, None), OffsetFetchResponse, version=BY_ID)


def _removal(talk: Talk, group: str, topic: str, other: str) -> None:
    rows = [OffsetDeleteRequestPartition(partition_index=at) for at in (0, 9)]
    topics = [OffsetDeleteRequestTopic(name=name, partitions=rows) for name in (topic, other)]
    for name in (group, talk.name("nobody"), ""):
        request = OffsetDeleteRequest(group_id=name, topics=topics)
        talk.ask(f"delete offsets of {name}", request, OffsetDeleteResponse)
    talk.ask("fetch after that", offsets_request(group, topic, [0, 1]), OffsetFetchResponse, version=9)
    member = Member(talk, talk.name("busy"), metadata=_subscription(topic))
    member.join()
    member.sync()
    talk.ask(
        "commit into a busy group from outside", commit_request(member.group, topic, 1), OffsetCommitResponse, version=9
    )
    request = OffsetDeleteRequest(group_id=member.group, topics=topics[:1])
    talk.ask("delete offsets in use", request, OffsetDeleteResponse)
    talk.ask(
        "delete busy and unknown groups", DeleteGroupsRequest(groups_names=[member.group, other]), DeleteGroupsResponse
    )
    member.leave()
    for version in talk.common(DeleteGroupsResponse):
        talk.ask(
            "delete groups",
            DeleteGroupsRequest(groups_names=[member.group, other, ""]),
            DeleteGroupsResponse,
            version=version,
        )
    talk.ask("delete a group twice", DeleteGroupsRequest(groups_names=[group, group]), DeleteGroupsResponse)
    talk.ask("fetch after deletion", offsets_request(group, topic, [0, 1]), OffsetFetchResponse, version=9)


def _subscription(topic: str) -> bytes:
    name = topic.encode()
    return b"\0\0" + (1).to_bytes(4) + len(name).to_bytes(2) + name + b"\xff\xff\xff\xff"


def listing(talk: Talk) -> None:
    """ListGroups with its filters, FindCoordinator with its keys."""
    member = Member(talk, talk.name("listed"))
    member.join()
    member.sync()
    topic = make_topic(talk, "topic")
    talk.ask("commit", commit_request(talk.name("offsets-only"), topic, 1), OffsetCommitResponse, version=9)
    talk.each_version("list", ListGroupsResponse, ListGroupsRequest())
    for states in (["Stable"], ["Empty"], ["stable"], ["Nonsense"], ["Stable", "Empty"]):
        talk.ask(f"list {states}", ListGroupsRequest(states_filter=states), ListGroupsResponse)
    for types in (["classic"], ["consumer"], ["Classic"], ["nonsense"]):
        talk.ask(f"list types {types}", ListGroupsRequest(types_filter=types), ListGroupsResponse)
    for kind in (0, 1, 2, 3, -1):
        for version in talk.common(FindCoordinatorResponse):
            if version or not kind:
                request = FindCoordinatorRequest(key="a", key_type=kind, coordinator_keys=["a", "b"])
                talk.ask(f"coordinator of type {kind}", request, FindCoordinatorResponse, version=version)
    for version in (3, 4):
        request = FindCoordinatorRequest(key="", coordinator_keys=[""])
        talk.ask("coordinator of no group", request, FindCoordinatorResponse, version=version)


SCRIPTS = {"offsets": offsets, "listing": listing}

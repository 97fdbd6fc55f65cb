"""Groups: membership, static members, rebalances, offsets, administration; good ways and every error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from semel.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from semel.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from semel.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from semel.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from semel.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from semel.protocol.messages.offset_commit import OffsetCommitResponse
from semel.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from semel.protocol.messages.offset_fetch import OffsetFetchResponse
from semel.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.differential.acts import commit_request, make_topic, offsets_request
from tests.differential.talk import MAIN, Talk

Changes = Sequence[tuple[str, dict[str, Any]]]
SESSION_MS = 60_000
MEMBER_LIST_FIRST = 3
MEMBER_ID_FIRST = 4


JOINS_NEW: Changes = (
    ("no group id", {"group_id": ""}),
    ("session too short", {"session_timeout_ms": 5}),
    ("session too long", {"session_timeout_ms": 99_999_999}),
    ("unknown member id", {"member_id": "stranger"}),
    ("no protocols", {"protocols": []}),
    ("no protocol type", {"protocol_type": ""}),
    ("static with a member id", {"member_id": "stranger", "group_instance_id": "i"}),
)


JOINS_STABLE: Changes = (
    ("other type", {"member_id": "", "protocol_type": "connect"}),
    ("other protocols", {"member_id": "", "protocols": [JoinGroupRequestProtocol(name="other", metadata=b"")]}),
    ("no protocols", {"member_id": "", "protocols": []}),
    ("unknown member id", {"member_id": "stranger"}),
)


@dataclass(slots=True)
class Member:
    """A member of a group and what it knows."""

    talk: Talk
    group: str
    on: str = MAIN
    instance: str | None = None
    id: str = ""
    generation: int = -1
    metadata: bytes = b"m"

    def request(self, **changes: Any) -> JoinGroupRequest:
        """Its JoinGroup."""
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=self.metadata)],
        )
        for name, value in changes.items():
            setattr(request, name, value)
        return request

    def join(self, name: str = "join", version: int | None = None, **changes: Any) -> JoinGroupResponse:
        """Join, twice where the first time only gives a member id."""
        answer = self.talk.ask(name, self.request(**changes), JoinGroupResponse, version=version, on=self.on)
        if answer.error_code == 79:
            self.id = answer.member_id
            answer = self.talk.ask(
                f"{name} with id", self.request(**changes), JoinGroupResponse, version=version, on=self.on
            )
        if not answer.error_code:
            self.id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self, name: str = "sync", version: int | None = None, **changes: Any) -> SyncGroupResponse:
        """Hand in an assignment of its own."""
        request = self.sync_request(**changes)
        return self.talk.ask(name, request, SyncGroupResponse, version=version, on=self.on)

    def sync_request(self, **changes: Any) -> SyncGroupRequest:
        """Its SyncGroup."""
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=self.id, assignment=b"all")],
        )
        for name, value in changes.items():
            setattr(request, name, value)
        return request

    def beat(self, name: str = "heartbeat", version: int | None = None, **changes: Any) -> None:
        """Say that it lives."""
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.id, group_instance_id=self.instance
        )
        for field, value in changes.items():
            setattr(request, field, value)
        self.talk.ask(name, request, HeartbeatResponse, version=version, on=self.on)

    def leave(self, name: str = "leave", version: int | None = None) -> None:
        """Go."""
        rows = [MemberIdentity(member_id=self.id, group_instance_id=self.instance)]
        request = LeaveGroupRequest(group_id=self.group, member_id=self.id, members=rows)
        self.talk.ask(name, request, LeaveGroupResponse, version=version, on=self.on)


def membership(talk: Talk) -> None:
    """One member comes, works and goes, in every version."""
    topic = make_topic(talk, "work")
    for version in talk.common(JoinGroupResponse):
        member = Member(talk, talk.name(f"solo-{version}"))
        member.join(version=version)
        member.sync(version=min(version, 5))
        member.beat(version=min(version, 4))
        talk.ask(
            "commit",
            commit_request(member.group, topic, 5, member=(member.id, member.generation)),
            OffsetCommitResponse,
            version=min(version + 2, 9),
        )
        talk.ask(
            "describe", DescribeGroupsRequest(groups=[member.group]), DescribeGroupsResponse, version=min(version, 6)
        )
        member.join("join again", version=version)
        member.sync("sync again", version=min(version, 5))
        member.leave(version=min(version, 5))
        talk.ask(
            "describe, empty",
            DescribeGroupsRequest(groups=[member.group]),
            DescribeGroupsResponse,
            version=min(version, 6),
        )
    talk.each_version(
        "describe an unknown group", DescribeGroupsResponse, DescribeGroupsRequest(groups=[talk.name("no")])
    )
    request = DescribeGroupsRequest(groups=[talk.name("no"), ""], include_authorized_operations=True)
    talk.ask("describe with operations", request, DescribeGroupsResponse)


def refusals(talk: Talk) -> None:
    """Every way in which a member is turned away."""
    fresh = Member(talk, talk.name("fresh"))
    for name, changes in JOINS_NEW:
        for version in (3, 9):
            if version < 5 and "group_instance_id" in changes:
                continue
            talk.ask(f"join: {name}", fresh.request(**changes), JoinGroupResponse, version=version)
    member = Member(talk, talk.name("stable"))
    member.join()
    _while(talk, member, "not synced")
    member.sync()
    for name, changes in JOINS_STABLE:
        for version in (3, 9):
            talk.ask(f"join a stable group: {name}", member.request(**changes), JoinGroupResponse, version=version)
    _while(talk, member, "stable")
    member.leave()
    _while(talk, member, "empty")
    member.leave("leave again")
    for version in talk.common(LeaveGroupResponse):
        Member(talk, talk.name("nobody"), id="stranger").leave("leave an unknown group", version)
    rows = [MemberIdentity(member_id="", group_instance_id="x"), MemberIdentity(member_id="y"), MemberIdentity()]
    talk.ask("leave many", LeaveGroupRequest(group_id=member.group, members=rows), LeaveGroupResponse)
    talk.ask("leave: no group id", LeaveGroupRequest(group_id="", members=rows), LeaveGroupResponse)


def _while(talk: Talk, member: Member, state: str) -> None:
    right, far = member.generation, member.generation + 7
    told: Changes = (
        ("", {}),
        ("unknown member", {"member_id": "stranger"}),
        ("no member", {"member_id": ""}),
        ("far generation", {"generation_id": far}),
        ("old generation", {"generation_id": right - 1}),
        ("no generation", {"generation_id": -1}),
        ("unknown group", {"group_id": talk.name("no")}),
        ("no group id", {"group_id": ""}),
        ("unknown instance", {"group_instance_id": "nobody"}),
    )
    for name, changes in told:
        member.beat(f"{state}: heartbeat {name}", **changes)
        if name or state == "empty":
            member.sync(f"{state}: sync {name}", **changes)
    if state == "stable":
        member.sync("stable: sync again")
        member.sync("stable: sync other type", protocol_type="connect")
        member.sync("stable: sync other protocol", protocol_name="other")
        member.sync("stable: sync without protocol", protocol_type=None, protocol_name=None)


def statics(talk: Talk) -> None:
    """Static members: replaced, fenced, removed."""
    group = talk.name("static")
    first = Member(talk, group, instance="one")
    first.join()
    first.sync()
    talk.ask("described", DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse)
    second = Member(talk, group, instance="one")
    second.join("same instance again")
    second.sync("same instance again: sync")
    first.beat("the replaced one beats")
    first.sync("the replaced one syncs")
    talk.ask("the replaced one joins", first.request(), JoinGroupResponse)
    first.leave("the replaced one leaves")
    topic = make_topic(talk, "topic")
    for name, who in (("replaced", first), ("replacing", second)):
        request = commit_request(group, topic, 1, member=(who.id, who.generation), instance="one")
        talk.ask(f"the {name} one commits", request, OffsetCommitResponse, version=9)
    second.beat("the replacing one beats")
    second.beat("beats without instance", group_instance_id=None)
    second.beat("beats with an unknown instance", group_instance_id="two")
    changed = Member(talk, group, instance="one", metadata=b"changed")
    changed.join("comes back with other metadata")
    changed.sync("comes back with other metadata: sync")
    rows = [MemberIdentity(member_id="", group_instance_id="one")]
    for version in (3, 5):
        talk.ask(
            "removed by name", LeaveGroupRequest(group_id=group, members=rows), LeaveGroupResponse, version=version
        )
    talk.ask("described, empty", DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse)


def rebalance(talk: Talk) -> None:
    """A second member comes: what the first hears until it has joined again."""
    group = talk.name("two")
    first, second = Member(talk, group), Member(talk, group, on="second", metadata=b"n")
    first.join()
    first.sync()
    second.id = talk.ask("second without id", second.request(), JoinGroupResponse, on="second").member_id
    talk.post("second joins", second.request(), on="second")
    talk.until(lambda: _state(talk, group) == "PreparingRebalance", "a rebalance")
    topic = make_topic(talk, "topic")
    first.beat("first beats in a rebalance")
    first.sync("first syncs in a rebalance")
    request = commit_request(group, topic, 3, member=(first.id, first.generation))
    talk.ask("first commits in a rebalance", request, OffsetCommitResponse, version=9)
    talk.ask("described in a rebalance", DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse)
    first.join("first joins again")
    second.generation = talk.receive(JoinGroupResponse, on="second").generation_id
    first.beat("first beats before sync")
    request = commit_request(group, topic, 4, member=(first.id, first.generation))
    talk.ask("first commits before sync", request, OffsetCommitResponse, version=9)
    talk.ask("described before sync", DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse)
    talk.post("second syncs", second.sync_request(assignments=[]), on="second")
    rows = [SyncGroupRequestAssignment(member_id=who.id, assignment=who.on.encode()) for who in (first, second)]
    first.sync("first syncs for both", assignments=rows)
    talk.receive(SyncGroupResponse, on="second")
    second.beat("second beats")
    second.leave("second leaves")
    first.beat("first beats after that")
    first.leave("first leaves")


def _state(talk: Talk, group: str) -> str:
    answer = talk.peek(DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse)
    return answer.groups[0].group_state


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
    _removal(talk, group, topic, other)


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


SCRIPTS = {
    "membership": membership,
    "refusals": refusals,
    "statics": statics,
    "rebalance": rebalance,
    "offsets": offsets,
    "listing": listing,
}

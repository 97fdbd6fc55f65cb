"""Groups: membership, static members, rebalances; good ways and every error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from semel.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from semel.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from semel.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from semel.protocol.messages.offset_commit import OffsetCommitResponse
from semel.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.differential.acts import commit_request, make_topic
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

    def heartbeat(self, name: str = "heartbeat", version: int | None = None, **changes: Any) -> None:
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
        member.heartbeat(version=min(version, 4))
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
        member.heartbeat(f"{state}: heartbeat {name}", **changes)
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
    first.heartbeat("the replaced one sends a heartbeat")
    first.sync("the replaced one syncs")
    talk.ask("the replaced one joins", first.request(), JoinGroupResponse)
    first.leave("the replaced one leaves")
    topic = make_topic(talk, "topic")
    for name, who in (("replaced", first), ("replacing", second)):
        request = commit_request(group, topic, 1, member=(who.id, who.generation), instance="one")
        talk.ask(f"the {name} one commits", request, OffsetCommitResponse, version=9)
    second.heartbeat("the replacing one sends a heartbeat")
    second.heartbeat("heartbeat without instance", group_instance_id=None)
    second.heartbeat("heartbeat with an unknown instance", group_instance_id="two")
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
    first.heartbeat("first sends a heartbeat in a rebalance")
    first.sync("first syncs in a rebalance")
    request = commit_request(group, topic, 3, member=(first.id, first.generation))
    talk.ask("first commits in a rebalance", request, OffsetCommitResponse, version=9)
    talk.ask("described in a rebalance", DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse)
    first.join("first joins again")
    second.generation = talk.receive(JoinGroupResponse, on="second").generation_id
    first.heartbeat("first sends a heartbeat before sync")
    request = commit_request(group, topic, 4, member=(first.id, first.generation))
    talk.ask("first commits before sync", request, OffsetCommitResponse, version=9)
    talk.ask("described before sync", DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse)
    talk.post("second syncs", second.sync_request(assignments=[]), on="second")
    rows = [SyncGroupRequestAssignment(member_id=who.id, assignment=who.on.encode()) for who in (first, second)]
    first.sync("first syncs for both", assignments=rows)
    talk.receive(SyncGroupResponse, on="second")
    second.heartbeat("second sends a heartbeat")
    second.leave("second leaves")
    first.heartbeat("first sends a heartbeat after that")
    first.leave("first leaves")


def _state(talk: Talk, group: str) -> str:
    answer = talk.peek(DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse)
    return answer.groups[0].group_state


SCRIPTS = {"membership": membership, "refusals": refusals, "statics": statics, "rebalance": rebalance}

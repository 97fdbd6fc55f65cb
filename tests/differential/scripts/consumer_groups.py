"""Groups of the consumer protocol: heartbeats, moves of partitions, static members, commits; good ways and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from semel.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from semel.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from semel.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from semel.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from semel.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from semel.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.protocol.messages.join_group import JoinGroupResponse
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
from tests.differential.acts import await_partitions, commit_request, make_topic, offsets_request, topic_id
from tests.differential.scripts.groups import Member
from tests.differential.talk import Talk
from tests.differential.transacting import Actor

TIMEOUT_MS = 60_000
LEAVE, LEAVE_STATIC = -1, -2
MEMBER_EPOCH_FIRST = 9
IMPLICIT_ADD_FIRST = 5


@dataclass(slots=True)
class Consumer:
    """A member of a group and what it knows."""

    talk: Talk
    group: str
    id: str
    names: Sequence[str] | None
    regex: str | None = None
    instance: str | None = None
    epoch: int = 0
    owned: Mapping[UUID | None, Sequence[int]] = field(default_factory=dict)

    def request(self, **changes: Any) -> ConsumerGroupHeartbeatRequest:
        """Its heartbeat, with everything in it."""
        rows = [TopicPartitions(topic_id=each, partitions=found) for each, found in self.owned.items()]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.id,
            member_epoch=self.epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=TIMEOUT_MS,
            subscribed_topic_names=self.names,
            subscribed_topic_regex=self.regex,
            topic_partitions=rows if self.epoch > 0 else [],
        )
        for name, value in changes.items():
            setattr(request, name, value)
        return request

    def heartbeat(self, name: str, version: int | None = None, **changes: Any) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat and take over what the answer says."""
        answer = self.say(name, version, **changes)
        if not answer.error_code:
            self._hear(answer)
        return answer

    def say(self, name: str, version: int | None = None, **changes: Any) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat and leave it at that."""
        return self.talk.ask(name, self.request(**changes), ConsumerGroupHeartbeatResponse, version=version)

    def short(self, name: str) -> None:
        """Send a heartbeat without anything that could be left out."""
        self.heartbeat(name, rebalance_timeout_ms=-1, subscribed_topic_names=None, topic_partitions=None)

    def _hear(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        self.id, self.epoch = answer.member_id or self.id, answer.member_epoch
        if answer.assignment is not None:
            self.owned = {row.topic_id: row.partitions for row in answer.assignment.topic_partitions}

    def beat_until(self, count: int) -> None:
        """Send a heartbeat without recording until it has so many partitions."""

        def has_them() -> bool:
            self._hear(self.talk.peek(self.request(), ConsumerGroupHeartbeatResponse))
            return sum(len(found) for found in self.owned.values()) == count

        self.talk.until(has_them, f"{count} partitions for {self.id}")
        assert has_them(), "it has told that it gave up what it had to"


def twin_of(group: str) -> str:
    """Another group with the same Java hash code, hence with the same coordinator partition everywhere."""
    return group[:-2] + chr(ord(group[-2]) + 1) + chr(ord(group[-1]) - 31)


def await_coordinator(talk: Talk, group: str, topic: str, partitions: int) -> None:
    """Wait until the group's coordinator knows the topic: in Apache Kafka it hears of one later than the broker."""
    twin = Consumer(talk, twin_of(group), "twin", [topic])
    twin.beat_until(partitions)
    talk.peek(twin.request(member_epoch=LEAVE), ConsumerGroupHeartbeatResponse)
    talk.peek(DeleteGroupsRequest(groups_names=[twin.group]), DeleteGroupsResponse)


def make_group(talk: Talk, text: str, topic: str, partitions: int) -> str:
    """The name of a group whose coordinator knows the topic."""
    group = talk.name(text)
    await_coordinator(talk, group, topic, partitions)
    return group


def describe(talk: Talk, name: str, group: str) -> None:
    """Describe a group both ways."""
    talk.each_version(name, ConsumerGroupDescribeResponse, ConsumerGroupDescribeRequest(group_ids=[group]))
    for version in (5, 6):
        talk.ask(name, DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse, version=version)


def life(talk: Talk) -> None:
    """One member comes, stays and goes, in every version."""
    topic = make_topic(talk, "life", 4)
    for version in talk.common(ConsumerGroupHeartbeatResponse):
        group = make_group(talk, f"solo-{version}", topic, 4)
        member = Consumer(talk, group, "" if version == 0 else "m1", [topic])
        member.heartbeat("join", version)
        member.say("join again", version, member_epoch=0, topic_partitions=[])
        member.heartbeat("heartbeat", version)
        member.short("nothing new")
        describe(talk, "described", group)
        rows = ListGroupsRequest(types_filter=["Consumer"])
        talk.ask("listed by type", rows, ListGroupsResponse)
        talk.ask("listed by state", ListGroupsRequest(states_filter=["stable"]), ListGroupsResponse)
        talk.ask("delete with members", DeleteGroupsRequest(groups_names=[group]), DeleteGroupsResponse)
        member.say("leave", version, member_epoch=LEAVE)
        member.say("leave again", version, member_epoch=LEAVE)
        member.say("heartbeat after leaving", version)
        describe(talk, "described, empty", group)
        member.epoch = 0
        member.heartbeat("join a second time", version)
        member.say("leave a second time", version, member_epoch=LEAVE)
        talk.ask("delete", DeleteGroupsRequest(groups_names=[group]), DeleteGroupsResponse)
        member.say("heartbeat in a deleted group", version)
        describe(talk, "described, deleted", group)
    talk.ask("describe no group id", ConsumerGroupDescribeRequest(group_ids=[""]), ConsumerGroupDescribeResponse)
    request = ConsumerGroupDescribeRequest(group_ids=[talk.name("no")], include_authorized_operations=True)
    talk.ask("describe with operations", request, ConsumerGroupDescribeResponse)


JOINS: Sequence[tuple[str, dict[str, Any]]] = (
    ("no group id", {"group_id": ""}),
    ("blank group id", {"group_id": "  "}),
    ("no member id", {"member_id": ""}),
    ("empty instance", {"instance_id": ""}),
    ("empty rack", {"rack_id": ""}),
    ("no timeout", {"rebalance_timeout_ms": -1}),
    ("no partitions told", {"topic_partitions": None}),
    ("no topics", {"subscribed_topic_names": None}),
    ("empty topics", {"subscribed_topic_names": []}),
    ("unknown assignor", {"server_assignor": "best"}),
    ("epoch -3", {"member_epoch": -3}),
    ("leaves at once", {"member_epoch": LEAVE}),
    ("leaves for a while", {"member_epoch": LEAVE_STATIC}),
    ("leaves for a while as an instance", {"member_epoch": LEAVE_STATIC, "instance_id": "i"}),
    ("epoch 1", {"member_epoch": 1}),
)
STAYS: Sequence[tuple[str, dict[str, Any]]] = (
    ("greater epoch", {"member_epoch": 9}),
    ("unknown member", {"member_id": "stranger"}),
    ("unknown member leaves", {"member_id": "stranger", "member_epoch": LEAVE}),
    ("unknown instance", {"instance_id": "nobody"}),
    ("unknown instance leaves", {"instance_id": "nobody", "member_epoch": LEAVE_STATIC}),
    ("no member id", {"member_id": ""}),
    ("unknown assignor", {"server_assignor": "best"}),
)


def turned_away(talk: Talk) -> None:
    """Every way in which a heartbeat is refused."""
    topic = make_topic(talk, "away", 2)
    for version in talk.common(ConsumerGroupHeartbeatResponse):
        for name, changes in JOINS:
            fresh = Consumer(talk, talk.name(f"fresh-{version}-{name}"), "m1", [topic])
            fresh.say(f"join: {name}", version, **changes)
        member = Consumer(talk, make_group(talk, f"stay-{version}", topic, 2), "m2", [topic])
        member.heartbeat("join", version)
        for name, changes in STAYS:
            member.say(f"stay: {name}", version, **changes)
    held = [TopicPartitions(topic_id=topic_id(talk, topic), partitions=[0])]
    Consumer(talk, make_group(talk, "held", topic, 2), "m1", [topic]).say("join with partitions", topic_partitions=held)
    Consumer(talk, talk.name("regex"), "m1", None, regex="(").say("join with a bad regular expression")
    Consumer(talk, talk.name("none"), "m1", [talk.name("no")]).heartbeat("join for a topic that is not there")


def moves(talk: Talk) -> None:
    """Two members share a topic: each step of the way, and who may commit at it."""
    topic = make_topic(talk, "moves", 4)
    group = make_group(talk, "two", topic, 4)
    first, second = Consumer(talk, group, "m1", [topic]), Consumer(talk, group, "m2", [topic])
    first.heartbeat("first joins")
    second.heartbeat("second joins")
    describe(talk, "described, second waits", group)
    owned = first.owned
    first.short("first is asked to give up")
    describe(talk, "described, first gives up", group)
    second.short("second still waits")
    keeps, first.owned = first.owned, owned
    first.say("first has not given up")
    first.owned = keeps
    _commits(talk, "while giving up", first, topic)
    first.say("first gave up, its answer is lost")
    first.say("first says it again")
    first.say("first says it again with too much", topic_partitions=_rows(owned))
    first.say("first says it again without partitions", topic_partitions=None)
    first.heartbeat("first goes on")
    second.heartbeat("second takes")
    describe(talk, "described, shared", group)
    for member in (first, second):
        _commits(talk, f"of {member.id}", member, topic)
    first.say("first leaves", member_epoch=LEAVE)
    talk.ask("described, one left", ConsumerGroupDescribeRequest(group_ids=[group]), ConsumerGroupDescribeResponse)
    second.heartbeat("second takes all")
    _commits(talk, "after that", second, topic)
    second.say("old epoch", member_epoch=1)
    _administration(talk, group, topic, second)


def _rows(owned: Mapping[UUID | None, Sequence[int]]) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=each, partitions=found) for each, found in owned.items()]


def _commits(talk: Talk, when: str, member: Consumer, topic: str) -> None:
    """Commits and fetches under epochs around the right one, for partitions that it may have or not."""
    for epoch in range(max(member.epoch - 2, -1), member.epoch + 2):
        step = f"{when}, epoch {epoch - member.epoch:+}"
        for partition in (0, 3):
            request = commit_request(member.group, topic, 5, partition=partition, member=(member.id, epoch))
            talk.ask(f"commit {partition} {step}", request, OffsetCommitResponse, version=MEMBER_EPOCH_FIRST)
        fetch = offsets_request(member.group, topic, [0, 3], member=(member.id, epoch))
        talk.ask(f"fetch {step}", fetch, OffsetFetchResponse, version=MEMBER_EPOCH_FIRST)
    for version in (2, 8):
        request = commit_request(member.group, topic, 5, member=(member.id, member.epoch))
        talk.ask(f"commit {when}, old client", request, OffsetCommitResponse, version=version)
    for name, who in (("stranger", ("stranger", member.epoch)), ("nobody", ("", -1)), ("no epoch", (member.id, -1))):
        request = commit_request(member.group, topic, 5, member=who)
        talk.ask(f"commit {when}, {name}", request, OffsetCommitResponse, version=MEMBER_EPOCH_FIRST)
        fetch = offsets_request(member.group, topic, [0], member=who)
        talk.ask(f"fetch {when}, {name}", fetch, OffsetFetchResponse, version=MEMBER_EPOCH_FIRST)
    talk.ask(f"fetch {when}, old client", offsets_request(member.group, topic, [0]), OffsetFetchResponse, version=7)


def _administration(talk: Talk, group: str, topic: str, member: Consumer) -> None:
    rows = [OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
    delete = OffsetDeleteRequest(group_id=group, topics=rows)
    talk.ask("delete offsets of a topic in use", delete, OffsetDeleteResponse)
    gone = [MemberIdentity(member_id=each) for each in ("stranger", member.id)]
    talk.ask("remove members", LeaveGroupRequest(group_id=group, members=gone), LeaveGroupResponse)
    member.say("the removed one sends a heartbeat")
    talk.ask("delete offsets of an empty group", delete, OffsetDeleteResponse)
    request = commit_request(group, topic, 7, member=("", -1))
    talk.ask("commit into an empty group", request, OffsetCommitResponse, version=MEMBER_EPOCH_FIRST)


def crowd(talk: Talk) -> None:
    """More members come while one gives up: it must give up more before its epoch moves."""
    topic = make_topic(talk, "crowd", 4)
    group = make_group(talk, "crowd", topic, 4)
    first = Consumer(talk, group, "m1", [topic])
    first.heartbeat("first joins")
    others = [Consumer(talk, group, f"m{number}", [topic]) for number in (2, 3, 4)]
    others[0].heartbeat("second joins")
    first.heartbeat("first must give up two")
    for number, member in enumerate(others[1:], 3):
        member.heartbeat(f"{number} joins")
    first.heartbeat("first gave up, and must again")
    describe(talk, "described, giving up twice", group)
    first.heartbeat("first gave up all")
    for number, member in enumerate(others, 2):
        member.heartbeat(f"{number} takes")
    describe(talk, "described, all have one", group)


def instances(talk: Talk) -> None:
    """Static members: away for a while, replaced, fenced, gone."""
    topic = make_topic(talk, "instances", 2)
    group = make_group(talk, "static", topic, 2)
    first = Consumer(talk, group, "m1", [topic], instance="one")
    first.heartbeat("first joins")
    second = Consumer(talk, group, "m2", [topic], instance="one")
    second.say("second may not take its place")
    first.say("first goes for a while", member_epoch=LEAVE_STATIC)
    describe(talk, "described, away", group)
    first.say("first sends a heartbeat though it went")
    request = commit_request(group, topic, 5, member=("m1", first.epoch))
    talk.ask("first commits though it went", request, OffsetCommitResponse, version=MEMBER_EPOCH_FIRST)
    second.heartbeat("second takes its place")
    describe(talk, "described, replaced", group)
    first.say("the replaced one sends a heartbeat")
    first.say("the replaced one goes for a while", member_epoch=LEAVE_STATIC)
    first.say("the replaced one goes", member_epoch=LEAVE)
    first.say("the replaced one sends a heartbeat without instance", instance_id=None)
    talk.ask("the replaced one commits", request, OffsetCommitResponse, version=MEMBER_EPOCH_FIRST)
    second.say("second sends a heartbeat without instance", instance_id=None)
    second.say("second goes for a while", member_epoch=LEAVE_STATIC)
    second.epoch = 0
    second.heartbeat("second comes back under its own id")
    rows = [MemberIdentity(member_id="", group_instance_id=each) for each in ("two", "one")]
    talk.ask("removed by name", LeaveGroupRequest(group_id=group, members=rows), LeaveGroupResponse)
    third = Consumer(talk, group, "m3", [topic], instance="one")
    third.heartbeat("third joins")
    third.say("third goes for good", member_epoch=LEAVE)
    describe(talk, "described, gone", group)


def subscriptions(talk: Talk) -> None:
    """Other topics, more partitions, another assignor, regular expressions."""
    topic, other = make_topic(talk, "more-a", 2), make_topic(talk, "more-b", 1)
    group = make_group(talk, "changing", topic, 2)
    await_coordinator(talk, group, other, 1)
    member = Consumer(talk, group, "m1", [topic])
    member.heartbeat("joins")
    member.names = [topic, other]
    member.say("reads another topic", subscribed_topic_names=[other])
    member.names = [other]
    member.beat_until(1)
    describe(talk, "described, other topic", group)
    member.heartbeat("asks for another assignor", server_assignor="range")
    describe(talk, "described, other assignor", group)
    rows = [CreatePartitionsTopic(name=other, count=3, assignments=None)]
    talk.ask("grow", CreatePartitionsRequest(topics=rows, timeout_ms=10_000), CreatePartitionsResponse)
    await_partitions(talk, other, 3)
    member.beat_until(3)
    describe(talk, "described, grown", group)
    found = Consumer(talk, make_group(talk, "regex", other, 3), "m1", None, regex=f"{talk.name('more')}-.")
    found.beat_until(5)
    describe(talk, "regex described", found.group)
    found.regex = f"{talk.name('more')}-a"
    found.beat_until(2)
    describe(talk, "regex described, changed", found.group)


def conversions(talk: Talk) -> None:
    """Empty groups change their protocol, others do not."""
    topic = make_topic(talk, "convert", 2)
    group = make_group(talk, "convert", topic, 2)
    talk.ask("commit alone", commit_request(group, topic, 3), OffsetCommitResponse, version=9)
    classic = Member(talk, group)
    classic.join()
    classic.sync()
    member = Consumer(talk, group, "m1", [topic])
    member.say("joins a classic group with members")
    member.say("a heartbeat in a classic group", member_epoch=3)
    member.say("leaves a classic group", member_epoch=LEAVE)
    talk.ask("described, classic", ConsumerGroupDescribeRequest(group_ids=[group]), ConsumerGroupDescribeResponse)
    classic.leave()
    member.say("a heartbeat in an empty classic group", member_epoch=3)
    member.heartbeat("joins an empty classic group")
    describe(talk, "described, converted", group)
    talk.ask("fetch after conversion", offsets_request(group, topic, [0]), OffsetFetchResponse, version=9)
    talk.ask("a classic member joins", Member(talk, group).request(), JoinGroupResponse)
    request = HeartbeatRequest(group_id=group, generation_id=1, member_id="m1")
    talk.ask("a classic heartbeat", request, HeartbeatResponse)
    classic.sync("a classic sync")
    member.say("leaves", member_epoch=LEAVE)
    back = Member(talk, group)
    back.join("a classic member joins the empty group")
    back.sync("and syncs")
    describe(talk, "described, converted back", group)
    talk.ask("fetch after both", offsets_request(group, topic, [0]), OffsetFetchResponse, version=9)
    member.say("a heartbeat in what is classic again")
    back.leave()


def transactional(talk: Talk) -> None:
    """TxnOffsetCommit names a member: the right one, a stale one, a stranger, nobody."""
    topic = make_topic(talk, "txn", 1)
    group = make_group(talk, "txn", topic, 1)
    member = Consumer(talk, group, "m1", [topic])
    member.heartbeat("joins")
    actor = Actor(talk, talk.name("txn"), topic, group)
    for version in (3, 5):
        for name, who in (
            ("right", ("m1", 1)),
            ("stale", ("m1", 0)),
            ("ahead", ("m1", 2)),
            ("stranger", ("stranger", 1)),
            ("no epoch", ("m1", -1)),
            ("nobody", ("", -1)),
        ):
            actor.start()
            if version < IMPLICIT_ADD_FIRST:
                actor.add_offsets(f"{name}: add offsets", version)
            actor.commit_offsets(f"{name}: commit offsets", version, who)
            actor.end(f"{name}: end", version, commit=name != "nobody")
            talk.ask(f"{name}: fetch", offsets_request(group, topic, [0]), OffsetFetchResponse, version=9)


SCRIPTS = {
    "consumer-life": life,
    "consumer-turned-away": turned_away,
    "consumer-moves": moves,
    "consumer-crowd": crowd,
    "consumer-instances": instances,
    "consumer-subscriptions": subscriptions,
    "consumer-conversions": conversions,
    "consumer-transactional": transactional,
}

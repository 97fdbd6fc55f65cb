"""One classic group: its members, leader, generation and chosen protocol.

Holds facts and the rules that need nothing but them. `membership` and `rebalance` decide who is answered when, and what
is written; a waiting request is remembered here only by its token.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Self

from semel.broker.groups.classic.member import Member
from semel.broker.groups.classic.types import DescribedGroup, GroupState, JoinedMember, Protocol
from semel.broker.groups.records import GroupValue, decode_subscribed_topics
from semel.broker.groups.types import CONSUMER_PROTOCOL_TYPE
from semel.protocol.error_codes import ErrorCode

_PREVIOUS_STATES = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE, GroupState.DEAD},
    GroupState.PREPARING_REBALANCE: {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY},
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.DEAD: {GroupState.EMPTY},
}


@dataclass(slots=True, kw_only=True)
class Group:
    """One group; its members are kept in the order in which they joined."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.DEAD
    state_timestamp_ms: int = -1
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)  # group instance id -> member id
    pending_join: set[str] = field(default_factory=set)  # got a member id, have not joined with it yet
    pending_sync: set[str] = field(default_factory=set)  # got a JoinGroup answer, have not synced yet
    subscribed_topics: frozenset[str] | None = None
    stored_generation: int = -1  # the newest one whose assignment was sent to the log; a second would contradict it
    new_member_added: bool = False
    initial_delay_left_ms: int | None = None  # set while the first join phase is held open for more members

    @classmethod
    def loaded(cls, group_id: str, value: GroupValue) -> Self:
        """Rebuild a group from its newest record."""
        group = cls(
            group_id=group_id,
            # Only whole generations are written: members that were joining or syncing have to begin again.
            state=GroupState.STABLE if value.members else GroupState.EMPTY,
            state_timestamp_ms=value.state_timestamp_ms,
            generation=value.generation,
            protocol_type=value.protocol_type or None,
            protocol_name=value.protocol_name,
            leader=value.leader,
        )
        for stored in value.members:
            group.add(Member.loaded(stored, value.protocol_name))
        group.subscribed_topics = group.find_subscribed_topics()
        return group

    def transition(self, state: GroupState, now_ms: int) -> None:
        """Move to another state; only the moves of the protocol are possible."""
        assert self.state in _PREVIOUS_STATES[state], f"group {self.group_id!r}: {self.state} to {state}"
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    def add(self, member: Member) -> None:
        """Add a member; the first one leads."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        self.members[member.member_id] = member
        self.pending_join.discard(member.member_id)
        # The leader stays for as long as it is a member, as in Apache Kafka.
        self.leader = self.leader or member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending one; the next in line leads."""
        member = self.members.pop(member_id, None)
        if member is not None and member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace_static(self, member: Member, member_id: str) -> None:
        """Give a static member its new member id, in its old place; the old one is fenced from now on."""
        assert member.group_instance_id is not None
        old_id, member.member_id = member.member_id, member_id
        # In the same order, by which the next leader is chosen.
        self.members = {m.member_id: m for m in self.members.values()}
        self.static_members[member.group_instance_id] = member_id
        self.pending_sync.discard(old_id)
        if self.leader == old_id:
            self.leader = member_id

    def error_for_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Check that the caller is a current member."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def joined_count(self) -> int:
        """Count the members that wait for the join phase to end."""
        return sum(member.join_token is not None for member in self.members.values())

    def has_all_joined(self) -> bool:
        """Say whether the join phase has nobody left to wait for."""
        return not self.pending_join and all(member.join_token is not None for member in self.members.values())

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it joined, else take the first that did; False when nobody did."""
        leader = self.members.get(self.leader or "")
        if leader is None or leader.join_token is None:
            joined = (member.member_id for member in self.members.values() if member.join_token is not None)
            self.leader = next(joined, self.leader)
        return any(member.join_token is not None for member in self.members.values())

    def rebalance_timeout_ms(self) -> int:
        """Wait for the most patient member; never 0, so that a deadline always lies ahead."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=1) or 1

    def common_protocols(self) -> set[str]:
        """Protocols that every member knows."""
        known = [{protocol.name for protocol in member.protocols} for member in self.members.values()]
        return set.intersection(*known) if known else set()

    def supports(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        """Say whether a member with these protocols fits in."""
        if self.state is GroupState.EMPTY:
            # The first member decides on the protocol type, so anything that names one fits.
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type:
            return False
        names = {protocol.name for protocol in protocols}
        return bool(names & self.common_protocols()) if self.members else bool(names)

    def select_protocol(self) -> str:
        """Let each member vote for its first choice among the common ones; ties go to the earliest vote."""
        common = self.common_protocols()
        # A Counter keeps the order in which names came, so a tie goes to the earliest vote, in every run.
        votes = Counter(
            next(protocol.name for protocol in member.protocols if protocol.name in common)
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def start_generation(self, now_ms: int) -> None:
        """End the join phase: a new generation with its protocol, or an empty one."""
        # An int32 in the protocol. -1 means "no generation", so it starts again at 0.
        self.generation = self.generation + 1 if self.generation < 2**31 - 1 else 0
        self.pending_sync.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.find_subscribed_topics()
        self.transition(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)

    def find_subscribed_topics(self) -> frozenset[str] | None:
        """Topics of all members together; None when that cannot be known."""
        # Only consumers' metadata has a form that is known here; Kafka Connect, for one, has its own.
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            subscribed = decode_subscribed_topics(member.metadata(self.protocol_name))
            if subscribed is None:
                return None
            topics |= subscribed
        return frozenset(topics)

    def is_subscribed(self, topic: str) -> bool:
        """Say whether members read this topic; when in doubt, a consumer group does."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Members as the leader learns of them."""
        return tuple(
            JoinedMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        )

    def stored(self, assignments: dict[str, bytes]) -> GroupValue:
        """Give the form in which this generation is written."""
        members = self.members.values()
        return GroupValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol_name=self.protocol_name,
            leader=self.leader,
            state_timestamp_ms=self.state_timestamp_ms,
            members=tuple(m.stored(self.protocol_name, assignments.get(m.member_id, b"")) for m in members),
        )

    def described(self) -> DescribedGroup:
        """Give the form in which it is described."""
        # Metadata and assignments are shown only while they are in force.
        protocol_name = self.protocol_name if self.state is GroupState.STABLE else None
        return DescribedGroup(
            group_id=self.group_id,
            state=self.state,
            protocol_type=self.protocol_type or "",
            protocol_name=protocol_name or "",
            members=tuple(member.described(protocol_name) for member in self.members.values()),
        )

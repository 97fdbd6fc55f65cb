"""One group of the consumer protocol, as an immutable value: members, their partitions, and where they should go.

Why: every change is a record that `changes` applies to it, while a group runs and while it is loaded. So a restart
     finds what clients were answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from semel.broker.groups.consumer.types import (
    NO_REBALANCE_TIMEOUT,
    ConsumerGroupState,
    Held,
    MemberState,
    TopicIdPartition,
)
from semel.broker.metadata.cluster_state import ClusterState

NO_EPOCH = -1
NO_TARGET: frozenset[TopicIdPartition] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """One member: what it says of itself, and which partitions it has, `assigned` to use and `revoking` to give up."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = NO_REBALANCE_TIMEOUT
    server_assignor: str | None = None
    subscribed_names: frozenset[str] = frozenset()
    subscribed_regex: str | None = None
    epoch: int = 0
    previous_epoch: int = NO_EPOCH  # the answer with the newest one may have been lost
    state: MemberState = MemberState.STABLE
    assigned: Held = field(default_factory=dict)
    revoking: Held = field(default_factory=dict)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Say whether it has what this target gives it."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def epoch_of(self, partition: TopicIdPartition) -> int | None:
        """Find the epoch at which it got a partition that it still has."""
        # What it is giving up counts too: until it says that it has, its commits for it are still right.
        return self.assigned.get(partition, self.revoking.get(partition))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRegex:
    """The topics that a regular expression meant when it was looked up."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup:
    """One group. `epoch` rises when a new assignment is needed; `targets` were made for `target_epoch`."""

    group_id: str
    # A group begins at 1 and its targets at 0: the first assignment is due.
    epoch: int = 1
    metadata_hash: int = 0
    target_epoch: int = 0
    target_timestamp_ms: int = 0
    members: Mapping[str, ConsumerMember] = field(default_factory=dict)
    targets: Mapping[str, frozenset[TopicIdPartition]] = field(default_factory=dict)
    regexes: Mapping[str, ResolvedRegex] = field(default_factory=dict)

    def state(self) -> ConsumerGroupState:
        """The state that Kafka's tools print."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        is_reconciled = all(member.is_reconciled_to(self.target_epoch) for member in self.members.values())
        return ConsumerGroupState.STABLE if is_reconciled else ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """Find the member that stands for a group instance."""
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Every topic that a member asked for, by name or by regular expression."""
        resolved = self.regexes.get(member.subscribed_regex) if member.subscribed_regex else None
        return member.subscribed_names | resolved.topics if resolved else member.subscribed_names

    def subscribed_topics(self) -> frozenset[str]:
        """Every topic that some member asked for."""
        return frozenset().union(*(self.topics_of(member) for member in self.members.values()))

    def is_subscribed(self, topic: str) -> bool:
        """Say whether members read this topic."""
        return any(topic in self.topics_of(member) for member in self.members.values())

    def regexes_in_use(self) -> frozenset[str]:
        """Every regular expression that some member asked for."""
        return frozenset(member.subscribed_regex for member in self.members.values() if member.subscribed_regex)

    def held_by_others(self, member_id: str) -> set[TopicIdPartition]:
        """Partitions that other members have, or have not said to have given up."""
        # Also of a static member that is away for a while: its partitions wait for it (KIP-345).
        others = (member for member in self.members.values() if member.member_id != member_id)
        return {partition for member in others for held in (member.assigned, member.revoking) for partition in held}

    def target_of(self, member_id: str) -> frozenset[TopicIdPartition]:
        """Where the member should get to."""
        return self.targets.get(member_id, NO_TARGET)

    def assignor(self, default: str) -> str:
        """The assignor that most members ask for; ties go to the first by name."""
        votes = Counter(member.server_assignor for member in self.members.values() if member.server_assignor)
        # By name in a tie, so that every coordinator comes to the same result.
        return min(votes, key=lambda name: (-votes[name], name)) if votes else default


def metadata_hash(topics: frozenset[str], cluster: ClusterState) -> int:
    """A number that changes when a subscribed topic comes, goes, is made again or grows; 0 when there is none."""
    known = sorted((name, cluster.topics[name]) for name in topics if name in cluster.topics)
    if not known:
        return 0
    # Stored as Kafka's int64 field. Only equality counts, so it need not be Kafka's hash.
    digest = blake2b(digest_size=8)
    for name, topic in known:
        digest.update(f"{name}\0{topic.id}\0{len(topic.partitions)}\0".encode())
    return int.from_bytes(digest.digest(), signed=True)

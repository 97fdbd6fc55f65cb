"""How a group of the consumer protocol changes: by records, and by nothing else.

`apply_record` is the group after one more record. A `Draft` collects the records of one request, each step seeing what
the steps before it wrote. A `GroupEntry` holds the group twice: as all its records make it, by which requests are
judged, so that two in a row do not take each other's place; and as the durable ones do, which descriptions show.

Keeps: G2 what depends on a record is done only when that record is durable; G9 a group is a function of its records:
       the running one and the one loaded after a restart are the same.
Why:   an append can fail while later ones are on their way. The group then is what the durable records and those
       still on their way make of it, which is also what a restart would find.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from semel.broker.groups.consumer.records import (
    ConsumerRecord,
    CurrentValue,
    GroupValue,
    Kind,
    MemberValue,
    RegexValue,
    TargetEpochValue,
    TargetValue,
    Value,
    read_held,
    read_target,
)
from semel.broker.groups.consumer.state import NO_EPOCH, ConsumerGroup, ConsumerMember, ResolvedRegex, metadata_hash
from semel.broker.groups.consumer.types import MemberState
from semel.broker.metadata.cluster_state import ClusterState

Records = tuple[ConsumerRecord, ...]
NEVER = -1


class GroupEntry:
    """The group of one group id, with and without the records on their way; None where there is no group."""

    def __init__(self) -> None:
        """Start with no group."""
        self.current: ConsumerGroup | None = None
        self.durable: ConsumerGroup | None = None
        self.checked_version = NEVER  # the cluster's state that the group was last compared with
        self._on_their_way: list[Records] = []

    @property
    def is_vacant(self) -> bool:
        """Say whether there is nothing left to remember."""
        return self.current is None and self.durable is None and not self._on_their_way

    def load(self, record: ConsumerRecord) -> None:
        """Apply a record that was read from the log."""
        self.current = self.durable = apply_record(self.durable, record)

    def start(self, records: Records) -> None:
        """Apply records that are on their way to the log."""
        self._on_their_way.append(records)
        # Counts for the next request at once. Otherwise two members could both be given a partition that is free (G11).
        self.current = _apply(self.current, records)

    def finish(self, records: Records, *, is_durable: bool) -> None:
        """Note that those have arrived, or never will."""
        # By identity: two requests may write equal records.
        self._on_their_way = [other for other in self._on_their_way if other is not records]
        if is_durable:
            # In the order of the log, which is the order in which appends are reported.
            self.durable = _apply(self.durable, records)
        # Computed again and not undone: records that are lost may stand between others that are still on their way.
        self.current = self.durable
        for others in self._on_their_way:
            self.current = _apply(self.current, others)
        if not is_durable:
            # What the group was compared with may be among the records that are lost.
            self.checked_version = NEVER


def _apply(group: ConsumerGroup | None, records: Iterable[ConsumerRecord]) -> ConsumerGroup | None:
    for record in records:
        group = apply_record(group, record)
    return group


class Draft:
    """Collects records; `group` is the group after them."""

    def __init__(self, group: ConsumerGroup) -> None:
        """Start from the group as it is."""
        self.group = group
        self.records: list[ConsumerRecord] = []

    def write(self, kind: Kind, value: Value | None, name: str = "") -> None:
        """Add one record."""
        record = ConsumerRecord(kind=kind, group_id=self.group.group_id, name=name, value=value)
        self.records.append(record)
        # Also a draft that deletes its group goes on with a group, an empty one.
        self.group = apply_record(self.group, record) or ConsumerGroup(group_id=self.group.group_id)

    def remove_member(self, member_id: str) -> None:
        """Forget all that is known of a member."""
        # The member last: Apache Kafka refuses to load the tombstone of a member that still holds partitions.
        for kind in (Kind.CURRENT, Kind.TARGET, Kind.MEMBER):
            self.write(kind, None, member_id)

    def bump_epoch(self, cluster: ClusterState) -> None:
        """Ask for a new assignment, for the topics as they are now."""
        # Stored with the epoch: after a restart it says whether topics have changed
        # since this assignment was asked for.
        digest = metadata_hash(self.group.subscribed_topics(), cluster)
        self.write(Kind.GROUP, GroupValue(epoch=self.group.epoch + 1, metadata_hash=digest))

    def drop_unused_regexes(self) -> None:
        """Forget the topics of regular expressions that no member uses any more."""
        for regex in sorted(self.group.regexes.keys() - self.group.regexes_in_use()):
            self.write(Kind.REGEX, None, regex)


def fence(draft: Draft, member_ids: Iterable[str], cluster: ClusterState) -> None:
    """Remove members; what they had is free, and a new assignment is asked for."""
    for member_id in member_ids:
        draft.remove_member(member_id)
    draft.drop_unused_regexes()
    draft.bump_epoch(cluster)


def forget_group(draft: Draft) -> None:
    """Forget a group that has no members."""
    assert not draft.group.members, "only an empty group can be deleted"
    for member_id in sorted(draft.group.targets):
        draft.write(Kind.TARGET, None, member_id)
    draft.drop_unused_regexes()
    draft.write(Kind.TARGET_EPOCH, None)
    # Last, as in Apache Kafka: it is what makes the group unknown.
    draft.write(Kind.GROUP, None)


V = TypeVar("V")


def apply_record(group: ConsumerGroup | None, record: ConsumerRecord) -> ConsumerGroup | None:
    """The group after one more record; None is a group that does not exist."""
    if record.value is None:
        return None if group is None or record.kind is Kind.GROUP else _apply_tombstone(group, record)
    return _apply_value(group or ConsumerGroup(group_id=record.group_id), record.name, record.value)


def _apply_value(group: ConsumerGroup, name: str, value: Value) -> ConsumerGroup:
    match value:
        case GroupValue(epoch=epoch, metadata_hash=metadata_hash):
            return replace(group, epoch=epoch, metadata_hash=metadata_hash)
        case TargetEpochValue(epoch=epoch, timestamp_ms=timestamp_ms):
            return replace(group, target_epoch=epoch, target_timestamp_ms=timestamp_ms)
        case TargetValue():
            return replace(group, targets={**group.targets, name: read_target(value)})
        case RegexValue(topics=topics, version=version, timestamp_ms=timestamp_ms):
            resolved = ResolvedRegex(topics=frozenset(topics), version=version, timestamp_ms=timestamp_ms)
            return replace(group, regexes={**group.regexes, name: resolved})
        case MemberValue():
            return _with_member(group, _subscribed(_member(group, name), value))
        case CurrentValue():
            return _with_member(group, _moved(_member(group, name), value))


def _apply_tombstone(group: ConsumerGroup, record: ConsumerRecord) -> ConsumerGroup:
    name = record.name
    match record.kind:
        case Kind.TARGET_EPOCH:
            return replace(group, target_epoch=0, target_timestamp_ms=0)
        case Kind.TARGET:
            return replace(group, targets=_without(group.targets, name))
        case Kind.REGEX:
            return replace(group, regexes=_without(group.regexes, name))
        case Kind.MEMBER:
            return replace(group, members=_without(group.members, name))
        case Kind.CURRENT if name in group.members:
            return _with_member(group, _moved(group.members[name], CurrentValue(previous_epoch=NO_EPOCH)))
        case _:
            return group


def _without(mapping: Mapping[str, V], name: str) -> dict[str, V]:
    return {other: value for other, value in mapping.items() if other != name}


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    return group.members.get(member_id) or ConsumerMember(member_id=member_id)


def _with_member(group: ConsumerGroup, member: ConsumerMember) -> ConsumerGroup:
    return replace(group, members={**group.members, member.member_id: member})


def _subscribed(member: ConsumerMember, value: MemberValue) -> ConsumerMember:
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        subscribed_names=frozenset(value.subscribed_names),
        subscribed_regex=value.subscribed_regex,
    )


def _moved(member: ConsumerMember, value: CurrentValue) -> ConsumerMember:
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_epoch,
        state=MemberState(value.state),
        assigned=read_held(value.assigned),
        revoking=read_held(value.revoking),
    )

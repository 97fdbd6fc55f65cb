"""Applying records to groups of the consumer protocol: the only way in which such a group changes.

Keeps: G9 a group is a function of its records: the running one and the one loaded after a restart are the same.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from semel.broker.consumer_group_records import (
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
from semel.broker.consumer_group_state import NO_EPOCH, ConsumerGroup, ConsumerMember, ResolvedRegex
from semel.broker.consumer_group_types import MemberState

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

"""The next step of a member towards its target: give up, wait, take.

Keeps: G11 a partition has one owner at a time: a member gets it only when nobody else has it, and a member has it
       until it said that it gave it up, left, or was fenced.
Sources: KIP-848, "Member reconciliation".
"""

from collections.abc import Collection, Set
from dataclasses import dataclass, replace

from semel.broker.groups.consumer.state import ConsumerMember
from semel.broker.groups.consumer.types import MemberState, TopicIdPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Where a member should get to, and what stands in its way.

    `taken` is what other members have; `owned` is what it says that it has, None when it does not say.
    """

    target_epoch: int
    target: Set[TopicIdPartition]
    taken: Collection[TopicIdPartition]
    owned: Set[TopicIdPartition] | None


def next_step(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """The member after it went as far as it can; the same one when it cannot go anywhere."""
    match member.state:
        case MemberState.STABLE if member.epoch == goal.target_epoch:
            return member
        case MemberState.UNREVOKED_PARTITIONS if _still_owns(member.revoking, goal.owned):
            return member
        case _:
            return _advance(member, goal)


def _still_owns(partitions: Collection[TopicIdPartition], owned: Set[TopicIdPartition] | None) -> bool:
    # A heartbeat that does not say what the member owns proves nothing.
    return bool(partitions) and (owned is None or not owned.isdisjoint(partitions))


def _advance(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    kept = {partition: since for partition, since in member.assigned.items() if partition in goal.target}
    revoking = {partition: since for partition, since in member.assigned.items() if partition not in goal.target}
    if _still_owns(revoking, goal.owned):
        # Its epoch stays until it has given them up: under it the member may still commit what it has read.
        return _moved(member, member.epoch, MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking)
    missing = goal.target - kept.keys()
    free = [partition for partition in missing if partition not in goal.taken]
    state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED_PARTITIONS
    # With the epoch at which it got them, by which late commits are judged (KIP-1251).
    assigned = kept | dict.fromkeys(free, goal.target_epoch)
    # The epoch moves although partitions may be missing: those that are free can be read without waiting for the rest.
    return _moved(member, goal.target_epoch, state, assigned=assigned, revoking={})


def _moved(
    member: ConsumerMember,
    epoch: int,
    state: MemberState,
    *,
    assigned: dict[TopicIdPartition, int],
    revoking: dict[TopicIdPartition, int],
) -> ConsumerMember:
    return replace(member, epoch=epoch, previous_epoch=member.epoch, state=state, assigned=assigned, revoking=revoking)

"""What a heartbeat changes: the member, the group epoch, the target assignment, the member's own partitions.

Each function writes into a draft and sees what the ones before it wrote. The caller makes the records durable, and
answers then.

Keeps: G11 through `reconcile`, G12 through `refusals`.
Sources: KIP-848.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from semel.broker.groups.consumer.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, Subscriber
from semel.broker.groups.consumer.changes import Draft, fence
from semel.broker.groups.consumer.reconcile import Goal, next_step
from semel.broker.groups.consumer.records import (
    CurrentValue,
    Kind,
    MemberValue,
    RegexValue,
    TargetEpochValue,
    held_partitions,
    target_value,
)
from semel.broker.groups.consumer.refusals import check_epoch, check_released, check_room, find_member
from semel.broker.groups.consumer.state import ConsumerMember, metadata_hash
from semel.broker.groups.consumer.types import (
    EPOCH_JOIN,
    EPOCH_LEAVE_STATIC,
    NO_REBALANCE_TIMEOUT,
    ConsumerHeartbeat,
    HeartbeatAnswer,
    HeartbeatRefused,
)
from semel.broker.metadata.cluster_state import ClusterState
from semel.broker.runtime.patterns import PatternRefused, compile_pattern
from semel.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a heartbeat needs to know besides the group; `is_fresh` is False when topics changed since the last."""

    cluster: ClusterState
    is_fresh: bool
    now_ms: int
    members_max: int
    heartbeat_interval_ms: int
    new_uuid: Callable[[], str]


def apply_heartbeat(draft: Draft, heartbeat: ConsumerHeartbeat, conditions: Conditions) -> HeartbeatAnswer:
    """Take a member in or a step further; raises HeartbeatRefused."""
    check_room(draft.group, heartbeat.member_id, conditions.members_max)
    # Clients of version 0 leave the choice of the id to the coordinator; later ones bring their own (KIP-1082).
    if not heartbeat.member_id:
        heartbeat = replace(heartbeat, member_id=conditions.new_uuid())
    # The member as it was; what is written below is held against it.
    before = _find_or_join(draft, heartbeat)
    member = _updated(before, heartbeat)
    is_due = member.subscribed_names != before.subscribed_names
    if member != before or member.member_id not in draft.group.members:
        draft.write(Kind.MEMBER, _member_value(member), member.member_id)
    is_due |= _resolve_regexes(draft, before, member, conditions, heartbeat.hidden_topics)
    # In this order: the subscription decides about the epoch, the epoch about the
    # target, the target about the partitions.
    _count_and_assign(draft, conditions, is_due=is_due)
    _reconcile(draft, member.member_id, heartbeat)
    member = draft.group.members[member.member_id]
    # A partial heartbeat says that the member knows its assignment, so only a change is in the answer.
    is_told = heartbeat.is_full or member.assigned.keys() != before.assigned.keys()
    return HeartbeatAnswer(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=conditions.heartbeat_interval_ms,
        assignment=frozenset(member.assigned) if is_told else None,
    )


def _find_or_join(draft: Draft, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
    if heartbeat.member_epoch != EPOCH_JOIN:
        member = find_member(draft.group, heartbeat)
        check_epoch(member, heartbeat)
        return member
    static = None if heartbeat.instance_id is None else draft.group.static_member(heartbeat.instance_id)
    if static is not None:
        check_released(static, heartbeat)
        return _replace_static(draft, static, heartbeat.member_id)
    return draft.group.members.get(heartbeat.member_id) or ConsumerMember(member_id=heartbeat.member_id)


def _replace_static(draft: Draft, static: ConsumerMember, member_id: str) -> ConsumerMember:
    """A group instance came back under a new member id: its partitions stay, the old id is gone."""
    # Epoch 0, as of any member that joins: reconciliation brings it to the group's target again.
    member = replace(static, member_id=member_id, epoch=0, previous_epoch=0)
    target = draft.group.target_of(static.member_id)
    draft.remove_member(static.member_id)
    draft.write(Kind.MEMBER, _member_value(member), member_id)
    draft.write(Kind.TARGET, target_value(target), member_id)
    draft.write(Kind.CURRENT, _current_value(member), member_id)
    return draft.group.members[member_id]


def _updated(member: ConsumerMember, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
    """Take over what the member says of itself; what it does not mention stays."""
    has_timeout = heartbeat.rebalance_timeout_ms != NO_REBALANCE_TIMEOUT
    names, regex = heartbeat.subscribed_names, heartbeat.subscribed_regex
    return replace(
        member,
        instance_id=member.instance_id if heartbeat.instance_id is None else heartbeat.instance_id,
        rack_id=member.rack_id if heartbeat.rack_id is None else heartbeat.rack_id,
        client_id=heartbeat.client_id,
        client_host=heartbeat.client_host,
        rebalance_timeout_ms=heartbeat.rebalance_timeout_ms if has_timeout else member.rebalance_timeout_ms,
        server_assignor=member.server_assignor if heartbeat.server_assignor is None else heartbeat.server_assignor,
        subscribed_names=member.subscribed_names if names is None else names,
        subscribed_regex=member.subscribed_regex if regex is None else regex,
    )


def _resolve_regexes(
    draft: Draft, before: ConsumerMember, member: ConsumerMember, conditions: Conditions, hidden: frozenset[str]
) -> bool:
    """Look up what regular expressions mean now; says whether that asks for a new assignment."""
    # The expression is resolved already for another member, so its topics are known without looking.
    is_due = member.subscribed_regex != before.subscribed_regex and member.subscribed_regex in draft.group.regexes
    draft.drop_unused_regexes()
    for regex in sorted(draft.group.regexes_in_use()):
        resolved = draft.group.regexes.get(regex)
        # A lookup goes through all topics, so it is made only when the topics have changed.
        if resolved is not None and conditions.is_fresh:
            continue
        topics = _matching(regex, conditions.cluster) - hidden
        if resolved is None or resolved.topics != topics:
            is_due |= topics != (resolved.topics if resolved else frozenset())
            value = RegexValue(
                topics=sorted(topics), version=conditions.cluster.version, timestamp_ms=conditions.now_ms
            )
            draft.write(Kind.REGEX, value, regex)
    return is_due


def _matching(regex: str, cluster: ClusterState) -> frozenset[str]:
    try:
        matches = compile_pattern(regex)
    except PatternRefused as error:
        message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
        raise HeartbeatRefused(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None
    return frozenset(name for name in cluster.topics if matches(name))


def _count_and_assign(draft: Draft, conditions: Conditions, *, is_due: bool) -> None:
    """Bump the group epoch when something asks for a new assignment, and make one when the epoch is ahead."""
    # The hash covers every subscribed topic; it is computed only when the cluster's state is another one.
    if not is_due and not conditions.is_fresh:
        is_due = metadata_hash(draft.group.subscribed_topics(), conditions.cluster) != draft.group.metadata_hash
    if is_due:
        draft.bump_epoch(conditions.cluster)
    if draft.group.epoch > draft.group.target_epoch:
        _assign(draft, conditions)


def _assign(draft: Draft, conditions: Conditions) -> None:
    group, topics = draft.group, conditions.cluster.topics
    subscribers = [
        Subscriber(
            member_id=member.member_id,
            instance_id=member.instance_id,
            topics=frozenset(topics[name].id for name in group.topics_of(member) if name in topics),
            # The target and not what the member holds now: it may still be on its way
            # there, and an assignor that looked at the way would move partitions back.
            previous=group.target_of(member.member_id),
        )
        for member in group.members.values()
    ]
    wanted = (topics[name] for name in sorted(group.subscribed_topics()) if name in topics)
    counts = {topic.id: len(topic.partitions) for topic in wanted}
    shares = ASSIGNORS[group.assignor(DEFAULT_ASSIGNOR)](subscribers, counts)
    # Only changes are written: the group of a thousand members must not write a thousand records each time.
    for member_id, share in sorted(shares.items()):
        if group.targets.get(member_id) != share:
            draft.write(Kind.TARGET, target_value(share), member_id)
    # Last: a target epoch that is in the log has all its targets before it.
    draft.write(Kind.TARGET_EPOCH, TargetEpochValue(epoch=group.epoch, timestamp_ms=conditions.now_ms))


def _reconcile(draft: Draft, member_id: str, heartbeat: ConsumerHeartbeat) -> None:
    group = draft.group
    member = group.members[member_id]
    if member.is_reconciled_to(group.target_epoch):
        return
    goal = Goal(
        target_epoch=group.target_epoch,
        target=group.target_of(member_id),
        taken=group.held_by_others(member_id),
        owned=heartbeat.owned,
    )
    moved = next_step(member, goal)
    if moved != member:
        draft.write(Kind.CURRENT, _current_value(moved), member_id)


def apply_leave(draft: Draft, heartbeat: ConsumerHeartbeat, conditions: Conditions) -> HeartbeatAnswer:
    """Let a member go; a static one may keep its partitions until it comes back or its session ends."""
    member = find_member(draft.group, heartbeat)
    if heartbeat.member_epoch == EPOCH_LEAVE_STATIC:
        # Its partitions stay assigned to it, so nobody else gets them before its session ends.
        # What it was giving up is free at once: a process that has ended does not read any more.
        gone = replace(member, epoch=EPOCH_LEAVE_STATIC, revoking={})
        draft.write(Kind.CURRENT, _current_value(gone), member.member_id)
    else:
        fence(draft, [member.member_id], conditions.cluster)
    return HeartbeatAnswer(member_id=heartbeat.member_id, member_epoch=heartbeat.member_epoch)


def _member_value(member: ConsumerMember) -> MemberValue:
    return MemberValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_names=sorted(member.subscribed_names),
        subscribed_regex=member.subscribed_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
    )


def _current_value(member: ConsumerMember) -> CurrentValue:
    return CurrentValue(
        member_epoch=member.epoch,
        previous_epoch=member.previous_epoch,
        state=member.state,
        assigned=held_partitions(member.assigned),
        revoking=held_partitions(member.revoking),
    )

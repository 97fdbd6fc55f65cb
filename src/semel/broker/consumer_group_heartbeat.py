"""What a heartbeat changes: the member, the group epoch, the target assignment, the member's own partitions.

Each function writes into a draft and sees what the ones before it wrote. The caller makes the records durable, and
answers then.

Keeps: G11 and G12 through consumer_group_reconcile.py and consumer_group_judge.py.
Sources: KIP-848.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from semel.broker.cluster_state import ClusterState
from semel.broker.consumer_group_assignors import ASSIGNORS, DEFAULT_ASSIGNOR, Subscriber
from semel.broker.consumer_group_draft import Draft, fence
from semel.broker.consumer_group_judge import check_epoch, check_released, check_room, find_member
from semel.broker.consumer_group_reconcile import Goal, next_step
from semel.broker.consumer_group_records import (
    CurrentValue,
    Kind,
    MemberValue,
    RegexValue,
    TargetEpochValue,
    held_partitions,
    target_value,
)
from semel.broker.consumer_group_state import ConsumerMember, metadata_hash
from semel.broker.consumer_group_types import (
    EPOCH_JOIN,
    EPOCH_LEAVE_STATIC,
    NO_REBALANCE_TIMEOUT,
    Beat,
    BeatRefused,
    BeatResponse,
)
from semel.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a heartbeat needs to know besides the group; `is_fresh` is False when topics changed since the last."""

    cluster: ClusterState
    is_fresh: bool
    now_ms: int
    members_max: int
    heartbeat_interval_ms: int
    new_uuid: Callable[[], str]


def beat_once(draft: Draft, beat: Beat, around: Around) -> BeatResponse:
    """Take a member in or a step further; raises BeatRefused."""
    check_room(draft.group, beat.member_id, around.members_max)
    if not beat.member_id:
        beat = replace(beat, member_id=around.new_uuid())
    before = _find_or_join(draft, beat)
    member = _updated(before, beat)
    is_due = member.subscribed_names != before.subscribed_names
    if member != before or member.member_id not in draft.group.members:
        draft.write(Kind.MEMBER, _member_value(member), member.member_id)
    is_due |= _resolve_regexes(draft, before, member, around)
    _count_and_assign(draft, around, is_due=is_due)
    _reconcile(draft, member.member_id, beat)
    member = draft.group.members[member.member_id]
    is_told = beat.is_full or member.assigned.keys() != before.assigned.keys()
    return BeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=around.heartbeat_interval_ms,
        assignment=frozenset(member.assigned) if is_told else None,
    )


def _find_or_join(draft: Draft, beat: Beat) -> ConsumerMember:
    if beat.member_epoch != EPOCH_JOIN:
        member = find_member(draft.group, beat)
        check_epoch(member, beat)
        return member
    static = None if beat.instance_id is None else draft.group.static_member(beat.instance_id)
    if static is not None:
        check_released(static, beat)
        return _replace_static(draft, static, beat.member_id)
    return draft.group.members.get(beat.member_id) or ConsumerMember(member_id=beat.member_id)


def _replace_static(draft: Draft, static: ConsumerMember, member_id: str) -> ConsumerMember:
    """A group instance came back under a new member id: its partitions stay, the old id is gone."""
    member = replace(static, member_id=member_id, epoch=0, previous_epoch=0)
    target = draft.group.target_of(static.member_id)
    draft.remove_member(static.member_id)
    draft.write(Kind.MEMBER, _member_value(member), member_id)
    draft.write(Kind.TARGET, target_value(target), member_id)
    draft.write(Kind.CURRENT, _current_value(member), member_id)
    return draft.group.members[member_id]


def _updated(member: ConsumerMember, beat: Beat) -> ConsumerMember:
    """Take over what the member says of itself; what it does not mention stays."""
    has_timeout = beat.rebalance_timeout_ms != NO_REBALANCE_TIMEOUT
    names, regex = beat.subscribed_names, beat.subscribed_regex
    return replace(
        member,
        instance_id=member.instance_id if beat.instance_id is None else beat.instance_id,
        rack_id=member.rack_id if beat.rack_id is None else beat.rack_id,
        client_id=beat.client_id,
        client_host=beat.client_host,
        rebalance_timeout_ms=beat.rebalance_timeout_ms if has_timeout else member.rebalance_timeout_ms,
        server_assignor=member.server_assignor if beat.server_assignor is None else beat.server_assignor,
        subscribed_names=member.subscribed_names if names is None else names,
        subscribed_regex=member.subscribed_regex if regex is None else regex,
    )


def _resolve_regexes(draft: Draft, before: ConsumerMember, member: ConsumerMember, around: Around) -> bool:
    """Look up what regular expressions mean now; says whether that asks for a new assignment."""
    is_due = member.subscribed_regex != before.subscribed_regex and member.subscribed_regex in draft.group.regexes
    draft.drop_unused_regexes()
    for regex in sorted(draft.group.regexes_in_use()):
        resolved = draft.group.regexes.get(regex)
        if resolved is not None and around.is_fresh:
            continue
        topics = _matching(regex, around.cluster)
        if resolved is None or resolved.topics != topics:
            is_due |= topics != (resolved.topics if resolved else frozenset())
            value = RegexValue(topics=sorted(topics), version=around.cluster.version, timestamp_ms=around.now_ms)
            draft.write(Kind.REGEX, value, regex)
    return is_due


def _matching(regex: str, cluster: ClusterState) -> frozenset[str]:
    try:
        pattern = re.compile(regex)
    except (re.error, OverflowError, RecursionError) as error:
        message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
        raise BeatRefused(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None
    return frozenset(name for name in cluster.topics if pattern.fullmatch(name))


def _count_and_assign(draft: Draft, around: Around, *, is_due: bool) -> None:
    """Bump the group epoch when something asks for a new assignment, and make one when the epoch is ahead."""
    if not is_due and not around.is_fresh:
        is_due = metadata_hash(draft.group.subscribed_topics(), around.cluster) != draft.group.metadata_hash
    if is_due:
        draft.bump_epoch(around.cluster)
    if draft.group.epoch > draft.group.target_epoch:
        _assign(draft, around)


def _assign(draft: Draft, around: Around) -> None:
    group, topics = draft.group, around.cluster.topics
    subscribers = [
        Subscriber(
            member_id=member.member_id,
            instance_id=member.instance_id,
            topics=frozenset(topics[name].id for name in group.topics_of(member) if name in topics),
            previous=group.target_of(member.member_id),
        )
        for member in group.members.values()
    ]
    wanted = (topics[name] for name in sorted(group.subscribed_topics()) if name in topics)
    counts = {topic.id: len(topic.partitions) for topic in wanted}
    shares = ASSIGNORS[group.assignor(DEFAULT_ASSIGNOR)](subscribers, counts)
    for member_id, share in sorted(shares.items()):
        if group.targets.get(member_id) != share:
            draft.write(Kind.TARGET, target_value(share), member_id)
    draft.write(Kind.TARGET_EPOCH, TargetEpochValue(epoch=group.epoch, timestamp_ms=around.now_ms))


def _reconcile(draft: Draft, member_id: str, beat: Beat) -> None:
    group = draft.group
    member = group.members[member_id]
    if member.is_reconciled_to(group.target_epoch):
        return
    goal = Goal(
        target_epoch=group.target_epoch,
        target=group.target_of(member_id),
        taken=group.held_by_others(member_id),
        owned=beat.owned,
    )
    moved = next_step(member, goal)
    if moved != member:
        draft.write(Kind.CURRENT, _current_value(moved), member_id)


def leave_once(draft: Draft, beat: Beat, around: Around) -> BeatResponse:
    """Let a member go; a static one may keep its partitions until it comes back or its session ends."""
    member = find_member(draft.group, beat)
    if beat.member_epoch == EPOCH_LEAVE_STATIC:
        gone = replace(member, epoch=EPOCH_LEAVE_STATIC, revoking={})
        draft.write(Kind.CURRENT, _current_value(gone), member.member_id)
    else:
        fence(draft, [member.member_id], around.cluster)
    return BeatResponse(member_id=beat.member_id, member_epoch=beat.member_epoch)


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

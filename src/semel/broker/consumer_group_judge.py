"""Which heartbeats are refused, and with which words: the rules that need no change of the group.

Keeps: G12 a member of an older epoch, a stranger and a fenced instance are refused.
Sources: KIP-848; the messages say what Apache Kafka 4.3 says.
"""

from semel.broker.consumer_group_assignors import ASSIGNORS
from semel.broker.consumer_group_state import ConsumerGroup, ConsumerMember
from semel.broker.consumer_group_types import (
    EPOCH_JOIN,
    EPOCH_LEAVE_STATIC,
    NO_REBALANCE_TIMEOUT,
    Beat,
    BeatRefused,
)
from semel.broker.group_records import fits_string
from semel.protocol.error_codes import ErrorCode

VERSION_OWN_MEMBER_ID = 1


def check_request(beat: Beat) -> None:
    """Refuse what no group could take."""
    for name, text in (("GroupId", beat.group_id), ("InstanceId", beat.instance_id), ("RackId", beat.rack_id)):
        if text is not None and not text.strip():
            _invalid(f"{name} can't be empty.")
    if beat.api_version >= VERSION_OWN_MEMBER_ID or beat.member_epoch != EPOCH_JOIN:
        _check_has_text(beat.member_id, "MemberId can't be empty.")
    if beat.member_epoch == EPOCH_JOIN:
        _check_join(beat)
    elif beat.member_epoch == EPOCH_LEAVE_STATIC and beat.instance_id is None:
        _invalid("InstanceId can't be null.")
    elif beat.member_epoch < EPOCH_LEAVE_STATIC:
        _invalid("MemberEpoch is invalid.")
    if beat.server_assignor is not None and beat.server_assignor not in ASSIGNORS:
        message = (
            f"ServerAssignor {beat.server_assignor} is not supported. Supported assignors: {', '.join(ASSIGNORS)}."
        )
        raise BeatRefused(ErrorCode.UNSUPPORTED_ASSIGNOR, message)
    if not fits_string(beat.group_id, beat.member_id, beat.subscribed_regex):
        _invalid("A name is too long to be stored.")


def _invalid(message: str) -> None:
    raise BeatRefused(ErrorCode.INVALID_REQUEST, message)


def _check_has_text(text: str, message: str) -> None:
    if not text.strip():
        _invalid(message)


def _check_join(beat: Beat) -> None:
    if beat.rebalance_timeout_ms == NO_REBALANCE_TIMEOUT:
        _invalid("RebalanceTimeoutMs must be provided in first request.")
    if beat.owned is None or beat.owned:
        _invalid("TopicPartitions must be empty when (re-)joining.")
    if beat.subscribed_names is None and beat.subscribed_regex is None:
        _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def check_room(group: ConsumerGroup, member_id: str, members_max: int) -> None:
    """Keep to group.consumer.max.size."""
    if len(group.members) >= members_max and member_id not in group.members:
        message = f"The consumer group has reached its maximum capacity of {members_max} members."
        raise BeatRefused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def find_member(group: ConsumerGroup, beat: Beat) -> ConsumerMember:
    """The member that this heartbeat comes from, if it is one."""
    if beat.instance_id is None:
        member = group.members.get(beat.member_id)
        if member is None:
            message = f"Member {beat.member_id} is not a member of group {beat.group_id}."
            raise BeatRefused(ErrorCode.UNKNOWN_MEMBER_ID, message)
        return member
    static = group.static_member(beat.instance_id)
    if static is None:
        raise BeatRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {beat.instance_id} is unknown.")
    if static.member_id != beat.member_id:
        message = (
            f"Static member {beat.member_id} with instance id {beat.instance_id} was fenced by member "
            f"{static.member_id}."
        )
        raise BeatRefused(ErrorCode.FENCED_INSTANCE_ID, message)
    return static


def check_epoch(member: ConsumerMember, beat: Beat) -> None:
    """Fence another epoch than the member's; the last one passes while it has nothing that it should not have."""
    if beat.member_epoch == member.epoch:
        return
    is_newer = beat.member_epoch > member.epoch
    is_repeated = beat.member_epoch == member.previous_epoch
    if not is_newer and is_repeated and beat.owned is not None and beat.owned <= member.assigned.keys():
        return
    message = (
        f"The consumer group member has a {'greater' if is_newer else 'smaller'} member epoch ({beat.member_epoch}) "
        f"than the one known by the group coordinator ({member.epoch}). The member must abandon all its partitions "
        "and rejoin."
    )
    raise BeatRefused(ErrorCode.FENCED_MEMBER_EPOCH, message)


def check_released(static: ConsumerMember, beat: Beat) -> None:
    """Let a group instance come back only after it left."""
    if static.epoch != EPOCH_LEAVE_STATIC:
        message = (
            f"Static member {beat.member_id} with instance id {beat.instance_id} cannot join the group because the "
            f"instance id is owned by {static.member_id} member."
        )
        raise BeatRefused(ErrorCode.UNRELEASED_INSTANCE_ID, message)

"""Which heartbeats, commits and fetches of offsets are refused: the rules that need no change of the group.

Keeps: G6 a commit by a member of an older epoch, a fenced instance or a non-member is refused and never visible;
       G12 a heartbeat of such a member, client or instance is refused.
Why:   a commit under an older epoch passes for partitions that the member has had since then: nobody else can have
       committed in between (KIP-1251). TxnOffsetCommit has no STALE_MEMBER_EPOCH; it answers ILLEGAL_GENERATION.
Sources: KIP-848, KIP-1251; the messages say what Apache Kafka 4.3 says.
"""

from semel.broker.groups.classic.types import NO_MEMBER_ID
from semel.broker.groups.consumer.assignors import ASSIGNORS
from semel.broker.groups.consumer.state import ConsumerGroup, ConsumerMember
from semel.broker.groups.consumer.types import (
    EPOCH_JOIN,
    EPOCH_LEAVE_STATIC,
    NO_REBALANCE_TIMEOUT,
    ConsumerHeartbeat,
    HeartbeatRefused,
)
from semel.broker.groups.offsets.types import CommitRequest, FetchOffsetsRequest, TxnCommitRequest
from semel.broker.groups.records import fits_string
from semel.broker.metadata.cluster_state import ClusterState
from semel.protocol.error_codes import ErrorCode

VERSION_OWN_MEMBER_ID = 1
COMMIT_VERSION_MEMBER_EPOCH = 9


def check_request(heartbeat: ConsumerHeartbeat) -> None:
    """Refuse what no group could take."""
    names = {"GroupId": heartbeat.group_id, "InstanceId": heartbeat.instance_id, "RackId": heartbeat.rack_id}
    for name, text in names.items():
        if text is not None and not text.strip():
            _invalid(f"{name} can't be empty.")
    # Since version 1 a client brings its own member id (KIP-1082).
    if heartbeat.api_version >= VERSION_OWN_MEMBER_ID or heartbeat.member_epoch != EPOCH_JOIN:
        _check_has_text(heartbeat.member_id, "MemberId can't be empty.")
    if heartbeat.member_epoch == EPOCH_JOIN:
        _check_join(heartbeat)
    elif heartbeat.member_epoch == EPOCH_LEAVE_STATIC and heartbeat.instance_id is None:
        _invalid("InstanceId can't be null.")
    elif heartbeat.member_epoch < EPOCH_LEAVE_STATIC:
        _invalid("MemberEpoch is invalid.")
    if heartbeat.server_assignor is not None and heartbeat.server_assignor not in ASSIGNORS:
        message = (
            f"ServerAssignor {heartbeat.server_assignor} is not supported. Supported assignors: {', '.join(ASSIGNORS)}."
        )
        raise HeartbeatRefused(ErrorCode.UNSUPPORTED_ASSIGNOR, message)
    if not fits_string(heartbeat.group_id, heartbeat.member_id, heartbeat.subscribed_regex):
        _invalid("A name is too long to be stored.")


def _invalid(message: str) -> None:
    raise HeartbeatRefused(ErrorCode.INVALID_REQUEST, message)


def _check_has_text(text: str, message: str) -> None:
    if not text.strip():
        _invalid(message)


def _check_join(heartbeat: ConsumerHeartbeat) -> None:
    if heartbeat.rebalance_timeout_ms == NO_REBALANCE_TIMEOUT:
        _invalid("RebalanceTimeoutMs must be provided in first request.")
    # A member that joins gives up everything: what it had may belong to others by now.
    if heartbeat.owned is None or heartbeat.owned:
        _invalid("TopicPartitions must be empty when (re-)joining.")
    if heartbeat.subscribed_names is None and heartbeat.subscribed_regex is None:
        _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def check_room(group: ConsumerGroup, member_id: str, members_max: int) -> None:
    """Keep to group.consumer.max.size."""
    if len(group.members) >= members_max and member_id not in group.members:
        message = f"The consumer group has reached its maximum capacity of {members_max} members."
        raise HeartbeatRefused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def find_member(group: ConsumerGroup, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
    """The member that this heartbeat comes from, if it is one."""
    if heartbeat.instance_id is None:
        member = group.members.get(heartbeat.member_id)
        if member is None:
            message = f"Member {heartbeat.member_id} is not a member of group {heartbeat.group_id}."
            raise HeartbeatRefused(ErrorCode.UNKNOWN_MEMBER_ID, message)
        return member
    static = group.static_member(heartbeat.instance_id)
    if static is None:
        raise HeartbeatRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {heartbeat.instance_id} is unknown.")
    if static.member_id != heartbeat.member_id:
        message = (
            f"Static member {heartbeat.member_id} with instance id {heartbeat.instance_id} was fenced by member "
            f"{static.member_id}."
        )
        raise HeartbeatRefused(ErrorCode.FENCED_INSTANCE_ID, message)
    return static


def check_epoch(member: ConsumerMember, heartbeat: ConsumerHeartbeat) -> None:
    """Fence another epoch than the member's; the last one passes while it has nothing that it should not have."""
    if heartbeat.member_epoch == member.epoch:
        return
    is_newer = heartbeat.member_epoch > member.epoch
    # The answer with its new epoch was lost. It may repeat itself, if it owns nothing that it has lost by now.
    is_repeated = heartbeat.member_epoch == member.previous_epoch
    if not is_newer and is_repeated and heartbeat.owned is not None and heartbeat.owned <= member.assigned.keys():
        return
    message = (
        f"The consumer group member has a {'greater' if is_newer else 'smaller'} member epoch "
        f"({heartbeat.member_epoch}) than the one known by the group coordinator ({member.epoch}). The member must "
        "abandon all its partitions and rejoin."
    )
    raise HeartbeatRefused(ErrorCode.FENCED_MEMBER_EPOCH, message)


def check_released(static: ConsumerMember, heartbeat: ConsumerHeartbeat) -> None:
    """Let a group instance come back only after it left."""
    if static.epoch != EPOCH_LEAVE_STATIC:
        message = (
            f"Static member {heartbeat.member_id} with instance id {heartbeat.instance_id} cannot join the group "
            f"because the instance id is owned by {static.member_id} member."
        )
        raise HeartbeatRefused(ErrorCode.UNRELEASED_INSTANCE_ID, message)


def error_for_commit(
    group: ConsumerGroup, request: CommitRequest | TxnCommitRequest, cluster: ClusterState
) -> ErrorCode:
    """Check that the commit comes from a member, and that no newer owner can have committed."""
    is_transactional = isinstance(request, TxnCommitRequest)
    names_nobody = request.member_id == NO_MEMBER_ID and request.group_instance_id is None
    # A consumer without membership may commit to an empty group; a transaction from before KIP-447 names nobody.
    if request.generation < 0 and (not group.members or (is_transactional and names_nobody)):
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    # Before version 9 the field is a generation. A client that sends one does not speak this protocol.
    if isinstance(request, CommitRequest) and request.api_version < COMMIT_VERSION_MEMBER_EPOCH:
        return ErrorCode.UNSUPPORTED_VERSION
    if _is_current(member, request, cluster):
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if is_transactional else ErrorCode.STALE_MEMBER_EPOCH


def _is_current(member: ConsumerMember, request: CommitRequest | TxnCommitRequest, cluster: ClusterState) -> bool:
    # A larger epoch than the member's was never given out.
    if request.generation >= member.epoch:
        return request.generation == member.epoch
    for offset in request.offsets:
        topic = cluster.topics.get(offset.topic)
        since = None if topic is None else member.epoch_of((topic.id, offset.partition))
        if since is None or request.generation < since:
            return False
    return True


def error_for_fetch(group: ConsumerGroup, request: FetchOffsetsRequest) -> ErrorCode:
    """Check that a member that names itself is one, in its current epoch."""
    if request.member_id is None and request.member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(request.member_id or NO_MEMBER_ID)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if request.member_epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

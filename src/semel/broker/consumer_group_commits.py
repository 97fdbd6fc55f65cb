"""Who may commit and fetch offsets of a group of the consumer protocol.

Keeps: G6 a commit by a member of an older epoch, a fenced instance or a stranger is refused and never visible.
Why:   a commit under an older epoch passes for partitions that the member has had since then: nobody else can have
       committed in between (KIP-1251). A transaction cannot be told STALE_MEMBER_EPOCH; it hears ILLEGAL_GENERATION.
"""

from semel.broker.cluster_state import ClusterState
from semel.broker.consumer_group_state import ConsumerGroup, ConsumerMember
from semel.broker.group_types import NO_MEMBER_ID, CommitRequest, FetchOffsetsRequest, TxnCommitRequest
from semel.protocol.error_codes import ErrorCode

COMMIT_VERSION_MEMBER_EPOCH = 9


def fault_of_commit(
    group: ConsumerGroup, request: CommitRequest | TxnCommitRequest, cluster: ClusterState
) -> ErrorCode:
    """Check that the commit comes from a member, and that no newer owner can have committed."""
    is_transactional = isinstance(request, TxnCommitRequest)
    names_nobody = request.member_id == NO_MEMBER_ID and request.group_instance_id is None
    if request.generation < 0 and (not group.members or (is_transactional and names_nobody)):
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if isinstance(request, CommitRequest) and request.api_version < COMMIT_VERSION_MEMBER_EPOCH:
        return ErrorCode.UNSUPPORTED_VERSION
    if _is_current(member, request, cluster):
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if is_transactional else ErrorCode.STALE_MEMBER_EPOCH


def _is_current(member: ConsumerMember, request: CommitRequest | TxnCommitRequest, cluster: ClusterState) -> bool:
    if request.generation >= member.epoch:
        return request.generation == member.epoch
    for offset in request.offsets:
        topic = cluster.topics.get(offset.topic)
        since = None if topic is None else member.epoch_of((topic.id, offset.partition))
        if since is None or request.generation < since:
            return False
    return True


def fault_of_fetch(group: ConsumerGroup, request: FetchOffsetsRequest) -> ErrorCode:
    """Check that a member that names itself is one, in its current epoch."""
    if request.member_id is None and request.member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(request.member_id or NO_MEMBER_ID)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if request.member_epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

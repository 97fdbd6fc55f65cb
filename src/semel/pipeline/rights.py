"""What a user may do to a group, as its coordinator says (KIP-430): asked before anything is changed.

Also of a group that does not exist: so one question tells about all names that begin alike.
"""

from __future__ import annotations

from enum import Enum, auto

from semel.errors import BrokerError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from semel.wire.cluster import CoordinatorKind, WireCluster
from semel.wire.coordinators import Request, ask_coordinator
from semel.wire.group_offsets import DESCRIBE_VERSION_MAX

DELETE = 1 << 6  # the answer has one bit for each operation, by its number in ACLs
NOT_SAID = -(1 << 31)  # a broker before 2.3


class Right(Enum):
    """Whether a user has the right DELETE on a group."""

    GRANTED = auto()
    DENIED = auto()
    HIDDEN = auto()  # not even the right DESCRIBE, so lists of groups leave it out
    NOT_SAID = auto()


def right_to_delete(cluster: WireCluster, group: str) -> Right:
    """Ask for it; nothing is deleted."""
    request = Request(
        kind=CoordinatorKind.GROUP,
        key=group,
        message=DescribeGroupsRequest(groups=[group], include_authorized_operations=True),
        response=DescribeGroupsResponse,
        codes=lambda answer: [row.error_code for row in answer.groups],
        what=f"asking for the rights on group {group!r}",
        version_max=DESCRIBE_VERSION_MAX,
    )
    try:
        (row,) = ask_coordinator(cluster, request, cluster.deadline()).groups
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_AUTHORIZATION_FAILED:
            raise
        return Right.HIDDEN
    if row.authorized_operations == NOT_SAID:
        return Right.NOT_SAID
    return Right.GRANTED if row.authorized_operations & DELETE else Right.DENIED

"""Making and deleting entries of the access control lists, for CreateAcls and DeleteAcls: pure plans of records.

The checks are Apache Kafka's. An entry that is there already is made again without a trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from semel.broker.metadata.acls import (
    ANY,
    CLUSTER_NAME,
    MATCH,
    Acl,
    AclFilter,
    Operation,
    Pattern,
    Permission,
    Resource,
)
from semel.broker.metadata.authorizer import check_principal
from semel.broker.metadata.cluster_state import AclAdded, AclRemoved
from semel.broker.runtime.refused import Refused
from semel.errors import ConfigError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.create_acls import AclCreation
from semel.protocol.messages.delete_acls import DeleteAclsFilter
from semel.protocol.messages.describe_acls import DescribeAclsRequest

Kind = TypeVar("Kind", bound=IntEnum)
# Each entry is a record in the metadata log and stays in memory on every broker.
CHANGES_MAX = 10_000
PATTERNS_IN_FILTERS = (ANY, MATCH, *Pattern)


@dataclass(frozen=True, slots=True)
class AclAnswer:
    """What became of one creation or one filter, and which entries it found."""

    code: ErrorCode = ErrorCode.NONE
    message: str = ""
    found: tuple[Acl, ...] = ()


def plan_creations(
    acls: Mapping[Acl, None], creations: Sequence[AclCreation]
) -> tuple[list[AclAdded], list[AclAnswer]]:
    """Plan each entry on its own merits."""
    _check_count(len(creations))
    # A dict and not a set: records are written in the order of the request, in every run of a seed.
    planned: dict[Acl, None] = {}
    outcomes = []
    for creation in creations:
        try:
            acl = read_creation(creation)
        except Refused as refused:
            outcomes.append(AclAnswer(ErrorCode(refused.code), refused.summary))
            continue
        outcomes.append(AclAnswer())
        # Made again it changes nothing, so nothing is written; the answer is the same.
        if acl not in acls:
            planned[acl] = None
    return [AclAdded(acl=acl) for acl in planned], outcomes


def read_creation(creation: AclCreation) -> Acl:
    """Check one entry."""
    resource = _checked("resourceType", creation.resource_type, Resource)
    # There is one cluster. An entry for any other name would never be asked for, which looks like a right and is none.
    if resource is Resource.CLUSTER and creation.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not creation.resource_name:
        raise _invalid("Invalid empty resource name")
    try:
        check_principal(creation.principal)
    except ConfigError as error:
        raise _invalid(f"Could not parse principal: {error.summary}") from None
    if not creation.host:
        raise _invalid("Invalid empty host")
    return Acl(
        resource=resource,
        name=creation.resource_name,
        pattern=_checked("patternType", creation.resource_pattern_type, Pattern),
        principal=creation.principal,
        host=creation.host,
        operation=_checked("operation", creation.operation, Operation),
        permission=_checked("permissionType", creation.permission_type, Permission),
    )


def find_deletions(acls: Mapping[Acl, None], asked: DeleteAclsFilter) -> AclAnswer:
    """Find what one filter means."""
    try:
        wanted = read_filter(asked)
    except Refused as refused:
        return AclAnswer(ErrorCode(refused.code), refused.summary)
    return AclAnswer(found=tuple(filter(wanted.matches, acls)))


def plan_deletions(outcomes: Iterable[AclAnswer]) -> list[AclRemoved]:
    """Plan to delete what was found; what two filters mean is deleted once."""
    removed = {acl: None for outcome in outcomes for acl in outcome.found}
    _check_count(len(removed))
    return [AclRemoved(acl=acl) for acl in removed]


def read_filter(asked: DeleteAclsFilter | DescribeAclsRequest) -> AclFilter:
    """Check one filter."""
    known = (
        asked.resource_type_filter in (ANY, *Resource)
        and asked.pattern_type_filter in PATTERNS_IN_FILTERS
        and asked.operation in (ANY, *Operation)
        and asked.permission_type in (ANY, *Permission)
    )
    if not known:
        raise _invalid("The filter names a resource, pattern, operation or permission type that is unknown.")
    return AclFilter(
        resource=asked.resource_type_filter,
        name=asked.resource_name_filter,
        pattern=asked.pattern_type_filter,
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=asked.operation,
        permission=asked.permission_type,
    )


def _checked(what: str, number: int, kind: type[Kind]) -> Kind:
    try:
        return kind(number)
    except ValueError:
        raise _invalid(f"Invalid {what} {number}") from None


def _check_count(count: int) -> None:
    if count > CHANGES_MAX:
        raise Refused(ErrorCode.POLICY_VIOLATION, f"{count} entries are more than {CHANGES_MAX} in one request")


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)

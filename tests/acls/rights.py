"""Rights as tests write them, and who has which: `Right("READ", "TOPIC", "orders")`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from semel.broker.metadata.acls import CLUSTER_NAME, Operation, Pattern, Permission, Resource
from semel.broker.metadata.authorizer import STANDARD_AUTHORIZER
from semel.protocol.messages.create_acls import AclCreation
from semel.protocol.messages.delete_acls import DeleteAclsFilter
from semel.protocol.messages.describe_acls import DescribeAclsRequest

PASSWORDS = {"admin": "admin-secret", "app": "app-secret"}
SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"}


@dataclass(frozen=True, slots=True)
class Right:
    """One entry of the access control lists; for `app` from anywhere unless told."""

    operation: str
    resource: str = "CLUSTER"
    name: str = CLUSTER_NAME
    pattern: str = "LITERAL"
    principal: str = "User:app"
    host: str = "*"
    permission: str = "ALLOW"

    def creation(self) -> AclCreation:
        """As CreateAcls wants it."""
        return AclCreation(
            resource_type=Resource[self.resource],
            resource_name=self.name,
            resource_pattern_type=Pattern[self.pattern],
            principal=self.principal,
            host=self.host,
            operation=Operation[self.operation],
            permission_type=Permission[self.permission],
        )

    def __str__(self) -> str:
        """For people, and for the names of steps."""
        return f"{self.operation} {self.resource} {self.name}"


def everything() -> DeleteAclsFilter:
    """The filter that means every entry."""
    return DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def describe_everything() -> DescribeAclsRequest:
    """The request that lists every entry."""
    return DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def without_each(rights: Iterable[Right]) -> list[tuple[Right, list[Right]]]:
    """Every right that could be missing, with those that are left."""
    given = list(rights)
    return [(missing, [right for right in given if right is not missing]) for missing in given]

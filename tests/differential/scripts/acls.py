"""The APIs of the access control lists on a cluster that authorizes nothing."""

from __future__ import annotations

from semel.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from semel.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from semel.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tests.differential.talk import Talk


def security_disabled(talk: Talk) -> None:
    """Nothing can be made, found or deleted."""
    entry = AclCreation(
        resource_type=2,
        resource_name=talk.name("topic"),
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=3,
    )
    wanted = DeleteAclsFilter(resource_type_filter=2, pattern_type_filter=3, operation=3, permission_type=3)
    asked = DescribeAclsRequest(resource_type_filter=2, pattern_type_filter=3, operation=3, permission_type=3)
    talk.each_version("create", CreateAclsResponse, CreateAclsRequest(creations=[entry, entry]))
    talk.each_version("describe", DescribeAclsResponse, asked)
    talk.each_version("delete", DeleteAclsResponse, DeleteAclsRequest(filters=[wanted]))


SCRIPTS = {"acls": security_disabled}

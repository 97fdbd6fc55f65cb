"""The three APIs of the access control lists, asked by the administrator: good entries, bad ones, all filters."""

from __future__ import annotations

from dataclasses import replace

from semel.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from semel.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from semel.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tests.acls.rights import Right, describe_everything, everything
from tests.acls.user_talk import ADMIN, UserTalk


def _right(talk: UserTalk, number: int, name: str, pattern: str = "LITERAL", **fields: str) -> AclCreation:
    right = Right("READ", "TOPIC", name, pattern, principal=f"User:{talk.name(str(number))}")
    return replace(right, **fields).creation()


def acl_script(talk: UserTalk) -> None:
    """Make, list and delete."""
    good = [
        _right(talk, 1, "orders"),
        _right(talk, 2, "order", "PREFIXED"),
        _right(talk, 3, "*"),
        _right(talk, 4, "ord", "PREFIXED", host="10.0.0.1"),
        _right(talk, 5, "orders", permission="DENY", operation="ALL"),
        _right(talk, 6, "readers", resource="GROUP"),
        _right(talk, 7, "kafka-cluster", resource="CLUSTER", operation="ALTER"),
        _right(talk, 8, "User:bob", resource="USER", operation="CREATE_TOKENS"),
        _right(talk, 9, "orders", host="not an address"),
    ]
    talk.ask("good ones", CreateAclsRequest(creations=good), CreateAclsResponse, on=ADMIN)
    talk.ask("again, and twice", CreateAclsRequest(creations=[good[0], good[0]]), CreateAclsResponse, on=ADMIN)
    _bad_entries(talk, good[0])
    talk.until(lambda: _count(talk) >= len(good), "entries")
    talk.each_version_on("all", DescribeAclsResponse, describe_everything(), ADMIN)
    for name, wanted in _filters(talk).items():
        asked = DescribeAclsRequest(**{field.name: getattr(wanted, field.name) for field in wanted.FIELDS})
        talk.ask(f"describe {name}", asked, DescribeAclsResponse, on=ADMIN)
    unknown = replace(everything(), operation=0)
    talk.ask("delete the unknown", DeleteAclsRequest(filters=[unknown]), DeleteAclsResponse, on=ADMIN)
    some = _filters(talk)
    twice = DeleteAclsRequest(filters=[some["match"], some["prefixed"]])
    talk.ask("delete by two filters", twice, DeleteAclsResponse, on=ADMIN)
    talk.until(lambda: _count(talk) < len(good), "fewer entries")
    talk.ask("what is left", describe_everything(), DescribeAclsResponse, on=ADMIN)
    talk.ask("delete all", DeleteAclsRequest(filters=[everything()]), DeleteAclsResponse, on=ADMIN)


def _count(talk: UserTalk) -> int:
    found = talk.peek(describe_everything(), DescribeAclsResponse)
    return sum(len(resource.acls) for resource in found.resources)


def _bad_entries(talk: UserTalk, good: AclCreation) -> None:
    bad = {
        "no name": replace(good, resource_name=""),
        "another cluster": replace(good, resource_type=4),
        "any resource": replace(good, resource_type=1),
        "a resource from the future": replace(good, resource_type=77),
        "any pattern": replace(good, resource_pattern_type=1),
        "a matching pattern": replace(good, resource_pattern_type=2),
        "any operation": replace(good, operation=1),
        "any permission": replace(good, permission_type=1),
        "no principal": replace(good, principal=""),
        "a principal without a type": replace(good, principal="alice"),
        "a principal without a name": replace(good, principal="User:"),
    }
    for name, creation in bad.items():
        talk.ask(name, CreateAclsRequest(creations=[creation]), CreateAclsResponse, on=ADMIN)


def _filters(talk: UserTalk) -> dict[str, DeleteAclsFilter]:
    named = replace(everything(), resource_name_filter="orders")
    return {
        "literal": replace(named, pattern_type_filter=3),
        "prefixed": replace(named, pattern_type_filter=4, resource_name_filter="order"),
        "any pattern": named,
        "match": replace(named, pattern_type_filter=2, resource_type_filter=2),
        "match of nothing": replace(named, pattern_type_filter=2, resource_name_filter="zebra"),
        "groups": replace(everything(), resource_type_filter=3),
        "a principal": replace(everything(), principal_filter=f"User:{talk.name('4')}"),
        "a host": replace(everything(), host_filter="10.0.0.1"),
        "denials": replace(everything(), permission_type=2),
        "alter": replace(everything(), operation=7),
        "no name": replace(everything(), resource_name_filter=""),
        "unknown": replace(everything(), resource_type_filter=0),
        "unknown pattern": replace(everything(), pattern_type_filter=9),
    }

"""Access control lists as a pure decision, against an oracle that tries every entry in the plainest way (A1)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.broker.metadata.acls import (
    ANY,
    MATCH,
    Acl,
    AclFilter,
    AclIndex,
    Asker,
    Operation,
    Pattern,
    Permission,
    Resource,
)
from semel.broker.metadata.authorizer import host_of

ALICE = Asker("User:alice", "10.0.0.1")
ALLOW = Acl(
    resource=Resource.TOPIC,
    name="orders",
    pattern=Pattern.LITERAL,
    principal="User:alice",
    host="*",
    operation=Operation.READ,
    permission=Permission.ALLOW,
)
ALLOW_PREFIX = replace(ALLOW, name="o", pattern=Pattern.PREFIXED)
DENY = replace(ALLOW, permission=Permission.DENY)
NAMES = ("*", "o", "or", "orders", "orders-2", "x")
PRINCIPALS = ("User:alice", "User:*", "User:bob", "User:ANONYMOUS", "Group:alice")
HOSTS = ("*", "10.0.0.1", "10.0.0.2")

entries = st.builds(
    Acl,
    resource=st.sampled_from([Resource.TOPIC, Resource.GROUP]),
    name=st.sampled_from(NAMES),
    pattern=st.sampled_from(Pattern),
    principal=st.sampled_from(PRINCIPALS),
    host=st.sampled_from(HOSTS),
    operation=st.sampled_from(Operation),
    permission=st.sampled_from(Permission),
)
askers = st.builds(Asker, st.sampled_from(PRINCIPALS), st.sampled_from(HOSTS[1:]))


def names_resource(acl: Acl, resource: Resource, name: str) -> bool:
    """The oracle: whether an entry speaks of a resource."""
    if acl.resource != resource:
        return False
    if acl.pattern == Pattern.PREFIXED:
        return name[: len(acl.name)] == acl.name
    return acl.name in ("*", name)


def names_operation(acl: Acl, operation: Operation) -> bool:
    """The oracle: whether an entry speaks of an operation, by itself or by what it implies."""
    implied = {Operation.DESCRIBE: (3, 4, 6, 7), Operation.DESCRIBE_CONFIGS: (11,)}
    numbers = [operation, 2]
    if acl.permission == Permission.ALLOW:
        numbers += implied.get(operation, ())
    return acl.operation in numbers


def oracle(
    acls: Sequence[Acl], asker: Asker, operation: Operation, resource: Resource, name: str, *, otherwise: bool
) -> bool:
    """Look at every entry in turn."""
    about = [acl for acl in acls if names_resource(acl, resource, name)]
    mine = [
        acl
        for acl in about
        if (acl.principal in (asker.principal, "User:*"))
        and (acl.host in (asker.host, "*"))
        and names_operation(acl, operation)
    ]
    if any(acl.permission == Permission.DENY for acl in mine):
        return False
    return bool(mine) or (otherwise and not about)


@given(st.lists(entries, max_size=8), askers, st.sampled_from(Operation), st.sampled_from(NAMES[1:]), st.booleans())
def test_the_index_decides_as_looking_at_every_entry_does(
    acls: list[Acl], asker: Asker, operation: Operation, name: str, otherwise: bool
) -> None:
    decided = AclIndex(acls).allows(asker, operation, Resource.TOPIC, name, otherwise=otherwise)
    assert decided == oracle(acls, asker, operation, Resource.TOPIC, name, otherwise=otherwise)


@given(st.lists(entries, max_size=6), askers)
def test_somewhere_means_that_there_is_a_name(acls: list[Acl], asker: Asker) -> None:
    """Every name that entries tell apart, tried one by one; Apache Kafka lets a wildcard pass whatever is denied."""
    found = AclIndex(acls).allows_some(asker, Operation.WRITE, Resource.TOPIC)
    parts = {*NAMES[1:], *("".join(pair) for pair in itertools.product(NAMES[1:], ("~",)))}
    has_wildcard = any(
        acl.name == "*" and acl.pattern is Pattern.LITERAL and acl.permission is Permission.ALLOW for acl in acls
    )
    names = parts | {"~", "*~"}
    somewhere = any(AclIndex(acls).allows(asker, Operation.WRITE, Resource.TOPIC, name) for name in names)
    assert found == somewhere or (found and has_wildcard)


@pytest.mark.parametrize(
    ("acls", "somewhere"),
    [
        ([], False),
        ([ALLOW], True),
        ([ALLOW, DENY], False),
        ([ALLOW, replace(DENY, name="*")], False),
        ([replace(ALLOW, name="*"), replace(DENY, name="*")], False),
        ([ALLOW, replace(DENY, name="o", pattern=Pattern.PREFIXED)], False),
        ([replace(ALLOW, name="o", pattern=Pattern.PREFIXED), replace(DENY, name="orders")], True),
        (
            [replace(ALLOW, name="o", pattern=Pattern.PREFIXED), replace(DENY, name="o", pattern=Pattern.PREFIXED)],
            False,
        ),
        ([replace(ALLOW, name="*"), replace(DENY, name="o", pattern=Pattern.PREFIXED)], True),
        ([replace(ALLOW, operation=Operation.WRITE)], False),
        ([replace(ALLOW, operation=Operation.ALL)], True),
        ([replace(ALLOW, host="10.0.0.2")], False),
    ],
)
def test_reading_something(acls: list[Acl], somewhere: bool) -> None:
    assert AclIndex(acls).allows_some(ALICE, Operation.READ, Resource.TOPIC) is somewhere


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ([], False),
        ([ALLOW], True),
        ([ALLOW, DENY], False),
        ([DENY, replace(ALLOW, principal="User:*")], False),
        ([replace(ALLOW, principal="User:*"), replace(DENY, principal="User:bob")], True),
        ([replace(ALLOW, name="or", pattern=Pattern.PREFIXED)], True),
        ([replace(ALLOW, name="or")], False),
        ([replace(ALLOW, name="*")], True),
        ([replace(ALLOW, name="*"), replace(DENY, name="ord", pattern=Pattern.PREFIXED)], False),
        ([replace(ALLOW, host="10.0.0.1")], True),
        ([replace(ALLOW, host="10.0.0.2")], False),
        ([replace(ALLOW, operation=Operation.ALL)], True),
        ([replace(ALLOW, operation=Operation.WRITE)], False),
        ([ALLOW, replace(DENY, operation=Operation.ALL)], False),
        ([replace(ALLOW, resource=Resource.GROUP)], False),
    ],
)
def test_reading_orders(acls: list[Acl], allowed: bool) -> None:
    assert AclIndex(acls).allows(ALICE, Operation.READ, Resource.TOPIC, "orders") is allowed


def test_what_an_operation_implies() -> None:
    describes = {
        one
        for one in Operation
        if AclIndex([replace(ALLOW, operation=one)]).allows(ALICE, Operation.DESCRIBE, Resource.TOPIC, "orders")
    }
    assert describes == {Operation(number) for number in (2, 3, 4, 6, 7, 8)}
    settings = {
        one
        for one in Operation
        if AclIndex([replace(ALLOW, operation=one)]).allows(ALICE, Operation.DESCRIBE_CONFIGS, Resource.TOPIC, "orders")
    }
    assert settings == {Operation(number) for number in (2, 10, 11)}


def test_a_denied_read_does_not_deny_describing() -> None:
    describing = replace(ALLOW, operation=Operation.DESCRIBE)
    assert AclIndex([describing, DENY]).allows(ALICE, Operation.DESCRIBE, Resource.TOPIC, "orders")


def test_everyone_only_where_no_entry_speaks() -> None:
    index = AclIndex([replace(ALLOW, principal="User:bob")])
    assert index.allows(ALICE, Operation.READ, Resource.TOPIC, "other", otherwise=True)
    assert not index.allows(ALICE, Operation.READ, Resource.TOPIC, "orders", otherwise=True)


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        (ANY, None, {"*", "orders", "or~"}),
        (ANY, "orders", {"orders"}),
        (MATCH, "orders", {"*", "orders", "or~"}),
        (MATCH, "oxen", {"*"}),
        (Pattern.LITERAL, "orders", {"orders"}),
        (Pattern.LITERAL, None, {"*", "orders"}),
        (Pattern.PREFIXED, "or", {"or~"}),
        (Pattern.PREFIXED, "orders", set()),
    ],
)
def test_filters_by_pattern(pattern: int, name: str | None, found: set[str]) -> None:
    acls = [ALLOW, replace(ALLOW, name="*"), replace(ALLOW, name="or", pattern=Pattern.PREFIXED)]
    wanted = AclFilter(pattern=pattern, name=name)
    shown = {acl.name + ("~" if acl.pattern is Pattern.PREFIXED else "") for acl in filter(wanted.matches, acls)}
    assert shown == found


@pytest.mark.parametrize(
    "other",
    [
        AclFilter(resource=Resource.GROUP),
        AclFilter(principal="User:bob"),
        AclFilter(host="10.0.0.1"),
        AclFilter(operation=Operation.ALL),
        AclFilter(permission=Permission.DENY),
    ],
)
def test_a_filter_with_another_value_does_not_match(other: AclFilter) -> None:
    assert AclFilter().matches(ALLOW)
    assert not other.matches(ALLOW)


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("127.0.0.1:9092", "127.0.0.1"),
        ("::1:9092", "0:0:0:0:0:0:0:1"),
        ("fe80::1%eth0:9092", "fe80:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.1:9092", "10.0.0.1"),
        ("?", ""),
    ],
)
def test_hosts_are_written_as_java_writes_them(peer: str, host: str) -> None:
    assert host_of(peer) == host


class Counting(str):
    """A name that counts how often somebody asks what it begins with."""

    asked = 0

    def startswith(self, *wanted: Any) -> bool:
        """Count, and do it."""
        self.asked += 1
        return super().startswith(*wanted)


def test_a_decision_does_not_look_at_thousands_of_other_prefixes() -> None:
    index = AclIndex(replace(ALLOW_PREFIX, name=f"team-{number}-") for number in range(10_000))
    name = Counting("team-5000-orders")
    assert index.allows(ALICE, Operation.READ, Resource.TOPIC, name)
    assert name.asked < 10

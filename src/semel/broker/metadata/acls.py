"""Access control lists, as pure functions: which entries there are, and whether they let somebody do something.

An entry names a principal, a host, an operation, and a resource by its name, by a prefix of its name, or by `*`. The
rules are those of Apache Kafka's StandardAuthorizer: an entry that denies goes before any that allows; who is allowed
to read, write, delete or alter may also describe; what no entry speaks of is denied.

Keeps: A1 the decision follows from the entries alone, and a deny goes before an allow.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from types import MappingProxyType

ANY = 1  # in a filter: whatever it is
MATCH = 2  # as the pattern type of a filter: every pattern that speaks of the name
WILDCARD = "*"
EVERYBODY = "User:*"
CLUSTER_NAME = "kafka-cluster"


class Resource(IntEnum):
    """What rights are about, as requests number it."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    """How an entry names a resource."""

    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What somebody wants to do, as requests number it."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Permission(IntEnum):
    """What an entry says."""

    DENY = 2
    ALLOW = 3


# An entry that allows one of these allows the operation too; one that denies speaks of its own operation alone.
ALLOWED_BY = MappingProxyType(
    {
        Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
        Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
    }
)

# What can be done with each kind of resource; answers list those of them that the asker may do.
OPERATIONS = MappingProxyType(
    {
        Resource.TOPIC: tuple(map(Operation, (3, 4, 5, 6, 7, 8, 10, 11))),
        Resource.GROUP: tuple(map(Operation, (3, 6, 8, 10, 11))),
        Resource.CLUSTER: tuple(map(Operation, (5, 7, 8, 9, 10, 11, 12))),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """One entry."""

    resource: Resource
    name: str
    pattern: Pattern
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def is_about(self, asker: Asker, operation: Operation) -> bool:
        """Whether it says something of this principal, host and operation; the resource is not looked at."""
        if self.principal not in (asker.principal, EVERYBODY) or self.host not in (asker.host, WILDCARD):
            return False
        if self.operation in (operation, Operation.ALL):
            return True
        return self.permission is Permission.ALLOW and self.operation in ALLOWED_BY.get(operation, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Which entries are meant; None and ANY mean all."""

    resource: int = ANY
    name: str | None = None
    pattern: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    def matches(self, acl: Acl) -> bool:
        """Whether an entry is meant."""
        return (
            self.resource in (ANY, acl.resource)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern not in (ANY, MATCH, acl.pattern):
            return False
        if self.name is None or self.name == acl.name:
            return True
        # KIP-290: MATCH asks which entries would decide about this name, so wildcards and shorter prefixes count too.
        if self.pattern != MATCH:
            return False
        return acl.name == WILDCARD if acl.pattern is Pattern.LITERAL else self.name.startswith(acl.name)


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, and from where."""

    principal: str
    host: str


class PrefixedAcls:
    """The prefixed entries of one kind of resource: those about a name are found without looking at the others.

    Why: every request asks for each of its names, thousands of entries are nothing unusual, and nobody else is served
    meanwhile. Whatever stands between a prefix and a name in the order of texts begins with that prefix too, so the
    last one that is not behind the name, and those that it begins with, are the only ones to look at.
    """

    def __init__(self, by_prefix: Mapping[str, Sequence[Acl]]) -> None:
        """Sort the prefixes, and note for each the longest other one that it begins with."""
        self._acls = by_prefix
        self._sorted = sorted(by_prefix)
        self._shorter: dict[str, str | None] = {}
        # Sorted, a prefix comes right after those it begins with: they are on this stack, the longest last.
        shorter: list[str] = []
        for prefix in self._sorted:
            while shorter and not prefix.startswith(shorter[-1]):
                shorter.pop()
            self._shorter[prefix] = shorter[-1] if shorter else None
            shorter.append(prefix)

    def about(self, name: str) -> Iterator[Acl]:
        """The entries whose prefix this name has."""
        # The longest prefix that can fit stands at or right before this index.
        at = bisect_right(self._sorted, name)
        prefix = self._sorted[at - 1] if at else None
        while prefix is not None:
            if name.startswith(prefix):
                yield from self._acls[prefix]
            prefix = self._shorter[prefix]

    def __iter__(self) -> Iterator[Acl]:
        """All of them."""
        return chain.from_iterable(self._acls.values())


class AclIndex:
    """Entries by the resources that they name, so that a decision looks at few of them."""

    def __init__(self, acls: Iterable[Acl]) -> None:
        """Sort them once; the index does not change."""
        self._literal: dict[tuple[Resource, str], list[Acl]] = {}
        prefixed: dict[Resource, dict[str, list[Acl]]] = {}
        for acl in acls:
            # `*` is a literal name with a meaning of its own, not a prefix; `_about`
            # looks it up beside the name itself.
            if acl.pattern is Pattern.LITERAL:
                self._literal.setdefault((acl.resource, acl.name), []).append(acl)
            else:
                prefixed.setdefault(acl.resource, {}).setdefault(acl.name, []).append(acl)
        self._prefixed = {resource: PrefixedAcls(by_prefix) for resource, by_prefix in prefixed.items()}

    def allows(
        self, asker: Asker, operation: Operation, resource: Resource, name: str, *, otherwise: bool = False
    ) -> bool:
        """Decide; `otherwise` holds for a resource that no entry at all speaks of."""
        is_named = is_allowed = False
        for acl in self._about(resource, name):
            # Any entry about the resource switches `otherwise` off, even one about somebody else.
            is_named = True
            if acl.is_about(asker, operation):
                if acl.permission is Permission.DENY:
                    return False
                is_allowed = True
        return is_allowed or (otherwise and not is_named)

    def allows_some(self, asker: Asker, operation: Operation, resource: Resource) -> bool:
        """Whether there may be a resource of this kind with which the asker may do this, existing or not.

        As Apache Kafka decides it: an allowed name counts unless the same name or a prefix of it is denied.
        """
        denied_names: set[str] = set()
        denied_prefixes: dict[str, list[Acl]] = {}
        allowed: list[Acl] = []
        for acl in self._all(resource):
            # An operation that another one implies does not count here.
            if acl.operation not in (operation, Operation.ALL) or not acl.is_about(asker, operation):
                continue
            if acl.permission is Permission.ALLOW:
                allowed.append(acl)
            elif acl.pattern is Pattern.PREFIXED:
                denied_prefixes[acl.name] = [acl]
            elif acl.name == WILDCARD:
                return False
            else:
                denied_names.add(acl.name)
        denied = PrefixedAcls(denied_prefixes)
        return any(
            (acl.pattern is Pattern.LITERAL and acl.name == WILDCARD)
            or not ((acl.pattern is Pattern.LITERAL and acl.name in denied_names) or any(denied.about(acl.name)))
            for acl in allowed
        )

    def _about(self, resource: Resource, name: str) -> Iterator[Acl]:
        yield from self._literal.get((resource, name), ())
        # Asked for "*" itself, the entry was found above already.
        if name != WILDCARD:
            yield from self._literal.get((resource, WILDCARD), ())
        if resource in self._prefixed:
            yield from self._prefixed[resource].about(name)

    def _all(self, resource: Resource) -> Iterator[Acl]:
        for (kind, _), acls in self._literal.items():
            if kind is resource:
                yield from acls
        yield from self._prefixed.get(resource, ())

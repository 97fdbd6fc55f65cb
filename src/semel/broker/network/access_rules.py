"""The kinds of rules that `access` is made of: what a request needs, what becomes of the part that is refused.

- `Whole`    the request is refused as a whole;
- `Each`     entries of one of its lists are refused one by one, and the others answered;
- `Trimmed`  the answer loses what the asker may not see;
- `InFile`   the API's own file asks, because the right decides about more than a list of the request.

Rules say what they are about by functions of the request: `cluster`, `topic("name")`, `group("group_id")`, …
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from semel.broker.metadata.acls import CLUSTER_NAME, Operation, Resource
from semel.broker.network.context import Context
from semel.protocol.error_codes import ErrorCode

log = logging.getLogger("semel.broker.network.access")

Named = tuple[Resource, str]
Names = Callable[[Context, Any, Any], Iterable[Named]]  # of a context, a request and one of its entries

CODES = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def cluster(_context: Context, _request: object, _entry: object) -> Iterable[Named]:
    """The cluster itself."""
    return ((Resource.CLUSTER, CLUSTER_NAME),)


def topic(field: str) -> Names:
    """The topic that this field names."""
    return _named(Resource.TOPIC, field)


def group(field: str = "") -> Names:
    """The group that this field names, or that the entry itself is."""
    return _named(Resource.GROUP, field)


def transactional(field: str = "") -> Names:
    """The transactional id that this field names, or that the entry itself is; none when it is null."""
    return _named(Resource.TRANSACTIONAL_ID, field)


def _named(resource: Resource, field: str) -> Names:
    def names(_context: Context, _request: object, entry: Any) -> Iterable[Named]:
        name: str | None = getattr(entry, field) if field else entry
        return () if name is None else ((resource, name),)

    return names


@dataclass(frozen=True, slots=True)
class Whole:
    """The request needs this operation on everything that it is about, or `unless` on the cluster.

    `shape` brings the refusal into the form that Apache Kafka gives it.
    """

    operation: Operation
    about: Names
    unless: Operation | None = None
    shape: Callable[[Context, Any], None] | None = None

    def refusal(self, context: Context, request: object) -> ErrorCode:
        """The error for the whole request, or NONE."""
        return refusal(context, self.operation, self.about(context, request, request), self.unless)


@dataclass(frozen=True, slots=True)
class Each:
    """Every entry of a list needs this operation, or all of them `unless` on the cluster; `rows` takes the refusals.

    With `once` an entry that stands there twice, as the API itself counts them, is left to the API, which refuses it.
    """

    field: str | Callable[[int], str]
    operation: Operation
    about: Names
    rows: str
    unless: Operation | None = None
    once: Callable[[Any], Hashable] | None = None

    def field_in(self, version: int) -> str:
        """The list in this version."""
        return self.field if isinstance(self.field, str) else self.field(version)

    async def refusals(self, context: Context, request: object) -> list[tuple[Any, ErrorCode]]:
        """Every entry with its error, or NONE."""
        entries = getattr(request, self.field_in(context.version)) or ()
        times = Counter(map(self.once, entries)) if self.once is not None else None
        found = []
        for number, entry in enumerate(entries):
            await context.pause_after(number)
            is_twice = self.once is not None and times is not None and times[self.once(entry)] > 1
            about = () if is_twice else self.about(context, request, entry)
            found.append((entry, refusal(context, self.operation, about, self.unless)))
        return found


@dataclass(frozen=True, slots=True)
class Trimmed:
    """The answer is changed before it is sent."""

    trim: Callable[[Context, Any, Any], None]


@dataclass(frozen=True, slots=True)
class InFile:
    """What the API's own file asks, in words."""

    needs: str


Rule = Whole | Each | Trimmed | InFile


def refusal(context: Context, operation: Operation, about: Iterable[Named], unless: Operation | None) -> ErrorCode:
    """The error of the first resource that the asker may not use so, or NONE."""
    for resource, name in about:
        if context.may(operation, resource, name):
            continue
        # Asked only after a refusal: most requests have the right itself.
        if unless is not None and context.may(unless, Resource.CLUSTER):
            return ErrorCode.NONE
        log.info(
            "broker %d: %s from %s may not %s %s %s",
            context.broker.id,
            context.session.principal,
            context.session.peer,
            operation.name,
            resource.name,
            name,
        )
        return CODES[resource]
    return ErrorCode.NONE


def shown(rows: str, operation: Operation, about: Names, unless: Operation | None = None) -> Trimmed:
    """The answer lists only what the asker may use so, or everything with `unless` on the cluster."""

    def trim(context: Context, request: object, response: object) -> None:
        if unless is not None and context.may(unless, Resource.CLUSTER):
            return
        kept = [
            row
            for row in getattr(response, rows)
            if all(context.may(operation, *named) for named in about(context, request, row))
        ]
        setattr(response, rows, kept)

    return Trimmed(trim)

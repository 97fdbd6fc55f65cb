"""Every served API with the rights that it needs: a request about things that `app` may use, or may not.

`request(place, names, version)` asks about the named things: `USED` alone, or also about `OTHER`, to which nobody but
the administrator ever has a right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from semel.broker.metadata.acls import Resource
from semel.broker.network.access_rules import CODES
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from tests.acls.rights import Right
from tests.acls.user_talk import UserTalk

TOPIC, GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER, TRANSACTION = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
REFUSALS = frozenset({TOPIC, GROUP, CLUSTER, TRANSACTION})


@dataclass(slots=True)
class Place:
    """The things that the administrator has made on one cluster."""

    talk: UserTalk
    ids: dict[str, UUID | None] = field(default_factory=dict)
    producer: tuple[int, int] = (-1, -1)

    def name(self, text: str) -> str:
        """Its full name."""
        return self.talk.name(text)

    def right(self, operation: str, resource: str = "CLUSTER", text: str = "") -> Right:
        """A right to something of this place."""
        return Right(operation, resource, self.name(text)) if text else Right(operation, resource)


Request = Callable[[Place, Sequence[str], int], Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One API, or one way to use it.

    `needs` are operation, resource type and thing; without any of them the answer has the code `refused`, or, where it
    is None, the code of the resource. Without one that is `hiding` there is no error, only less in the answer. `mixed`
    says that the request can ask about several things, `always_refused` that part of it is refused to everybody.
    """

    name: str
    response: type[Message]
    request: Request
    needs: tuple[tuple[str, ...], ...]
    refused: ErrorCode | None
    hiding: tuple[int, ...] = ()  # by their place in `needs`
    always_refused: bool = False
    mixed: bool = False
    mixed_version: int | None = None  # the newest unless told
    versions: range | None = None
    compared_when_allowed: bool = True

    def rights(self, place: Place) -> list[Right]:
        """What it needs, at this place."""
        return [place.right(*need) for need in self.needs]

    def code_without(self, number: int) -> ErrorCode | None:
        """What the answer says without one of the needs; None when something is only hidden."""
        if number in self.hiding:
            return None
        if self.refused is not None:
            return self.refused
        _, resource, *_ = (*self.needs[number], "CLUSTER")
        return CODES[Resource[resource]]

    def asked_in(self, talk: UserTalk) -> list[int]:
        """The versions in which both clusters can be asked."""
        common = talk.common(self.response)
        return [version for version in common if self.versions is None or version in self.versions]

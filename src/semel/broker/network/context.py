"""What an API function knows about the request it answers: the broker, the connection's session, the version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from semel.broker.metadata.acls import CLUSTER_NAME, OPERATIONS, Asker, Operation, Resource
from semel.broker.metadata.authorizer import host_of
from semel.broker.runtime.refused import Refused
from semel.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from semel.broker.broker import Broker
    from semel.broker.network.exchange import StartedExchange
    from semel.broker.network.fetch_session import FetchSessions
    from semel.broker.network.sasl import SaslExchange

ANONYMOUS = "User:ANONYMOUS"
INTERNAL = "internal"  # the principal of a broker; no client can have it, since theirs begin with a type
ELEMENTS_BETWEEN_PAUSES = 200
CHARACTERS_BETWEEN_PAUSES = 50_000  # a coordinator is found by a hash of a group's name
ROWS_MAX = 200_000  # enough for every setting of 5,000 topics; some 100 MiB while they are encoded


@dataclass(slots=True, kw_only=True)
class ClientSession:
    """What the broker remembers about one connection: who it is, how far its login is, when it was last active."""

    peer: str
    authenticated: bool
    on_authenticated: Callable[[], None] | None = None
    principal: str = ANONYMOUS
    sasl: SaslExchange | None = None
    sasl_bare_tokens: bool = False
    client_software: str = ""
    close_after_answer: bool = False
    last_active_ms: float = 0.0
    busy: bool = False
    started: StartedExchange | None = None
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def asker(self) -> Asker:
        """Who asks on this connection, as rights are given to them."""
        return Asker(self.principal, host_of(self.peer))

    def take_token(self, token: bytes) -> bytes:
        """Go one step on in the SASL exchange; raises AuthenticationFailed."""
        assert self.sasl is not None, "the handshake comes first"
        answer = self.sasl.step(token)
        # The principal is set only now: until the last token is checked nobody is anybody.
        if self.sasl.done:
            self.authenticated, self.principal, self.sasl = True, f"User:{self.sasl.user}", None
            if self.on_authenticated is not None:
                self.on_authenticated()
        return answer


@dataclass(slots=True, kw_only=True)
class Context:
    """One request under way."""

    broker: Broker
    session: ClientSession
    version: int
    client_id: str
    rows: int = 0  # of the answer, as far as they were counted
    _rows_at_pause: int = 0
    _characters: int = 0

    async def pause_after(self, number: int, name: str = "") -> None:
        """Let others be served after every few hundred elements of a long list; the answer has one row for each.

        `name` is given where something is computed from each of its characters: a few may be as long as many others.
        """
        # `count_rows` may have counted more; the larger one is nearer the truth.
        self.rows = max(self.rows, number)
        self._characters += len(name)
        is_full = self._characters > CHARACTERS_BETWEEN_PAUSES
        if is_full or number % ELEMENTS_BETWEEN_PAUSES == ELEMENTS_BETWEEN_PAUSES - 1:
            self._characters = 0
            await self.broker.world.clock.sleep_ms(0)

    async def count_rows(self, rows: int) -> None:
        """The answer has so many rows more: let others be served after every few hundred.

        A short request may ask for the same thing thousands of times, so no answer grows without end.
        """
        self.rows += rows
        if self.rows > ROWS_MAX:
            raise Refused(ErrorCode.INVALID_REQUEST, f"The answer would have more than {ROWS_MAX} rows.")
        if self.rows - self._rows_at_pause >= ELEMENTS_BETWEEN_PAUSES:
            self._rows_at_pause = self.rows
            await self.broker.world.clock.sleep_ms(0)

    @property
    def fetch_sessions(self) -> FetchSessions:
        """The broker's incremental fetch sessions."""
        return self.broker.fetch_sessions

    def may(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        """Whether the asker may do this; brokers may do everything, and so may anybody when nothing is authorized."""
        authorizer = self.broker.authorizer
        if authorizer is None or self.session.principal == INTERNAL:
            return True
        return authorizer.allows(self.broker.state.acls, self.session.asker, operation, resource, name)

    def may_somewhere(self, operation: Operation, resource: Resource) -> bool:
        """Whether there is any resource of this kind with which the asker may do this."""
        authorizer = self.broker.authorizer
        if authorizer is None or self.session.principal == INTERNAL:
            return True
        return authorizer.allows_some(self.broker.state.acls, self.session.asker, operation, resource)

    def operations(self, resource: Resource, name: str = CLUSTER_NAME) -> int:
        """What the asker may do with a resource, as answers carry it: a bit for each operation."""
        return sum(1 << operation for operation in OPERATIONS[resource] if self.may(operation, resource, name))

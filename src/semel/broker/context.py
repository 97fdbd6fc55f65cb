"""What an API function knows about the request it answers: the broker, the connection's session, the version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semel.broker.begun import Begun
    from semel.broker.broker import Broker
    from semel.broker.fetch_session import FetchSessions
    from semel.broker.sasl import SaslExchange

ANONYMOUS = "User:ANONYMOUS"


@dataclass(slots=True, kw_only=True)
class Session:
    """What is remembered of one connection."""

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
    begun: Begun | None = None
    notes: dict[str, str] = field(default_factory=dict)

    def take_token(self, token: bytes) -> bytes:
        """Go one step on in the SASL exchange; raises AuthenticationFailed."""
        assert self.sasl is not None, "the handshake comes first"
        answer = self.sasl.step(token)
        if self.sasl.done:
            self.authenticated, self.principal, self.sasl = True, f"User:{self.sasl.user}", None
            if self.on_authenticated is not None:
                self.on_authenticated()
        return answer


@dataclass(slots=True, kw_only=True)
class Context:
    """One request under way."""

    broker: Broker
    session: Session
    version: int
    client_id: str

    @property
    def fetch_sessions(self) -> FetchSessions:
        """The broker's incremental fetch sessions."""
        return self.broker.fetch_sessions

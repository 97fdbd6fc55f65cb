"""One member of a classic group, and the requests it waits with."""

from dataclasses import dataclass
from typing import Self

from semel.broker.groups.classic.types import DescribedMember, JoinRequest, Protocol
from semel.broker.groups.records import StoredMember


@dataclass(slots=True, kw_only=True)
class Member:
    """One member; `join_token` and `sync_token` are the requests it waits with."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    # It waits for its first join phase, so it cannot have sent a heartbeat yet.
    is_new: bool = False
    join_token: int | None = None
    sync_token: int | None = None

    @classmethod
    def joining(cls, member_id: str, request: JoinRequest) -> Self:
        """Make a member that has just asked to join."""
        return cls(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=rebalance_timeout_ms(request),
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
            is_new=True,
        )

    @classmethod
    def loaded(cls, stored: StoredMember, protocol_name: str | None) -> Self:
        """Make a member from what was stored: only the chosen protocol is known."""
        return cls(
            member_id=stored.member_id,
            group_instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            session_timeout_ms=stored.session_timeout_ms,
            # The others hear of it when it joins the next time.
            protocols=(Protocol(name=protocol_name or "", metadata=stored.metadata),),
            assignment=stored.assignment,
        )

    def update(self, request: JoinRequest) -> None:
        """Take over what a rejoining member says of itself."""
        self.protocols = request.protocols
        self.rebalance_timeout_ms = rebalance_timeout_ms(request)
        # Its group instance stays: a client that comes with another one is another member.
        self.session_timeout_ms = request.session_timeout_ms

    def metadata(self, protocol_name: str | None) -> bytes:
        """Find its metadata for a protocol; empty when it does not know it."""
        return next((protocol.metadata for protocol in self.protocols if protocol.name == protocol_name), b"")

    def may_expire(self) -> bool:
        """Say whether it is removed when its session ends: not while it waits for us, unless it has no member id."""
        return self.is_new or (self.join_token is None and self.sync_token is None)

    def stored(self, protocol_name: str | None, assignment: bytes) -> StoredMember:
        """Give the form in which it is written."""
        return StoredMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            metadata=self.metadata(protocol_name),
            assignment=assignment,
        )

    def described(self, protocol_name: str | None) -> DescribedMember:
        """Give the form in which it is described; without a protocol name its metadata is left out."""
        return DescribedMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            metadata=b"" if protocol_name is None else self.metadata(protocol_name),
            assignment=self.assignment,
        )


def rebalance_timeout_ms(request: JoinRequest) -> int:
    """Take the session timeout where the request has no rebalance timeout (version 0)."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms

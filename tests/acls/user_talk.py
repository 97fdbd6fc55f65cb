"""A conversation with a cluster that authenticates: `app`, with the rights under test, asks; `admin` peeks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from semel.protocol.message import Message
from semel.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from semel.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from semel.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from semel.protocol.messages.describe_acls import DescribeAclsResponse
from semel.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from semel.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from semel.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.acls.rights import PASSWORDS, Right, describe_everything, everything
from tests.differential.plain import Normaliser
from tests.differential.run import has_coordinator
from tests.differential.talk import MAIN, RawWire, Side, Talk, Versions

ADMIN = "admin"
APP = "app"


def sign_in(side: Side, user: str) -> RawWire:
    """A connection that has authenticated with PLAIN."""
    wire = RawWire(side.host, side.port)
    answer = wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse, version=1)
    assert answer.error_code == 0, answer
    token = f"\0{user}\0{PASSWORDS[user]}".encode()
    proved = wire.ask(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, version=2)
    assert proved.error_code == 0, proved
    return wire


@dataclass(slots=True)
class UserTalk(Talk):
    """As `Talk`; what is peeked at is asked by the administrator."""

    def wire(self, on: str = MAIN) -> RawWire:
        """The connection with this label, made when first asked for."""
        if on not in self._wires:
            self._wires[on] = sign_in(self.side, APP if on == MAIN else ADMIN)
        return self._wires[on]

    def start_afresh(self, topics: Mapping[UUID, str]) -> None:
        """Number ids from one again, but call these topics by name: what a case before was answered is forgotten."""
        self._normaliser = Normaliser(self.prefix, topics)

    def let(self, rights: Iterable[Right]) -> None:
        """Make these the only rights that there are, and wait until the broker has heard of it."""
        wanted = list(dict.fromkeys(rights))
        removed = self.peek(DeleteAclsRequest(filters=[everything()]), DeleteAclsResponse)
        assert removed.filter_results[0].error_code == 0, removed
        self.until(lambda: self._count() == 0, "no rights")
        if wanted:
            made = self.peek(CreateAclsRequest(creations=[one.creation() for one in wanted]), CreateAclsResponse)
            assert not any(row.error_code for row in made.results), made
            self.until(lambda: self._count() == len(wanted), "the rights")

    def peek_coordinator(self, key: str) -> None:
        """Wait until the coordinators of this key are there."""
        self.until(lambda: has_coordinator(self.wire("peek"), key), "coordinators")
        asked = OffsetFetchRequest(group_id=key, topics=None)
        self.until(lambda: not self.peek(asked, OffsetFetchResponse, version=7).error_code, "a group's coordinator")

    def each_version_on(self, name: str, response: type[Message], request: Message, on: str) -> None:
        """Ask the same on one connection in every version that both clusters serve."""
        for version in self.common(response):
            self.ask(name, request, response, version=version, on=on)

    def _count(self) -> int:
        found = self.peek(describe_everything(), DescribeAclsResponse)
        return sum(len(resource.acls) for resource in found.resources)


def versions_of(side: Side) -> Versions:
    """The versions that a broker says it serves."""
    with RawWire(side.host, side.port) as wire:
        request = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
        answer = wire.ask(request, ApiVersionsResponse, version=3)
    return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}

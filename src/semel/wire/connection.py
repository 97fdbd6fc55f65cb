"""One blocking connection to one broker: frames, correlation ids, versions, SASL.

Several requests may be under way; answers come in the order of sending. After any error the connection is closed.

Keeps: an answer goes to the request it belongs to, or the connection ends.
"""

from __future__ import annotations

import select
import struct
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from semel.errors import BrokerError, ConnectionFailure, Outcome, ProtocolError, UnsupportedVersionError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message, Output, decode, decode_at, encode_into
from semel.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from semel.protocol.messages.request_header import RequestHeader
from semel.protocol.messages.response_header import ResponseHeader
from semel.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from semel.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from semel.wire.channel import Channel
from semel.wire.deadline import Deadline
from semel.wire.sasl import exchange_for, refusal
from semel.wire.security import SaslSettings
from semel.wire.settings import WireSettings
from semel.wire.topology import BrokerAddress

API_VERSIONS_VERSION = 3
SESSION_USED_MAX = 0.85  # a login is renewed, by a new connection, before the broker ends it

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Sent(Generic[M]):
    """A request under way."""

    correlation_id: int
    version: int
    response: type[M]


class Connection:
    """A connection that is open and authenticated; for one thread at a time."""

    def __init__(self, address: BrokerAddress, settings: WireSettings, channel: Channel) -> None:
        """Use `open`."""
        self.address = address
        self.under_way: deque[int] = deque()
        self._settings = settings
        self._channel = channel
        self._correlation_id = 0
        self._versions: dict[int, ApiVersion] = {}
        self._renew_at_s = float("inf")

    @classmethod
    def open(cls, address: BrokerAddress, settings: WireSettings, deadline: Deadline) -> Self:
        """Connect, agree on versions, authenticate."""
        settings.check_login(address.host)  # a broker on loopback may point to others anywhere
        limit = deadline.within_ms(settings.request_timeout_ms)
        connection = cls(address, settings, Channel.open(address, settings, limit))
        try:
            connection._agree_on_versions(limit)
            if settings.sasl is not None:
                connection._log_in(settings.sasl, limit)
        except ConnectionFailure as failure:
            connection.close()
            # Nothing of the caller's was sent yet.
            failure.outcome = Outcome.DID_NOT_HAPPEN
            failure.because = failure.because or "it may want TLS or a login: see kafka.security.protocol"
            raise
        except BaseException:
            connection.close()
            raise
        return connection

    def _agree_on_versions(self, deadline: Deadline) -> None:
        request = ApiVersionsRequest(client_software_name="semel", client_software_version="0.1")
        self._write(request, API_VERSIONS_VERSION, deadline)
        body = self._channel.read_frame(deadline)
        # Looked at before anything is decoded: version 0 and version 3 both begin with the error code, behind
        # 4 bytes of correlation id (KIP-511).
        (code,) = struct.unpack_from(">h", body, 4) if len(body) >= 6 else (0,)
        if code == ErrorCode.UNSUPPORTED_VERSION:
            # A broker that does not know the version answers in the first one.
            self._write(ApiVersionsRequest(), 0, deadline)
            answer, _ = decode_at(ApiVersionsResponse, self._channel.read_frame(deadline), 0, 4)
        else:
            answer, _ = decode_at(ApiVersionsResponse, body, API_VERSIONS_VERSION, 4)
        if answer.error_code:
            raise ProtocolError(f"broker {self.address} does not tell its versions: error {answer.error_code}")
        self._versions = {row.api_key: row for row in answer.api_keys}

    def _log_in(self, sasl: SaslSettings, deadline: Deadline) -> None:
        shaken = self.call(SaslHandshakeRequest(mechanism=sasl.mechanism), SaslHandshakeResponse, deadline)
        if shaken.error_code:
            raise BrokerError(
                f"broker {self.address} does not let clients log in with {sasl.mechanism}",
                code=shaken.error_code,
                because=f"it offers {', '.join(shaken.mechanisms) or 'no mechanism'}",
            )
        exchange = exchange_for(sasl)
        # A generator speaks the client's half: what it yields is sent, and it is given the broker's answer.
        token = next(exchange)
        try:
            while True:
                token = exchange.send(self._authenticate(sasl, token, deadline))
        except StopIteration:
            return

    def _authenticate(self, sasl: SaslSettings, token: bytes, deadline: Deadline) -> bytes:
        started_s = time.monotonic()
        answer = self.call(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, deadline)
        if answer.error_code:
            who = f"user {sasl.username!r}" if sasl.username else "the client"
            raise refusal(f"broker {self.address} refused {who} ({sasl.mechanism}): {answer.error_message}")
        if answer.session_lifetime_ms > 0:
            # Counted from before the question, so that it ends here no later than at the broker.
            self._renew_at_s = started_s + answer.session_lifetime_ms / 1000 * SESSION_USED_MAX
        return answer.auth_bytes

    def version_of(self, request: type[Message], version_max: int | None = None) -> int:
        """The highest version of a request that both sides know."""
        row = self._versions.get(request.API_KEY)
        # Without a row the broker does not have the API at all: no version can be in common.
        first = max(request.FIRST, row.min_version) if row else 1
        last = min(request.LAST, row.max_version, request.LAST if version_max is None else version_max) if row else 0
        if last < first:
            raise UnsupportedVersionError(
                f"broker {self.address} and this client have no version of {request.__name__} in common"
            )
        return last

    def call(self, request: Message, response: type[M], deadline: Deadline, version_max: int | None = None) -> M:
        """Send a request and wait for its answer."""
        assert not self.under_way, "answers of earlier requests were not received"
        sent = self.send(request, response, deadline, version_max)
        return self.receive(sent, deadline)

    def send(self, request: Message, response: type[M], deadline: Deadline, version_max: int | None = None) -> Sent[M]:
        """Send a request; its answer is to be received later, in the order of sending."""
        version = self.version_of(type(request), version_max)
        self._write(request, version, deadline)
        sent = Sent(self._correlation_id, version, response)
        self.under_way.append(sent.correlation_id)
        return sent

    def receive(self, sent: Sent[M], deadline: Deadline) -> M:
        """Give the answer to a request, which must be the oldest under way."""
        assert self.under_way, "nothing is under way"
        assert self.under_way[0] == sent.correlation_id, "answers come in the order of sending"
        frame = self._channel.read_frame(deadline)
        self.under_way.popleft()
        try:
            return self._decoded(sent, frame)
        except ProtocolError:
            self.close()
            raise

    def _decoded(self, sent: Sent[M], frame: memoryview) -> M:
        header, start = decode_at(ResponseHeader, frame, int(sent.version >= sent.response.FLEXIBLE_FROM))
        # The stream is out of step. Every later answer would be somebody else's.
        if header.correlation_id != sent.correlation_id:
            raise ProtocolError(f"broker {self.address} answered another request than the oldest")
        return decode(sent.response, frame[start:], sent.version)

    def _write(self, request: Message, version: int, deadline: Deadline) -> None:
        # An int32 on the wire; after the largest it begins at 0 again.
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        header = RequestHeader(
            request_api_key=request.API_KEY,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self._settings.client_id,
        )
        output = Output()
        encode_into(header, 2 if version >= request.FLEXIBLE_FROM else 1, output)
        encode_into(request, version, output)
        self._channel.write_frame(output.finish(), deadline)

    @property
    def usable(self) -> bool:
        """Whether a new request may be sent: open, login not about to end, nothing arrived that nobody asked for."""
        if self.closed or (not self.under_way and time.monotonic() >= self._renew_at_s):
            return False
        # An idle connection that has something to read was closed by the broker.
        return bool(self.under_way) or not self.has_answer

    @property
    def closed(self) -> bool:
        """Whether it is closed: by this side, or after an error."""
        return self._channel.closed

    @property
    def has_answer(self) -> bool:
        """Whether bytes, or the end of the connection, are there to be read."""
        return bool(wait_for_answer([self], 0))

    def fileno(self) -> int:
        """For `select`."""
        return self._channel.fileno()

    @property
    def buffered_bytes(self) -> int:
        """Bytes that are decrypted already, which `select` does not see."""
        return self._channel.buffered_bytes

    def close(self) -> None:
        """Close; answers that did not come yet are lost."""
        self.under_way.clear()
        self._channel.close()


def wait_for_answer(connections: Sequence[Connection], timeout_s: float) -> list[Connection]:
    """Wait until some of these have something to read; empty when none has in time."""
    # TLS may have decrypted an answer already; the socket itself then looks empty.
    ready = [connection for connection in connections if connection.buffered_bytes]
    if ready:
        return ready
    poll = select.poll()
    by_number = {connection.fileno(): connection for connection in connections}
    for number in by_number:
        poll.register(number, select.POLLIN)
    return [by_number[number] for number, _ in poll.poll(max(0, timeout_s) * 1000)]

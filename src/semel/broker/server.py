"""The broker's connections: frames in, answers out, one request at a time per connection, in order.

As in Apache Kafka, a connection's next request is not looked at before the answer to the last one is written, so
pipelined requests are answered in the order they came. A slow reader holds up only itself: log slices are read from
disk as the socket takes them, so an unread answer costs one chunk of memory, not its size.

Keeps: B2 bytes that are no Kafka request end that connection and nothing else.
"""

from __future__ import annotations

import logging
from struct import Struct
from typing import TYPE_CHECKING

from semel.broker.context import Context, Session
from semel.broker.intercept import Action, After, AnswerError, CutMidFrame, Delay, DropRequest, DropResponse, Seen
from semel.broker.registry import AnyApi, apis
from semel.errors import ConnectionFailure, ProtocolError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message, Output, Part, decode_at, encode_into, size_of
from semel.protocol.message_compiler import skip_tags
from semel.world.network import Connection

if TYPE_CHECKING:
    from semel.broker.broker import Broker

log = logging.getLogger("semel.broker")

_REQUEST_HEAD = Struct(">hhih")
_SIZE_AND_CORRELATION = Struct(">ii")
API_VERSIONS_KEY = 18
CHUNK_BYTES = 256 * 1024


class Head:
    """The header of a request."""

    __slots__ = ("api_key", "body_at", "client_id", "correlation_id", "version")

    def __init__(self, frame: memoryview) -> None:
        """Read the part that all header versions share."""
        try:
            self.api_key, self.version, self.correlation_id, size = _REQUEST_HEAD.unpack_from(frame)
            self.body_at = _REQUEST_HEAD.size + max(size, 0)
            if self.body_at > len(frame):
                raise ProtocolError("the client id is longer than its request")
            self.client_id = str(frame[_REQUEST_HEAD.size : self.body_at], "utf-8")
        except (ValueError, OSError) as error:
            raise ProtocolError(f"not a Kafka request header: {error}") from None


class Silenced(Exception):  # noqa: N818  (a way out of the loop, not a failure)
    """The connection stays open and nothing is said on it any more."""


class Server:
    """Serves the connections of one broker."""

    def __init__(self, broker: Broker) -> None:
        """Serve this broker's APIs."""
        self._broker = broker
        self._sessions: dict[Connection, Session] = {}

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return len(self._sessions)

    async def serve(self, connection: Connection) -> None:
        """Answer one connection's requests until it ends."""
        session = Session(peer=connection.peer, authenticated=not self._broker.requires_sasl)
        self._sessions[connection] = session
        try:
            await self._serve(connection, session)
        except Silenced:
            await self._stay_silent(connection)
        except ConnectionFailure as error:
            log.debug("broker %d: %s: %s", self._broker.id, connection.peer, error.summary)
        except ProtocolError as error:
            log.warning("broker %d: closing %s: %s", self._broker.id, connection.peer, error)
        finally:
            del self._sessions[connection]

    async def _serve(self, connection: Connection, session: Session) -> None:
        monotonic_ms = self._broker.world.clock.monotonic_ms
        while (frame := await connection.read_frame()) is not None:
            session.busy = True
            await self._exchange(connection, session, frame)
            session.busy = False
            session.last_active_ms = monotonic_ms()
            if session.close_after_answer:
                return

    async def _stay_silent(self, connection: Connection) -> None:
        while await connection.read_frame() is not None:
            pass

    def close_idle(self, idle_ms_max: float) -> None:
        """End connections that asked nothing for too long, half-open ones among them."""
        oldest = self._broker.world.clock.monotonic_ms() - idle_ms_max
        for connection, session in list(self._sessions.items()):
            if not session.busy and session.last_active_ms < oldest:
                connection.abort()

    async def _exchange(self, connection: Connection, session: Session, frame: memoryview) -> None:
        head = Head(frame)
        api = apis().get(head.api_key)
        if api is None:
            raise ProtocolError(f"API key {head.api_key} is unknown here")
        if not api.serves(head.version):
            return await self._refuse_version(connection, api, head)
        request = self._decode(api, head, frame)
        if not (session.authenticated or api.before_authentication):
            raise ProtocolError(f"{api.name} before authentication")
        context = Context(broker=self._broker, session=session, version=head.version, client_id=head.client_id)
        if self._broker.intercepts.armed:
            return await self._exchange_intercepted(connection, api, head, context, request)
        response = await self._answer(api, context, request)
        if response is not None:
            await self._send(connection, encode_response(api, head, response))
        return None

    async def _refuse_version(self, connection: Connection, api: AnyApi, head: Head) -> None:
        if api.key != API_VERSIONS_KEY:
            raise ProtocolError(f"{api.name} v{head.version} is not served, only v{api.first} to v{api.last}")
        # Any client can read version 0, so it is told there what it may ask instead.
        head.version = 0
        refusal = api.refuse(api.request(), ErrorCode.UNSUPPORTED_VERSION)
        await self._send(connection, encode_response(api, head, refusal))

    def _decode(self, api: AnyApi, head: Head, frame: memoryview) -> Message:
        position = head.body_at
        try:
            if head.version >= api.request.FLEXIBLE_FROM:
                position = skip_tags(frame, position)
        except (IndexError, ValueError) as error:
            raise ProtocolError(f"{api.name} v{head.version}: bad header tags: {error}") from None
        return decode_at(api.request, frame, head.version, position)[0]

    async def _answer(self, api: AnyApi, context: Context, request: Message) -> Message | None:
        try:
            return await api.answer(context, request)
        except (ProtocolError, ConnectionFailure):
            raise
        except Exception:
            log.exception("broker %d: %s v%d failed", self._broker.id, api.name, context.version)
            return api.refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR)

    async def _exchange_intercepted(
        self, connection: Connection, api: AnyApi, head: Head, context: Context, request: Message
    ) -> None:
        seen = Seen(
            broker_id=self._broker.id,
            api_key=head.api_key,
            version=head.version,
            client_id=head.client_id,
            request=request,
        )
        action = self._broker.intercepts.take(seen)
        await self._before(connection, action)
        if isinstance(action, AnswerError):
            response: Message | None = api.refuse(request, action.code)
        else:
            response = await self._answer(api, context, request)
        if response is not None:
            await self._after(connection, action, encode_response(api, head, response))

    async def _before(self, connection: Connection, action: Action | None) -> None:
        match action:
            case DropRequest(then=then):
                self._lose(connection, then)
            case Delay(ms=ms, response=False):
                await self._broker.world.clock.sleep_ms(ms)

    async def _after(self, connection: Connection, action: Action | None, parts: list[Part]) -> None:
        match action:
            case DropResponse(then=then):
                self._lose(connection, then)
            case Delay(ms=ms, response=True):
                await self._broker.world.clock.sleep_ms(ms)
            case CutMidFrame(after_bytes=after_bytes):
                connection.write(_joined(parts)[:after_bytes])
                connection.close()
                raise ConnectionFailure("cut by a fault hook")
        await self._send(connection, parts)

    def _lose(self, connection: Connection, then: After) -> None:
        if then is After.SILENCE:
            raise Silenced
        connection.abort()
        raise ConnectionFailure("cut by a fault hook")

    async def _send(self, connection: Connection, parts: list[Part]) -> None:
        for part in parts:
            if isinstance(part, (bytes, bytearray, memoryview)):
                connection.write(part)
                continue
            for chunk in part.chunks(CHUNK_BYTES):
                connection.write(chunk)
                await connection.drain()
        await connection.drain()


def _joined(parts: list[Part]) -> bytes:
    plain = (
        part if isinstance(part, (bytes, bytearray, memoryview)) else b"".join(part.chunks(CHUNK_BYTES))
        for part in parts
    )
    return b"".join(plain)


def encode_response(api: AnyApi, head: Head, response: Message) -> list[Part]:
    """Encode size, response header and body."""
    output = Output()
    output.buffer += bytes(_SIZE_AND_CORRELATION.size)
    # ApiVersions keeps the oldest header, so that a client can read the answer before it knows the broker.
    if head.version >= api.response.FLEXIBLE_FROM and api.key != API_VERSIONS_KEY:
        output.buffer.append(0)
    first = output.buffer
    encode_into(response, head.version, output)
    parts = output.finish()
    _SIZE_AND_CORRELATION.pack_into(first, 0, size_of(parts) - 4, head.correlation_id)
    return parts

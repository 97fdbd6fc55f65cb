"""The broker's connections: frames in, answers out, one request at a time per connection, in order.

As in Apache Kafka, a connection's next request is not looked at before the answer to the last one is written, so
pipelined requests are answered in the order they came. A slow reader holds up only itself: log slices are read from
disk as the socket takes them, so an unread answer costs one chunk of memory, not its size.

Keeps: B2 bytes that are no Kafka request end that connection and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from semel.broker.begun import Begun
from semel.broker.context import Context, Session
from semel.broker.envelope import API_VERSIONS_KEY, CHUNK_BYTES, Head, encode_response, joined
from semel.broker.intercept import (
    After,
    AnswerError,
    CutMidFrame,
    Delay,
    DropRequest,
    DropResponse,
    Hook,
    Seen,
    hold,
)
from semel.broker.refused import Refused
from semel.broker.registry import AnyApi, apis
from semel.broker.sasl import AuthenticationFailed
from semel.errors import ConnectionFailure, ProtocolError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message, Part, decode_at
from semel.protocol.message_compiler import skip_tags
from semel.world.network import Connection

if TYPE_CHECKING:
    from semel.broker.broker import Broker

log = logging.getLogger("semel.broker")

UNAUTHENTICATED_BYTES_MAX = 512 * 1024
REFUSAL_DELAY_MS = 100


class Silenced(Exception):
    """The connection stays open and nothing is said on it any more."""


class Server:
    """Serves the connections of one broker."""

    def __init__(self, broker: Broker) -> None:
        """Serve this broker's APIs."""
        self._broker = broker
        self._apis = apis()
        self._sessions: dict[Connection, Session] = {}

    @property
    def first_frame_bytes_max(self) -> int:
        """The longest request that is read of a new connection, whose bytes may come before `serve` runs."""
        return UNAUTHENTICATED_BYTES_MAX if self._broker.requires_sasl else self._broker.frame_bytes_max

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return len(self._sessions)

    async def serve(self, connection: Connection) -> None:
        """Answer one connection's requests until it ends."""
        session = Session(
            peer=connection.peer,
            authenticated=not self._broker.requires_sasl,
            on_authenticated=partial(connection.limit_frames, self._broker.frame_bytes_max),
            last_active_ms=self._broker.world.clock.monotonic_ms(),
        )
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
            if session.begun is not None:
                session.begun.close()

    async def _serve(self, connection: Connection, session: Session) -> None:
        task = asyncio.current_task()
        assert task is not None
        connection.offer_frames(partial(self._is_answered_at_once, connection, session, task))
        while (frame := await connection.read_frame()) is not None:
            if session.begun is None:
                session.busy = True
                await self._exchange(connection, session, frame)
            else:
                await session.begun
                session.begun = None
            self._rest(session)
            if session.close_after_answer:
                return

    def _is_answered_at_once(
        self, connection: Connection, session: Session, task: asyncio.Task[object], frame: memoryview
    ) -> bool:
        """Begin an exchange outside of its task; what cannot end there is left to the task."""
        if asyncio.current_task(task.get_loop()) is not None:  # in virtual time another task may bring the frame
            return False
        session.busy = True
        begun = Begun(self._exchange(connection, session, frame), task)
        if begun.finished and not session.close_after_answer:
            self._rest(session)
            return True
        session.begun = begun
        return False

    def _rest(self, session: Session) -> None:
        session.busy = False
        session.last_active_ms = self._broker.world.clock.monotonic_ms()

    async def _stay_silent(self, connection: Connection) -> None:
        connection.offer_frames(None)
        while await connection.read_frame() is not None:
            pass

    def abort_all(self) -> None:
        """End every connection at once; what is queued is lost."""
        for connection in list(self._sessions):
            connection.abort()

    def close_idle(self, idle_ms_max: float) -> None:
        """End connections on which nothing moved for too long: half-open ones, and those that do not read answers."""
        if idle_ms_max < 0:
            return
        oldest = self._broker.world.clock.monotonic_ms() - idle_ms_max
        for connection, session in list(self._sessions.items()):
            if not session.busy and session.last_active_ms < oldest:
                connection.abort()

    async def _exchange(self, connection: Connection, session: Session, frame: memoryview) -> None:
        if self._broker.gate.closed:
            await self._broker.gate.passed()
        if not session.authenticated and session.sasl_bare_tokens:
            return await self._take_bare_token(connection, session, bytes(frame))
        head = Head(frame)
        api = self._apis.get(head.api_key)
        if api is None:
            raise ProtocolError(f"API key {head.api_key} is unknown here")
        if not session.authenticated:
            _check_unauthenticated(api)
        if not api.serves(head.version):
            return await self._refuse_version(connection, session, api, head)
        request = self._decode(api, head, frame)
        context = Context(broker=self._broker, session=session, version=head.version, client_id=head.client_id)
        if self._broker.intercepts.armed:
            return await self._exchange_faulty(connection, api, head, context, request)
        response = await self._answer(api, context, request)
        if response is not None:
            await self._send(connection, session, encode_response(api, head, response))
        return None

    async def _take_bare_token(self, connection: Connection, session: Session, token: bytes) -> None:
        """After SaslHandshake v0 tokens come without a request around them, and so do their answers."""
        try:
            answer = session.take_token(token)
        except AuthenticationFailed as failed:
            await self.delay_refusal(session, failed)
            return
        await self._send(connection, session, [len(answer).to_bytes(4, "big"), answer])

    async def delay_refusal(self, session: Session, failed: AuthenticationFailed) -> None:
        """Make guessing slow; the refusal is the last thing said on its connection."""
        log.info(
            "broker %d: %s did not authenticate: %s", self._broker.id, session.peer, failed.because or failed.summary
        )
        session.close_after_answer = True
        await self._broker.world.clock.sleep_ms(REFUSAL_DELAY_MS)

    async def _refuse_version(self, connection: Connection, session: Session, api: AnyApi, head: Head) -> None:
        if api.key != API_VERSIONS_KEY:
            raise ProtocolError(f"{api.name} v{head.version} is not served, only v{api.first} to v{api.last}")
        # Any client can read version 0, so it is told there what it may ask instead.
        head.version = 0
        refusal = api.refuse(api.request(), ErrorCode.UNSUPPORTED_VERSION)
        await self._send(connection, session, encode_response(api, head, refusal))

    def _decode(self, api: AnyApi, head: Head, frame: memoryview) -> Message:
        position = head.body_at
        try:
            if head.version >= api.request.FLEXIBLE_FROM:
                position = position + 1 if frame[position] == 0 else skip_tags(frame, position)
        except (IndexError, ValueError) as error:
            raise ProtocolError(f"{api.name} v{head.version}: bad header tags: {error}") from None
        return decode_at(api.request, frame, head.version, position)[0]

    async def _answer(self, api: AnyApi, context: Context, request: Message) -> Message | None:
        try:
            return await api.answer(context, request)
        except (ProtocolError, ConnectionFailure):
            raise
        except Refused as refused:
            return api.refuse(request, ErrorCode(refused.code))
        except Exception:
            log.exception("broker %d: %s v%d failed", self._broker.id, api.name, context.version)
            return api.refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR)

    async def _exchange_faulty(
        self, connection: Connection, api: AnyApi, head: Head, context: Context, request: Message
    ) -> None:
        seen = Seen(
            broker_id=self._broker.id,
            api_key=head.api_key,
            version=head.version,
            client_id=head.client_id,
            request=request,
        )
        hook = self._broker.intercepts.take(seen)
        if hook is not None:
            await self._before(connection, hook)
        if hook is not None and isinstance(hook.action, AnswerError):
            response: Message | None = api.refuse(request, hook.action.code)
        else:
            response = await self._answer(api, context, request)
        if response is None:
            return
        parts = encode_response(api, head, response)
        if hook is not None:
            await self._after(connection, hook, parts)
        await self._send(connection, context.session, parts)

    async def _before(self, connection: Connection, hook: Hook) -> None:
        match hook.action:
            case DropRequest(then=then):
                _lose(connection, then)
            case Delay(ms=ms, response=False):
                await hold(hook, self._broker.world.clock, ms)

    async def _after(self, connection: Connection, hook: Hook, parts: list[Part]) -> None:
        match hook.action:
            case DropResponse(then=then):
                _lose(connection, then)
            case Delay(ms=ms, response=True):
                await hold(hook, self._broker.world.clock, ms)
            case CutMidFrame(after_bytes=after_bytes):
                connection.write(joined(parts)[:after_bytes])
                connection.close()
                raise ConnectionFailure("cut by a fault hook")

    async def _send(self, connection: Connection, session: Session, parts: list[Part]) -> None:
        # From here the peer is awaited, not the broker: if it takes nothing for too long it counts as idle.
        session.busy = False
        if self._broker.gate.closed:
            await self._broker.gate.passed()
        for part in parts:
            chunks = (part,) if isinstance(part, (bytes, bytearray, memoryview)) else part.chunks(CHUNK_BYTES)
            for chunk in chunks:
                if not connection.write(chunk):
                    await connection.drain()
                    session.last_active_ms = self._broker.world.clock.monotonic_ms()


def _check_unauthenticated(api: AnyApi) -> None:
    if not api.before_authentication:
        raise ProtocolError(f"{api.name} before authentication")


def _lose(connection: Connection, then: After) -> None:
    if then is After.SILENCE:
        raise Silenced
    connection.abort()
    raise ConnectionFailure("cut by a fault hook")

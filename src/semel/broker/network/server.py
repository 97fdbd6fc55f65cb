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

from semel.broker.network.access import answer_within_rights
from semel.broker.network.context import ClientSession, Context
from semel.broker.network.envelope import (
    API_VERSIONS_KEY,
    CHUNK_BYTES,
    Head,
    encode_long_response,
    encode_response,
    joined,
)
from semel.broker.network.exchange import StartedExchange
from semel.broker.network.registry import AnyApi, apis
from semel.broker.network.sasl import AuthenticationFailed
from semel.broker.runtime.intercept import (
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
from semel.broker.runtime.refused import Refused
from semel.broker.runtime.yielding import run_pausing
from semel.errors import ConnectionFailure, ProtocolError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message, Part, decode_at
from semel.protocol.message_compiler import limit_elements, skip_tags
from semel.world.network import Connection

if TYPE_CHECKING:
    from semel.broker.broker import Broker

log = logging.getLogger("semel.broker")

UNAUTHENTICATED_BYTES_MAX = 512 * 1024
REFUSAL_DELAY_MS = 100  # the default of Apache Kafka's connection.failed.authentication.delay.ms
LINE_CHARACTERS_MAX = 500
PRODUCE_KEY = 0
# Only Produce carries bulk. What else there is may have so many bytes, and any request so many elements in its arrays:
# a cluster has 5,000 replicas at most, and a request may name each with its topic. Each element costs some microseconds
# in which nobody else is served.
PLAIN_REQUEST_BYTES_MAX = 8 << 20
ELEMENTS_MAX = 10_000
ELEMENTS_AT_ONCE_MAX = 1_000


class Silenced(Exception):
    """The connection stays open, and nothing is sent on it any more."""


class Server:
    """Serves the connections of one broker."""

    def __init__(self, broker: Broker) -> None:
        """Serve this broker's APIs."""
        self._broker = broker
        self._apis = apis()
        self._sessions: dict[Connection, ClientSession] = {}

    @property
    def first_frame_bytes_max(self) -> int:
        """How long the first request of a connection may be; its bytes may come before `serve` runs."""
        return UNAUTHENTICATED_BYTES_MAX if self._broker.requires_sasl else self._broker.frame_bytes_max

    async def serve(self, connection: Connection) -> None:
        """Answer one connection's requests until it ends."""
        session = ClientSession(
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
            self._broker.client_log.write(
                logging.WARNING, "broker %d: closing %s: %s", self._broker.id, connection.peer, _short(str(error))
            )
        finally:
            del self._sessions[connection]
            if session.started is not None:
                session.started.close()

    async def _serve(self, connection: Connection, session: ClientSession) -> None:
        task = asyncio.current_task()
        assert task is not None
        # From here on most frames never wake this task, see `exchange`.
        connection.offer_frames(partial(self._is_answered_at_once, connection, session, task))
        while (frame := await connection.read_frame()) is not None:
            if session.started is None:
                session.busy = True
                await self._exchange(connection, session, frame)
            else:
                # This frame's exchange has begun in `_is_answered_at_once`. The next one is read when it has ended:
                # answers leave in the order of the requests.
                await session.started
                session.started = None
            self._rest(session)
            if session.close_after_answer:
                return

    def _is_answered_at_once(
        self, connection: Connection, session: ClientSession, task: asyncio.Task[object], frame: memoryview
    ) -> bool:
        """Begin an exchange outside of its task; what cannot end there is left to the task."""
        if asyncio.current_task(task.get_loop()) is not None:  # in virtual time another task may bring the frame
            return False
        session.busy = True
        started = StartedExchange(self._exchange(connection, session, frame), task)
        if started.finished and not session.close_after_answer:
            self._rest(session)
            return True
        session.started = started
        return False

    def _rest(self, session: ClientSession) -> None:
        session.busy = False
        session.last_active_ms = self._broker.world.clock.monotonic_ms()

    async def _stay_silent(self, connection: Connection) -> None:
        # Requests are still read, so that the peer sees neither an end nor a full buffer, only no answer.
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
            # A busy one waits for this broker: a Fetch or a JoinGroup may take longer than the limit.
            if not session.busy and session.last_active_ms < oldest:
                connection.abort()

    async def _exchange(self, connection: Connection, session: ClientSession, frame: memoryview) -> None:
        if self._broker.pausing.is_paused:
            await self._broker.pausing.resumed()
        if not session.authenticated and session.sasl_bare_tokens:
            return await self._take_bare_token(connection, session, bytes(frame))
        head = Head(frame)
        api = self._apis.get(head.api_key)
        # No answer could be read, since its form depends on the API: Apache Kafka closes the connection, too.
        if api is None:
            raise ProtocolError(f"API key {head.api_key} is unknown here")
        if not session.authenticated:
            _check_unauthenticated(api)
        if not api.serves(head.version):
            return await self._refuse_version(connection, session, api, head)
        request, elements = self._decode(api, head, frame)
        is_large = elements > ELEMENTS_AT_ONCE_MAX
        if is_large:  # to decode it was one turn of the loop; the answer begins in another
            await self._broker.world.clock.sleep_ms(0)
        context = Context(broker=self._broker, session=session, version=head.version, client_id=head.client_id)
        if self._broker.intercepts.armed:
            return await self._exchange_faulty(connection, api, head, context, request)
        response = await self._answer(api, context, request)
        # Produce with acks=0 has no answer.
        if response is not None:
            await self._send(connection, session, await self._encode(api, head, context, response, is_large=is_large))
        return None

    async def _encode(
        self, api: AnyApi, head: Head, context: Context, response: Message, *, is_large: bool
    ) -> list[Part]:
        if not is_large and context.rows <= ELEMENTS_AT_ONCE_MAX:
            return encode_response(api, head, response)
        clock = self._broker.world.clock
        await clock.sleep_ms(0)
        return await run_pausing(encode_long_response(api, head, response), clock)

    async def _take_bare_token(self, connection: Connection, session: ClientSession, token: bytes) -> None:
        """After SaslHandshake v0 tokens come without a request around them, and so do their answers."""
        try:
            answer = session.take_token(token)
        except AuthenticationFailed as failed:
            await self.delay_refusal(session, failed)
            return
        await self._send(connection, session, [len(answer).to_bytes(4, "big"), answer])

    async def delay_refusal(self, session: ClientSession, failed: AuthenticationFailed) -> None:
        """Make guessing slow; the refusal is the last thing sent on its connection."""
        why = _short(failed.because or failed.summary)
        self._broker.client_log.write(
            logging.INFO, "broker %d: %s did not authenticate: %s", self._broker.id, session.peer, why
        )
        session.close_after_answer = True
        await self._broker.world.clock.sleep_ms(REFUSAL_DELAY_MS)

    async def _refuse_version(self, connection: Connection, session: ClientSession, api: AnyApi, head: Head) -> None:
        if api.key != API_VERSIONS_KEY:
            raise ProtocolError(f"{api.name} v{head.version} is not served, only v{api.first} to v{api.last}")
        # Any client can read version 0, so the answer in it says what may be asked instead.
        head.version = 0
        refusal = api.refuse(api.request(), ErrorCode.UNSUPPORTED_VERSION)
        await self._send(connection, session, encode_response(api, head, refusal))

    def _decode(self, api: AnyApi, head: Head, frame: memoryview) -> tuple[Message, int]:
        """The request, and how many elements its arrays have together."""
        position = head.body_at
        if api.key != PRODUCE_KEY and len(frame) > PLAIN_REQUEST_BYTES_MAX:
            limit = PLAIN_REQUEST_BYTES_MAX
            raise ProtocolError(f"{api.name} v{head.version} has {len(frame)} bytes, more than {limit}")
        # Counted while decoding: a few bytes can announce millions of elements.
        limit_elements(ELEMENTS_MAX)
        try:
            if head.version >= api.request.FLEXIBLE_FROM:
                position = self._behind_tags(api, head, frame)
            request = decode_at(api.request, frame, head.version, position)[0]
        finally:
            # Also after an error: the coordinators decode their own records in this thread, without a limit.
            left = limit_elements()
        return request, ELEMENTS_MAX - left

    def _behind_tags(self, api: AnyApi, head: Head, frame: memoryview) -> int:
        try:
            return head.body_at + 1 if frame[head.body_at] == 0 else skip_tags(frame, head.body_at)
        except (IndexError, ValueError) as error:
            raise ProtocolError(f"{api.name} v{head.version}: bad header tags: {error}") from None

    async def _answer(self, api: AnyApi, context: Context, request: Message) -> Message | None:
        try:
            if self._broker.authorizer is None:
                return await api.answer(context, request)
            return await answer_within_rights(api, context, request)
        except (ProtocolError, ConnectionFailure):
            raise
        except Refused as refused:
            return api.refuse(request, ErrorCode(refused.code))
        except Exception:  # noqa: BLE001 - one request fails, with its traceback in the log
            self._broker.client_log.write(
                logging.ERROR,
                "broker %d: %s v%d failed",
                self._broker.id,
                api.name,
                context.version,
                with_traceback=True,
            )
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

    async def _send(self, connection: Connection, session: ClientSession, parts: list[Part]) -> None:
        # From here the peer is awaited, not the broker: if it takes nothing for too long it counts as idle.
        session.busy = False
        if self._broker.pausing.is_paused:
            await self._broker.pausing.resumed()
        for part in parts:
            chunks = (part,) if isinstance(part, (bytes, bytearray, memoryview)) else part.chunks(CHUNK_BYTES)
            for chunk in chunks:
                if not connection.write(chunk):
                    await connection.drain()
                    session.last_active_ms = self._broker.world.clock.monotonic_ms()


def _short(text: str) -> str:
    """What a client has sent may be quoted in an error, and may be long."""
    return text if len(text) <= LINE_CHARACTERS_MAX else f"{text[:LINE_CHARACTERS_MAX]}…"


def _check_unauthenticated(api: AnyApi) -> None:
    if not api.before_authentication:
        raise ProtocolError(f"{api.name} before authentication")


def _lose(connection: Connection, then: After) -> None:
    if then is After.SILENCE:
        raise Silenced
    connection.abort()
    raise ConnectionFailure("cut by a fault hook")

"""How brokers of one cluster ask each other: the same messages and API functions as for clients, without sockets.

Brokers of an embedded cluster live in one process, so a request between them needs no port that somebody else could
use. Fault hooks meet these requests as they meet those of clients, and a link can be cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from semel.broker.context import Context, Session
from semel.broker.intercept import AnswerError, CutMidFrame, Delay, DropRequest, DropResponse, Seen, hold
from semel.broker.registry import apis
from semel.errors import ConnectionFailure
from semel.protocol.message import Message

if TYPE_CHECKING:
    from semel.broker.broker import Broker

ASK_MS_MAX = 30_000
INTERNAL = "internal"

Response = TypeVar("Response", bound=Message)


class Links:
    """The connections between the brokers of one cluster."""

    def __init__(self, brokers: Callable[[], Mapping[int, Broker]]) -> None:
        """`brokers` gives those that run now."""
        self._brokers = brokers
        self._cut: set[tuple[int, int]] = set()
        self._under_way: dict[int, dict[asyncio.Future[Message | None], None]] = {}

    def drop(self, target: int) -> None:
        """A broker is gone, and with it the requests it was working on."""
        for request in self._under_way.pop(target, {}):
            request.cancel()

    def cut(self, source: int, target: int) -> None:
        """Let nothing pass from one broker to another."""
        self._cut.add((source, target))

    def heal(self) -> None:
        """Let everything pass again."""
        self._cut.clear()

    async def ask(self, source: int, target: int, request: Message, response: type[Response], version: int) -> Response:
        """Send a request and wait for its answer; ConnectionFailure when it does not come."""
        try:
            async with asyncio.timeout(ASK_MS_MAX / 1000):
                answer = await self._exchange(source, target, request, version)
        except TimeoutError:
            raise ConnectionFailure(f"broker {target} did not answer broker {source} in time") from None
        assert isinstance(answer, response)
        return answer

    async def _exchange(self, source: int, target: int, request: Message, version: int) -> Message | None:
        broker = self._reached(source, target)
        api = apis()[request.API_KEY]
        session = Session(peer=f"broker {source}", authenticated=True, principal=INTERNAL)
        context = Context(broker=broker, session=session, version=version, client_id=f"broker-{source}")
        seen = Seen(broker_id=target, api_key=api.key, version=version, client_id=context.client_id, request=request)
        hook = broker.intercepts.take(seen)
        action = hook.action if hook is not None else None
        if isinstance(action, DropRequest):
            raise ConnectionFailure(f"the request from broker {source} to broker {target} was lost")
        if hook is not None and isinstance(action, Delay):
            await hold(hook, broker.world.clock, action.ms)
        if isinstance(action, AnswerError):
            return api.refuse(request, action.code)
        answer = await self._carry_out(target, api.answer(context, request))
        if isinstance(action, (DropResponse, CutMidFrame)):
            raise ConnectionFailure(f"the answer from broker {target} to broker {source} was lost")
        self._reached(target, source)
        return answer

    async def _carry_out(self, target: int, work: Awaitable[Message | None]) -> Message | None:
        """A request that has arrived is carried out even when the asker is gone, but not when its target dies."""
        request = asyncio.ensure_future(work)
        under_way = self._under_way.setdefault(target, {})
        under_way[request] = None
        request.add_done_callback(lambda done: under_way.pop(done, None))
        await asyncio.wait({request})
        if request.cancelled():
            raise ConnectionFailure(f"broker {target} died")
        return request.result()

    def _reached(self, source: int, target: int) -> Broker:
        broker = self._brokers().get(target)
        if broker is None or (source, target) in self._cut:
            raise ConnectionFailure(f"broker {target} cannot be reached from broker {source}")
        return broker

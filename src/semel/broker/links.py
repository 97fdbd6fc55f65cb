"""How the brokers of one cluster, and its controller, ask each other: messages and answers, without sockets.

They live in one process, so a request between them needs no port that somebody else could use. Fault hooks meet these
requests as they meet those of clients. A link can be cut, one way or both: what would pass it is lost, answers too.
A party that is stopped in place (`gate`) takes nothing and hears nothing until it goes on.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from semel.broker.gate import Gate
from semel.broker.intercept import AnswerError, CutMidFrame, Delay, DropRequest, DropResponse, Intercepts, Seen, hold
from semel.errors import ConnectionFailure
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from semel.world.clock import Clock

ASK_MS_MAX = 30_000
CONTROLLER = 0
INTERNAL = "internal"  # the principal of a broker
FETCH = 1
REPLICA_FETCH = 1001  # a follower's Fetch, apart from those of consumers so that a hook can tell them
BACKGROUND = frozenset({REPLICA_FETCH, 56, 62, 63})

Response = TypeVar("Response", bound=Message)


class Party(Protocol):
    """One end of a link: a broker or the controller."""

    @property
    def gate(self) -> Gate:
        """Closed while it is stopped in place."""

    @property
    def clock(self) -> Clock:
        """Its time."""

    def answer_link(self, source: int, request: Message, version: int) -> Awaitable[Message | None]:
        """Carry a request out."""

    def refuse_link(self, request: Message, code: ErrorCode) -> Message:
        """Answer with an error and carry nothing out."""


class Links:
    """The connections inside one cluster; 0 is the controller."""

    def __init__(self, find: Callable[[int], Party | None], intercepts: Intercepts) -> None:
        """`find` gives a party that runs now."""
        self._find = find
        self._intercepts = intercepts
        self._cut: set[tuple[int, int]] = set()
        self._lost: Counter[tuple[int, int]] = Counter()
        self._under_way: dict[int, dict[asyncio.Future[Message | None], None]] = {}

    def drop(self, target: int) -> None:
        """A party is gone, and with it the requests it was working on."""
        for request in self._under_way.pop(target, {}):
            request.cancel()

    def cut(self, source: int, target: int) -> None:
        """Let nothing pass from one party to another."""
        self._cut.add((source, target))

    def mend(self, source: int, target: int) -> None:
        """Let everything pass again between two parties, both ways."""
        self._cut -= {(source, target), (target, source)}

    def heal(self) -> None:
        """Let everything pass again."""
        self._cut.clear()

    def lost_between(self, source: int, target: int) -> int:
        """How many requests and answers did not pass because the link between the two was cut, either way."""
        return self._lost[source, target] + self._lost[target, source]

    def is_open(self, source: int, target: int) -> bool:
        """Whether something could pass."""
        return (source, target) not in self._cut

    async def ask(self, source: int, target: int, request: Message, response: type[Response], version: int) -> Response:
        """Send a request and wait for its answer; ConnectionFailure when it does not come."""
        try:
            async with asyncio.timeout(ASK_MS_MAX / 1000):
                answer = await self._exchange(source, target, request, version)
        except TimeoutError:
            raise ConnectionFailure(f"{_name(target)} did not answer {_name(source)} in time") from None
        assert isinstance(answer, response)
        return answer

    async def _exchange(self, source: int, target: int, request: Message, version: int) -> Message | None:
        party = self._reached(source, target)
        if party.gate.closed:
            await party.gate.passed()
        hook = self._intercepts.take(_seen(source, target, request, version)) if self._intercepts.armed else None
        action = hook.action if hook is not None else None
        if isinstance(action, DropRequest):
            raise ConnectionFailure(f"the request from {_name(source)} to {_name(target)} was lost")
        if hook is not None and isinstance(action, Delay):
            await hold(hook, party.clock, action.ms)
        if isinstance(action, AnswerError):
            return party.refuse_link(request, action.code)
        answer = await self._carry_out(target, party.answer_link(source, request, version))
        if isinstance(action, (DropResponse, CutMidFrame)):
            raise ConnectionFailure(f"the answer from {_name(target)} to {_name(source)} was lost")
        asker = self._reached(target, source)
        if asker.gate.closed:
            await asker.gate.passed()
        return answer

    async def _carry_out(self, target: int, work: Awaitable[Message | None]) -> Message | None:
        """A request that has arrived is carried out even when the asker is gone, but not when its target dies."""
        request = asyncio.ensure_future(work)
        under_way = self._under_way.setdefault(target, {})
        under_way[request] = None
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def note_end(done: asyncio.Future[Message | None]) -> None:
            under_way.pop(done, None)
            if not ended.done():
                ended.set_result(None)

        request.add_done_callback(note_end)
        await ended
        if request.cancelled():
            raise ConnectionFailure(f"{_name(target)} died")
        return request.result()

    def _reached(self, source: int, target: int) -> Party:
        party = self._find(target)
        if not self.is_open(source, target):
            self._lost[source, target] += 1
            party = None
        if party is None:
            raise ConnectionFailure(f"{_name(target)} cannot be reached from {_name(source)}")
        return party


def _name(party: int) -> str:
    return "the controller" if party == CONTROLLER else f"broker {party}"


def _seen(source: int, target: int, request: Message, version: int) -> Seen:
    key = REPLICA_FETCH if request.API_KEY == FETCH else request.API_KEY
    return Seen(
        broker_id=target,
        api_key=key,
        version=version,
        client_id=f"broker-{source}",
        request=request,
        background=key in BACKGROUND,
    )

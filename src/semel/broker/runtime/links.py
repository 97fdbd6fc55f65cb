"""How the brokers of one cluster, and its controller, ask each other: messages and answers, without sockets.

They live in one process, so a request between them needs no port that somebody else could use. Fault hooks meet these
requests as they meet those of clients. A link can be cut, one way or both: what would pass it is lost, answers too.
A party that is stopped in place (`PauseSwitch`) takes nothing and hears nothing until it goes on.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from semel.broker.runtime.intercept import (
    AnswerError,
    CutMidFrame,
    Delay,
    DropRequest,
    DropResponse,
    Intercepts,
    Seen,
    hold,
)
from semel.broker.runtime.pause import PauseSwitch
from semel.errors import ConnectionFailure
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from semel.world.clock import Clock

# Apache Kafka's default for requests between brokers.
ASK_MS_MAX = 30_000
# The controller's number among the parties, which must be no broker's, and not -1: one who asks the leader of a
# partition that has none would reach the controller.
CONTROLLER = 0
CONTROLLER_BESIDE_BROKER_0 = -2
FETCH = 1
REPLICA_FETCH = 1001  # a follower's Fetch, apart from those of consumers so that a hook can tell them
# AlterPartition, BrokerRegistration, BrokerHeartbeat.
BACKGROUND = frozenset({REPLICA_FETCH, 56, 62, 63})

Response = TypeVar("Response", bound=Message)


class Party(Protocol):
    """One end of a link: a broker or the controller."""

    @property
    def pausing(self) -> PauseSwitch:
        """Says whether the party is stopped in place."""

    @property
    def clock(self) -> Clock:
        """Its time."""

    def answer_link(self, source: int, request: Message, version: int) -> Awaitable[Message | None]:
        """Carry a request out."""

    def refuse_link(self, request: Message, code: ErrorCode) -> Message:
        """Answer with an error and carry nothing out."""


class Links:
    """The connections inside one cluster; `controller` is the controller's number among the parties."""

    def __init__(
        self, find: Callable[[int], Party | None], intercepts: Intercepts, controller: int = CONTROLLER
    ) -> None:
        """`find` gives a party that runs now."""
        self.controller = controller
        self._find = find
        self._intercepts = intercepts
        self._cut: set[tuple[int, int]] = set()
        # Counted for both directions by themselves; a fault asks for the two together.
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
            raise ConnectionFailure(f"{self._name(target)} did not answer {self._name(source)} in time") from None
        assert isinstance(answer, response)
        return answer

    async def ask_controller(self, source: int, request: Message, response: type[Response], version: int) -> Response:
        """Ask the controller, whichever number it has."""
        return await self.ask(source, self.controller, request, response, version)

    async def _exchange(self, source: int, target: int, request: Message, version: int) -> Message | None:
        party = self._reached(source, target)
        if party.pausing.is_paused:
            await party.pausing.resumed()
        hook = self._intercepts.take(_seen(source, target, request, version)) if self._intercepts.armed else None
        action = hook.action if hook is not None else None
        if isinstance(action, DropRequest):
            raise ConnectionFailure(f"the request from {self._name(source)} to {self._name(target)} was lost")
        if hook is not None and isinstance(action, Delay):
            await hold(hook, party.clock, action.ms)
        if isinstance(action, AnswerError):
            return party.refuse_link(request, action.code)
        # From here on the request has arrived: whatever is lost afterwards, it may have been carried out.
        answer = await self._carry_out(target, party.answer_link(source, request, version))
        if isinstance(action, (DropResponse, CutMidFrame)):
            raise ConnectionFailure(f"the answer from {self._name(target)} to {self._name(source)} was lost")
        # The way back: the link may have been cut, or the asker may have died, while the request was carried out.
        asker = self._reached(target, source)
        if asker.pausing.is_paused:
            await asker.pausing.resumed()
        return answer

    async def _carry_out(self, target: int, work: Awaitable[Message | None]) -> Message | None:
        """A request that has arrived is carried out even when the asker is gone, but not when its target dies."""
        request = asyncio.ensure_future(work)
        under_way = self._under_way.setdefault(target, {})
        under_way[request] = None
        # The asker waits for this and not for the request: an asker that is cancelled must not cancel the work.
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def note_end(done: asyncio.Future[Message | None]) -> None:
            under_way.pop(done, None)
            if not ended.done():
                ended.set_result(None)

        request.add_done_callback(note_end)
        await ended
        if request.cancelled():
            raise ConnectionFailure(f"{self._name(target)} died")
        return request.result()

    def _name(self, party: int) -> str:
        return "the controller" if party == self.controller else f"broker {party}"

    def _reached(self, source: int, target: int) -> Party:
        party = self._find(target)
        if not self.is_open(source, target):
            self._lost[source, target] += 1
            party = None
        if party is None:
            raise ConnectionFailure(f"{self._name(target)} cannot be reached from {self._name(source)}")
        return party


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

"""Faults on single requests: a hook of `semel.broker.runtime.intercept` on one API, for so many requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from semel.broker.runtime.intercept import (
    Action,
    After,
    AnswerError,
    CutMidFrame,
    Delay,
    DropRequest,
    DropResponse,
    Seen,
)
from semel.errors import ConfigError
from semel.faults.fault import Fault
from semel.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore

# A hook without a limit is removed when the fault ends.
EVERY = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFault(Fault, ABC):
    """Meets requests of one API (`api` None: of any), on one broker (0: on any), `times` times (0: until it ends).

    With `client`, only those of clients with this client.id. A broker with the number 0 cannot be named alone.
    """

    api: str | None = None
    broker: int = 0
    times: int = 1
    client: str = ""

    @property
    @abstractmethod
    def action(self) -> Action:
        """What happens to a request that is met."""

    async def start(self, cluster: ClusterCore) -> None:
        """Arm the hook."""
        times = None if self.times == EVERY else self.times
        hook = cluster.intercept(self.api, self.action, times=times, where=self._meets)
        # Asked when the count is: requests are met long after this has returned.
        self._record.count_by(lambda: hook.fired)
        self._record.undo = lambda: cluster.intercepts.remove(hook)

    def _meets(self, seen: Seen) -> bool:
        # 0 is any broker here, so the one with the number 0 cannot be meant.
        return self.broker in (0, seen.broker_id) and self.client in ("", seen.client_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseRequest(MessageFault):
    """A request is lost on its way: nothing happened, and the client does not know.

    The connection breaks, or with `silent` stays open and says nothing more.
    """

    name: ClassVar[str] = "lose-request"
    silent: bool = False

    @property
    def action(self) -> Action:
        """Forget it."""
        return DropRequest(then=After.SILENCE if self.silent else After.CUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseResponse(MessageFault):
    """An answer is lost on its way: it happened, and the client does not know.

    The connection breaks, or with `silent` stays open and says nothing more.
    """

    name: ClassVar[str] = "lose-response"
    silent: bool = False

    @property
    def action(self) -> Action:
        """Do it and say nothing."""
        return DropResponse(then=After.SILENCE if self.silent else After.CUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutResponse(MessageFault):
    """A connection breaks in the middle of an answer.

    The request is carried out; only the first `after_bytes` of its answer arrive.
    """

    name: ClassVar[str] = "cut-response"
    after_bytes: int = 6

    @property
    def action(self) -> Action:
        """Cut."""
        return CutMidFrame(after_bytes=self.after_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayMessage(MessageFault):
    """A request waits before it is carried out, or its answer before it is sent.

    Late by `ms`; what waits when the fault ends goes on at once.
    """

    name: ClassVar[str] = "delay-message"
    ms: float = 1_000.0
    response: bool = False

    @property
    def action(self) -> Action:
        """Wait."""
        return Delay(ms=self.ms, response=self.response)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseRequest(MessageFault):
    """A request is refused with a Kafka error code.

    It is not carried out; the answer carries the error of this name.
    """

    name: ClassVar[str] = "refuse-request"
    code: str = ErrorCode.NOT_LEADER_OR_FOLLOWER.name

    def __post_init__(self) -> None:
        """Refuse a name that Kafka does not have."""
        if self.code not in ErrorCode.__members__:
            raise ConfigError(f"Kafka has no error {self.code!r}", you_want="a name such as NOT_LEADER_OR_FOLLOWER")

    @property
    def action(self) -> Action:
        """Answer with the error."""
        return AnswerError(code=ErrorCode[self.code])

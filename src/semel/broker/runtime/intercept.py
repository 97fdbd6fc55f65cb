"""Fault hooks: make the broker misbehave on chosen requests, and count how often it did.

`cluster.intercept(api, action, times=1, where=…)` arms a hook; requests that match it meet the action instead of the
normal exchange. A hook fires `times` times and then stays silent. `hook.fired` says how often it has: a drill whose
hook never fired has shown nothing.

Actions: DropRequest, DropResponse, Delay, AnswerError, CutMidFrame. What the client sees of a dropped message is
either a connection that breaks (`then=After.CUT`) or one that stays silent until it gives up (`After.SILENCE`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from semel.errors import ConfigError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from semel.world.clock import Clock


class After(StrEnum):
    """What happens to the connection once a message was dropped."""

    CUT = "cut"
    SILENCE = "silence"


@dataclass(frozen=True, slots=True, kw_only=True)
class DropRequest:
    """The request is read and forgotten: nothing happened, and the client does not know."""

    then: After = After.CUT


@dataclass(frozen=True, slots=True, kw_only=True)
class DropResponse:
    """The request is carried out and its answer lost: it happened, and the client does not know."""

    then: After = After.CUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """The request waits before it is carried out, or its answer before it is sent; removing the hook ends the wait."""

    ms: float
    response: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerError:
    """The request is not carried out; the answer carries this error code."""

    code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class CutMidFrame:
    """The request is carried out; the connection breaks after this many bytes of the answer."""

    after_bytes: int = 6


Action = DropRequest | DropResponse | Delay | AnswerError | CutMidFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A request as a `where` function sees it.

    `background` ones go on between brokers all the time (replication, heartbeats): a hook must name their API to meet
    them, one for every request does not.
    """

    broker_id: int
    api_key: int
    version: int
    client_id: str
    request: Message
    background: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Hook:
    """One armed action."""

    api_key: int | None
    action: Action
    times: int | None
    where: Callable[[Seen], bool]
    # Stays readable after the hook is spent or removed.
    fired: int = 0
    removed: bool = False
    on_fire: list[Callable[[Seen], None]] = field(default_factory=list)
    on_remove: list[Callable[[], None]] = field(default_factory=list)

    @property
    def spent(self) -> bool:
        """Whether it has fired as often as it should."""
        return self.times is not None and self.fired >= self.times

    def matches(self, seen: Seen) -> bool:
        """Tell whether this request meets the hook."""
        # A hook for every request leaves out what goes on in the background; a hook for one API looks at that alone.
        if self.spent or (seen.background if self.api_key is None else self.api_key != seen.api_key):
            return False
        return self.where(seen)


async def hold(hook: Hook, clock: Clock, ms: float) -> None:
    """Wait until the time is up or the hook is removed."""
    # It may have been removed since it fired; nobody would end the wait.
    if hook.removed:
        return
    over = asyncio.Event()
    timer = clock.call_later_ms(ms, over.set)
    hook.on_remove.append(over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()
        hook.on_remove.remove(over.set)


class Intercepts:
    """The hooks of a cluster, oldest first."""

    def __init__(self) -> None:
        """Start with none."""
        self._hooks: list[Hook] = []

    def add(
        self,
        api_key: int | None,
        action: Action,
        *,
        times: int | None = 1,
        where: Callable[[Seen], bool] | None = None,
    ) -> Hook:
        """Arm a hook; `times=None` means until it is removed."""
        if times is not None and times < 1:
            raise ConfigError(
                f"times={times}: a hook fires at least once", you_want="times=1 or more, or None for always"
            )
        hook = Hook(api_key=api_key, action=action, times=times, where=where or (lambda _: True))
        self._hooks.append(hook)
        return hook

    def remove(self, hook: Hook) -> None:
        """Disarm a hook and let go what it delays; its count stays readable."""
        # Removing twice is fine: a fault and its schedule may both do so.
        if hook in self._hooks:
            self._hooks.remove(hook)
        hook.removed = True
        for callback in hook.on_remove:
            callback()

    def clear(self) -> None:
        """Disarm every hook."""
        for hook in list(self._hooks):
            self.remove(hook)

    @property
    def armed(self) -> bool:
        """Whether any hook may still fire."""
        # Asked for every request, so spent hooks must cost nothing more than this.
        return bool(self._hooks) and not all(hook.spent for hook in self._hooks)

    def take(self, seen: Seen) -> Hook | None:
        """Fire the oldest hook that matches, if there is one."""
        for hook in self._hooks:
            if hook.matches(seen):
                # Counted before the action runs: a drill that waits for `fired` must not wait for a delay of minutes.
                hook.fired += 1
                for callback in hook.on_fire:
                    callback(seen)
                return hook
        return None

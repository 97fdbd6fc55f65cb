"""What every fault is: a small value that says what to break, breaks it, mends it, and counts how often it was felt.

Keeps: F1 `fired` counts what really happened. A fault that never fired has shown nothing: look at it afterwards.
       F2 what it broke is whole again after `stop`.
Why:   a fault is compared and written by its settings alone; what it remembers between `start` and `stop` is apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore

Setting = str | int | float | bool | None


class FaultRecord:
    """What one fault remembers while it is on: how often it was felt, and how to count and undo it."""

    __slots__ = ("_before", "_count", "_counting", "undo")

    def __init__(self) -> None:
        """Nothing happened yet."""
        self._count = 0
        self._before = 0
        self._counting: Callable[[], int] | None = None
        self.undo: Callable[[], None] | None = None

    def add(self, times: int = 1) -> None:
        """It was felt."""
        self._count += times

    def count_by(self, counter: Callable[[], int]) -> None:
        """Count what this counter goes up by from now on."""
        # What an earlier counter has counted must not be lost.
        self.stop_counting()
        self._before, self._counting = counter(), counter

    def stop_counting(self) -> None:
        """Keep what was counted so far."""
        if self._counting is not None:
            self._count += self._counting() - self._before
            self._counting = None

    @property
    def count(self) -> int:
        """How often it was felt."""
        return self._count + (self._counting() - self._before if self._counting is not None else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(ABC):
    """One fault; `start` and `stop` run on the cluster's own loop, and `stop` after `start` leaves nothing broken."""

    name: ClassVar[str]
    _record: FaultRecord = field(default_factory=FaultRecord, init=False, repr=False, compare=False)

    @abstractmethod
    async def start(self, cluster: ClusterCore) -> None:
        """Break it. Where there is nothing to break, such as a broker that is dead already, nothing is done."""

    async def stop(self, cluster: ClusterCore) -> None:  # noqa: ARG002 - faults that mend themselves need nothing
        """Mend it."""
        self._record.stop_counting()
        # Taken out before it is called: a second `stop` must not mend what somebody has broken since.
        undo, self._record.undo = self._record.undo, None
        if undo is not None:
            undo()

    @property
    def fired(self) -> int:
        """How often it was really felt."""
        return self._record.count

    @property
    def settings(self) -> dict[str, Setting]:
        """Its settings by name; what is left out has its default."""
        told = {one.name: getattr(self, one.name) for one in fields(self) if one.init}
        # Without what has its default, so that a written schedule stays readable.
        defaults = {one.name: one.default for one in fields(self) if one.init}
        return {name: value for name, value in told.items() if value != defaults[name]}

    def __str__(self) -> str:
        """Write as people do: `pause-broker broker=2`; `semel.faults.parse` reads it."""
        return " ".join([self.name, *(f"{name}={_text(value)}" for name, value in self.settings.items())])


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

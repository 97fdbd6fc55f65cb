"""A request waits before it is carried out, or its answer before it is sent."""

from dataclasses import dataclass
from typing import ClassVar

from semel.broker.intercept import Action, Delay
from semel.faults.message_fault import MessageFault


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayMessage(MessageFault):
    """Late by `ms`; what waits when the fault ends goes on at once."""

    name: ClassVar[str] = "delay-message"
    ms: float = 1_000.0
    response: bool = False

    @property
    def action(self) -> Action:
        """Wait."""
        return Delay(ms=self.ms, response=self.response)

"""An answer is lost on its way: it happened, and the client does not know."""

from dataclasses import dataclass
from typing import ClassVar

from semel.broker.intercept import Action, After, DropResponse
from semel.faults.message_fault import MessageFault


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseResponse(MessageFault):
    """The connection breaks, or with `silent` stays open and says nothing more."""

    name: ClassVar[str] = "lose-response"
    silent: bool = False

    @property
    def action(self) -> Action:
        """Do it and say nothing."""
        return DropResponse(then=After.SILENCE if self.silent else After.CUT)

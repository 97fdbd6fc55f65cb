"""A request is lost on its way: nothing happened, and the client does not know."""

from dataclasses import dataclass
from typing import ClassVar

from semel.broker.intercept import Action, After, DropRequest
from semel.faults.message_fault import MessageFault


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseRequest(MessageFault):
    """The connection breaks, or with `silent` stays open and says nothing more."""

    name: ClassVar[str] = "lose-request"
    silent: bool = False

    @property
    def action(self) -> Action:
        """Forget it."""
        return DropRequest(then=After.SILENCE if self.silent else After.CUT)

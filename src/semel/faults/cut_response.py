"""A connection breaks in the middle of an answer."""

from dataclasses import dataclass
from typing import ClassVar

from semel.broker.intercept import Action, CutMidFrame
from semel.faults.message_fault import MessageFault


@dataclass(frozen=True, slots=True, kw_only=True)
class CutResponse(MessageFault):
    """The request is carried out; only the first `after_bytes` of its answer arrive."""

    name: ClassVar[str] = "cut-response"
    after_bytes: int = 6

    @property
    def action(self) -> Action:
        """Cut."""
        return CutMidFrame(after_bytes=self.after_bytes)

"""A request is refused with a Kafka error code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from semel.broker.intercept import Action, AnswerError
from semel.errors import ConfigError
from semel.faults.message_fault import MessageFault
from semel.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseRequest(MessageFault):
    """It is not carried out; the answer carries the error of this name."""

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

"""One blocking connection to one broker: frames, correlation ids, versions, TLS and SASL."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from semel.protocol.message import Message
from semel.wire.deadline import Deadline
from semel.wire.settings import WireSettings
from semel.wire.topology import BrokerAddress

M = TypeVar("M", bound=Message)


class Sent(NamedTuple):
    """A request under way."""

    correlation_id: int
    version: int
    response: type[Message]


class Connection:
    """A connection that is open and authenticated."""

    def __init__(self, address: BrokerAddress, settings: WireSettings, deadline: Deadline) -> None:
        """Connect, agree on versions, authenticate."""
        raise NotImplementedError

    def version_of(self, request: type[Message], version_max: int | None = None) -> int:
        """The highest version of a request that both sides know."""
        raise NotImplementedError

    def call(self, request: Message, response: type[M], deadline: Deadline, version_max: int | None = None) -> M:
        """Send a request and wait for its answer."""
        raise NotImplementedError

    def send(self, request: Message, response: type[M], deadline: Deadline, version_max: int | None = None) -> Sent:
        """Send a request; its answer is to be received later, in the order of sending."""
        raise NotImplementedError

    def receive(self, deadline: Deadline) -> Message:
        """Give the answer to the oldest request under way."""
        raise NotImplementedError

    def fileno(self) -> int:
        """For `selectors`: readable when an answer begins to arrive."""
        raise NotImplementedError

    def close(self) -> None:
        """Close; answers that did not come yet are lost."""
        raise NotImplementedError

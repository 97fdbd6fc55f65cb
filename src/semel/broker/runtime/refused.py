"""A refusal, as an error with the Kafka code that the response carries."""

from semel.errors import BrokerError
from semel.protocol.error_codes import ErrorCode


class Refused(BrokerError):
    """A request was refused, and nothing was changed."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        """`code` is what the response carries."""
        super().__init__(message, code=code)

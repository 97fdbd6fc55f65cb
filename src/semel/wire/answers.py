"""Error codes in answers, as errors; and how long to wait before asking again.

Keeps: every loop that asks again ends at its deadline, with the last error.
"""

from __future__ import annotations

from semel.errors import BrokerError, FencedError, Outcome, SemelError
from semel.protocol.error_codes import ErrorCode
from semel.wire.deadline import Deadline
from semel.wire.settings import WireSettings

FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
# A coordinator whose records nobody copies any more may have been replaced without knowing it: it runs out of time.
COORDINATOR_GONE = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT}
)
_NEXT = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "create the topic, or correct its name",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "give the sink a lower transaction_timeout_ms, or raise the brokers' "
    "transaction.max.timeout.ms",
    ErrorCode.MESSAGE_TOO_LARGE: "give the sink a lower batch_bytes_max, or raise the topic's max.message.bytes; a row "
    "that is too large by itself needs the latter",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "allow this user to read, write and describe the topic, as its part in the "
    "pipeline needs",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "allow this user to read the group that is named like the pipeline, "
    "and for batch jobs all groups whose names begin like that (a prefixed ACL); who deletes a group needs DELETE on "
    "it",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "allow this user to write and describe the transactional id that "
    "is the pipeline's name",
    ErrorCode.UNKNOWN_MEMBER_ID: "stop the consumers of that group: the pipeline needs a group of its own",
    ErrorCode.ILLEGAL_GENERATION: "stop the consumers of that group: the pipeline needs a group of its own",
    ErrorCode.FENCED_INSTANCE_ID: "stop the consumers of that group: the pipeline needs a group of its own",
}


def code_of(number: int) -> ErrorCode:
    """The code with this number; one that is newer than this client counts as an unknown server error."""
    try:
        return ErrorCode(number)
    except ValueError:
        # Which is not retried: what it means is not known here.
        return ErrorCode.UNKNOWN_SERVER_ERROR


def error_of(number: int, what: str, detail: str | None = None, outcome: Outcome | None = None) -> BrokerError:
    """Make the error for a code; `what` says what was asked, as in "writing to orders-3"."""
    code = code_of(number)
    name = code.name if code == number else f"error {number}"
    # INVALID_PRODUCER_EPOCH is what older brokers and partition leaders say for the same thing.
    if code in FENCED:
        because = detail or "a newer owner of the same transactional id has taken over, or the transaction timed out"
        return FencedError(f"{what}: {name}", code=number, outcome=outcome, because=because)
    return BrokerError(
        f"{what}: {name}", code=number, outcome=outcome, because=detail or "", next_command=_NEXT.get(code, "")
    )


class Backoff:
    """Waits between attempts: each twice as long as the last, up to a limit, and never past the deadline."""

    def __init__(self, settings: WireSettings, deadline: Deadline) -> None:
        """No attempt has failed yet."""
        self.attempts = 0
        self.deadline = deadline
        self._last: SemelError | None = None
        self._ms = settings.retry_backoff_ms
        # A longest wait that is below the first one would make every wait shorter than was asked for.
        self._ms_max = max(settings.retry_backoff_ms, settings.retry_backoff_ms_max)

    def wait(self, error: SemelError) -> None:
        """Wait after this error; raises it when the time does not allow another attempt."""
        self.attempts += 1
        self.deadline.hurry_if_called_off()
        # A wait that ends with the deadline leaves no time to ask, so the error comes now.
        if self.deadline.left_ms <= self._ms:
            raise self._final(error)
        self._last = error
        self.deadline.wait_ms(self._ms)
        self._ms = min(self._ms * 2, self._ms_max)

    def _final(self, error: SemelError) -> SemelError:
        if self.deadline.expired and self._last is not None:
            # The last attempt was cut off by the deadline; why it was needed is in the one before.
            self._last.outcome, error = error.outcome, self._last
        if not error.because:
            times = "attempt" if self.attempts == 1 else "attempts"
            error.because = (
                f"gave up after {self.attempts} {times} in {self.deadline.limit_ms:.0f} ms, the time allowed"
            )
        return error

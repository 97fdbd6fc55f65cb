"""Asks a coordinator, and again when it moved, is loading or was lost: for requests that may be repeated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from semel.errors import ConnectionFailure, Outcome, SemelError, UnsupportedVersionError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from semel.wire.answers import COORDINATOR_GONE, FENCED, code_of, error_of
from semel.wire.cluster import CoordinatorKind, WireCluster
from semel.wire.deadline import Deadline

R = TypeVar("R", bound=Message)

# One that was replaced without knowing it may say "not yet" for ever; after so many answers it is looked for again.
NOT_YET_MAX = 5
# The coordinator refused before it did anything.
NOT_BEGUN = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[R]):
    """What is asked of whose coordinator; it must be harmless to ask twice."""

    kind: CoordinatorKind
    key: str
    message: Message
    response: type[R]
    codes: Callable[[R], list[int]]
    what: str
    version_min: int = 0
    version_max: int | None = None


class Attempts:
    """What is known of the attempts so far: whether one of them may have been carried out without an answer."""

    def __init__(self) -> None:
        """No attempt was made."""
        self.may_have_happened = False

    def note(self, error: SemelError, code: ErrorCode | None) -> None:
        """Remember a failed attempt; only its answer or the lack of one tells what it did."""
        if code is None:
            # A connection that broke before the request left is no attempt.
            self.may_have_happened |= error.outcome is Outcome.UNKNOWN
        elif code.retriable and code not in NOT_BEGUN:
            # The coordinator may have written its record and lost sight of it.
            self.may_have_happened = True

    def judge(self, error: SemelError) -> SemelError:
        """Say on the error what is known of all attempts together."""
        error.outcome = Outcome.UNKNOWN if self.may_have_happened else Outcome.DID_NOT_HAPPEN
        return error


def ask_coordinator(cluster: WireCluster, request: Request[R], deadline: Deadline) -> R:
    """Give the answer that has no error in it. `outcome` of the error says whether any attempt may have happened."""
    attempts = Attempts()
    backoff = cluster.backoff(deadline)
    while True:
        code: ErrorCode | None = None
        try:
            answer = _ask_once(cluster, request, deadline)
            numbers = [number for number in _worst_first(request.codes(answer)) if number]
            if not numbers:
                return answer
            code = code_of(numbers[0])
            error: SemelError = error_of(numbers[0], request.what)
        except ConnectionFailure as failure:
            error = failure
        attempts.note(error, code)
        if code is not None and not code.retriable:
            # A refusal costs one question more; believing an old coordinator could stop a pipeline for good.
            if not _was_replaced(cluster, request, deadline):
                raise attempts.judge(error)
        elif code is None or code in COORDINATOR_GONE or backoff.attempts >= NOT_YET_MAX:
            cluster.forget_coordinator(request.kind, request.key)
        backoff.wait(attempts.judge(error))


def _ask_once(cluster: WireCluster, request: Request[R], deadline: Deadline) -> R:
    connection = cluster.coordinator_connection(request.kind, request.key, deadline)
    # Asked at every attempt: another broker may coordinate now, and know other versions.
    version = connection.version_of(type(request.message), request.version_max)
    if version < request.version_min:
        raise UnsupportedVersionError(
            f"{request.what}: broker {connection.address} knows version {version} of the request at most",
            because=f"version {request.version_min} is the first that can ask this",
        )
    limit = cluster.request_deadline(deadline)
    return connection.call(request.message, request.response, limit, request.version_max)


def _was_replaced(cluster: WireCluster, request: Request[R], deadline: Deadline) -> bool:
    """Whether another broker is the coordinator now: a refusal by the old one, from what it knew, does not count."""
    asked = cluster.coordinator(request.kind, request.key, deadline)
    cluster.forget_coordinator(request.kind, request.key)
    try:
        return cluster.coordinator(request.kind, request.key, deadline) != asked
    except SemelError:
        return False


def _worst_first(codes: list[int]) -> list[int]:
    """Fenced first, then what cannot be healed, then what can; rows that were not attempted say nothing."""
    attempted = [code for code in codes if code != ErrorCode.OPERATION_NOT_ATTEMPTED] or codes
    return sorted(attempted, key=lambda code: (code not in FENCED, code_of(code).retriable))

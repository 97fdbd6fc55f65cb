"""`Transaction`: records and offsets that become visible together or not at all; and its coordination with Kafka.

    with producer.transaction() as tx:      # commits at the end, aborts on an exception
        tx.send("seats", b"12A")
        tx.commit_offsets(consumer)

Three kinds of errors: one that may pass is tried again until the limit; one that spoils the transaction aborts it, and
the work may be done again; one that spoils the producer (a newer owner fenced it) ends it.

Keeps: K3 a commit whose outcome is unknown is asked for again, never guessed: the next `transaction()` or `settle()`
       goes on asking, and in a new process taking over the transactional id settles it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from semel.clients.aside import Aside, Overrun
from semel.clients.delivery import Failures
from semel.clients.failures import Fate, KafkaFailure, failure, failure_in
from semel.clients.library import never_free
from semel.clients.sending import TIMED_OUT, Headers, Payload, Sender
from semel.clients.steps import ClientStep, OnStep
from semel.errors import BrokerError, ConfigError, Outcome, OutcomeUnknownError, SemelError

if TYPE_CHECKING:
    from semel.clients.consumer import Consumer

PAUSE_S = 0.05
GRACE_S = 1.0  # beyond its own limit the library is not going to answer
FAILURES_TOLD_MAX = 3


class State(StrEnum):
    """Where the producer stands between its transactions."""

    READY = "ready"
    OPEN = "open"
    COMMIT_UNKNOWN = "commit unknown"
    ABORT_UNKNOWN = "abort unknown"
    ENDED = "ended"


class Coordination:
    """The transaction calls of one producer, each tried until its limit, and what is known after each."""

    def __init__(self, client: Any, wait_s_max: float, on_step: OnStep, fate: Fate, failures: Failures) -> None:
        """`client` is a confluent_kafka.Producer with a transactional id; `failures` are those of its records."""
        self.client = client
        self.fate = fate
        self.failures = failures
        self.wait_s_max = wait_s_max
        self.on_step = on_step
        self.state = State.READY
        self.sources: list[Consumer] = []  # whose offsets are in the transaction
        self._ended: SemelError | None = None
        self._aside = Aside()

    def own(self) -> None:
        """Take the transactional id over: fences older owners, finishes or aborts what they left open."""
        self._try("the transactional id was not taken over", self.client.init_transactions, Outcome.UNKNOWN)

    def begin(self) -> None:
        """Open a transaction, after what the last one left undecided is settled."""
        self.settle()
        if self.state is State.OPEN:
            raise ConfigError("a transaction is already open", because="a producer has one at a time")
        self._try("no transaction was begun", lambda _: self.client.begin_transaction(), Outcome.DID_NOT_HAPPEN)
        self.state = State.OPEN
        self.on_step(ClientStep.BEGUN)

    def settle(self) -> None:
        """Decide what is undecided, if anything is."""
        if self._ended is not None:
            raise self._ended
        if self.state is State.COMMIT_UNKNOWN:
            self.commit_or_abort()
        elif self.state is State.ABORT_UNKNOWN:
            self.abort()

    def commit_or_abort(self) -> None:
        """Commit; when it is certain that this can never happen, abort and raise why."""
        try:
            self.commit()
        except BrokerError as error:
            for failed in self.failures.in_transaction[:FAILURES_TOLD_MAX]:
                error.add_note(f"because of {failed}")
            if error.outcome is Outcome.DID_NOT_HAPPEN:
                self.abort_because(error)
            raise

    def abort_because(self, error: BaseException) -> None:
        """Abort, as far as that is still needed; the first error is the one that is told."""
        try:
            if self.state is State.ENDED:
                self._end_sources(committed=False)  # its next owner aborts what is open
            else:
                self.abort()
        except SemelError as other:
            error.add_note(f"and then: {other}")

    def _end_sources(self, *, committed: bool) -> None:
        sources, self.sources = self.sources, []
        for consumer in sources:
            consumer.settled() if committed else consumer.rewind()

    def commit(self) -> None:
        """Commit, asking again as long as the limit allows. Until it is decided no source hands out anything."""
        self.fate.serve(self.client.flush, self.wait_s_max)
        # A producer that is at its end already sends no commit: then the answer is known.
        is_over = self.fate.is_met and self.state is State.OPEN
        self.on_step(ClientStep.COMMITTING)
        self.state = State.COMMIT_UNKNOWN
        outcome = Outcome.DID_NOT_HAPPEN if is_over else Outcome.UNKNOWN
        for consumer in self.sources:
            consumer.undecided(self.settle)
        self._try("the transaction was not committed", self.client.commit_transaction, outcome)
        self.state = State.READY
        self._end_sources(committed=True)
        self.on_step(ClientStep.COMMITTED)

    def abort(self) -> None:
        """Abort, asking again as long as the limit allows."""
        self.state = State.ABORT_UNKNOWN
        self._end_sources(committed=False)
        self._try("the transaction was not aborted", self.client.abort_transaction, Outcome.DID_NOT_HAPPEN)
        self.state = State.READY
        self.on_step(ClientStep.ABORTED)

    def send_offsets(self, offsets: list[Any], group: object) -> None:
        """Make a group's offsets part of the transaction."""
        call = self.client.send_offsets_to_transaction
        try:
            self._try(
                "the offsets are not part of the transaction",
                lambda left_s: self._aside.call(left_s + GRACE_S, call, offsets, group, left_s),
                Outcome.DID_NOT_HAPPEN,
            )
        except Overrun:
            raise self._left_behind() from None
        self.on_step(ClientStep.OFFSETS_SENT)

    def _left_behind(self) -> SemelError:
        """A thread is still in the library: nothing more can be asked of this client, and it must not be freed."""
        never_free(self.client)
        self.state = State.ENDED
        self._ended = BrokerError(
            f"the offsets are not part of the transaction after {self.wait_s_max:g} s, and this producer is at its end",
            code=TIMED_OUT,
            outcome=Outcome.DID_NOT_HAPPEN,
            because="librdkafka waits for a coordinator of the group that has left the cluster",
            next_command="make another producer with the same transactional id: it aborts what this one left open",
        )
        return self._ended

    def _try(self, what: str, call: Callable[[float], object], unknown: Outcome) -> None:
        """Call until it works, the limit is over, or an error says that it never will."""
        deadline = time.monotonic() + self.wait_s_max
        while True:
            left_s = max(deadline - time.monotonic(), PAUSE_S)
            try:
                call(left_s)
            except Exception as error:
                cause = failure_in(error)
                if cause is None:
                    raise
            else:
                return
            if cause.fatal() or not cause.retriable():
                raise self._refusal(cause, what, unknown)
            if time.monotonic() >= deadline:
                raise self._undecided(cause, what, unknown)
            time.sleep(PAUSE_S)

    def _refusal(self, cause: KafkaFailure, what: str, unknown: Outcome) -> SemelError:
        if cause.fatal():
            self.state = State.ENDED
            self._ended = failure(cause, "this producer is at its end", outcome=Outcome.DID_NOT_HAPPEN)
            return failure(cause, what, outcome=unknown)
        if cause.txn_requires_abort():
            # Only an abort can follow, so it did not happen and never will.
            self.state = State.OPEN
            again = "do the work of the transaction again"
            return failure(cause, what, outcome=Outcome.DID_NOT_HAPPEN, next_command=again)
        return failure(cause, what, outcome=unknown)

    def _undecided(self, cause: KafkaFailure, what: str, unknown: Outcome) -> SemelError:
        summary = f"{what} within {self.wait_s_max:g} s: {cause.name()}"
        if unknown is Outcome.UNKNOWN:
            return OutcomeUnknownError(
                summary,
                because="the coordinator did not answer",
                next_command="producer.settle() asks again; in a new process the same transactional id settles it",
            )
        return BrokerError(summary, code=cause.code(), outcome=unknown, because="the coordinator did not answer")


class Transaction(Sender):
    """One transaction; made by `Producer.transaction()`."""

    def __init__(self, coordination: Coordination) -> None:
        """Nothing is begun yet."""
        super().__init__(coordination.client, coordination.wait_s_max, coordination.fate)
        self._coordination = coordination
        self._refuse(ConfigError("the transaction is not open", you_want="with producer.transaction() as tx: …"))

    def __enter__(self) -> Self:
        """Begin."""
        self._coordination.begin()
        self._coordination.failures.in_transaction.clear()
        self.produce = self._client.produce
        return self

    def send(
        self,
        topic: str,
        value: Payload,
        *,
        key: Payload = None,
        headers: Headers | None = None,
        partition: int = -1,
        timestamp_ms: int = 0,
    ) -> None:
        """Hand a record over. It has no result of its own: the transaction has one for all."""
        try:
            if headers is None and not timestamp_ms:
                self.produce(topic, value, key, partition)
            else:
                self.produce(topic, value, key, partition, None, None, timestamp_ms, headers)
        except Exception as error:  # noqa: BLE001 - told apart there
            self.send_again(error, topic, value, key, partition, None, None, timestamp_ms, headers)

    def commit_offsets(self, consumer: Consumer) -> None:
        """Make the offsets of the consumer's last batch part of the transaction: both are visible, or neither."""
        offsets, group = consumer.offsets_for_transaction()
        if consumer not in self._coordination.sources:
            self._coordination.sources.append(consumer)
        if offsets:
            self._coordination.send_offsets(offsets, group)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, or abort when the work failed."""
        self._refuse(ConfigError("the transaction is over", you_want="producer.transaction() for the next one"))
        if error is None:
            self._coordination.commit_or_abort()
        else:
            self._coordination.abort_because(error)

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

import threading
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from semel.clients.delivery import Failures
from semel.clients.failures import FENCED_MEMBER, Fate, KafkaFailure, failure, failure_in
from semel.clients.handing_out import batches_in_hand
from semel.clients.library import never_free
from semel.clients.limited_calls import LimitedCalls, LimitPassed
from semel.clients.sending import TIMED_OUT, Headers, Payload, Sender
from semel.clients.settings import refusal
from semel.clients.settings_rules import OFFSETS_RULE
from semel.clients.steps import ClientStep, OnStep
from semel.errors import BrokerError, ConfigError, Outcome, OutcomeUnknownError, SemelError
from semel.guarantee import Guarantee

if TYPE_CHECKING:
    from semel.clients.consumer import Consumer
    from semel.clients.records import Batch

PAUSE_S = 0.05
GRACE_S = 1.0  # beyond its own limit the library is not going to answer
FAILURES_TOLD_MAX = 3
WRONG_STATE = -172


class State(StrEnum):
    """Where the producer stands between its transactions."""

    READY = "ready"
    OPEN = "open"
    LEFT = "left"  # its `with` block is over, or not quite begun, and nobody has asked for the commit
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
        self.sources: list[tuple[Consumer, Batch]] = []  # whose offsets are in the transaction
        self.without_offsets: set[Consumer] = set()  # whose were to be in it, and that failed
        self._ended: SemelError | None = None
        self._limited = LimitedCalls()
        self._lock = threading.RLock()  # a consumer's thread may ask what became of a commit that is still under way

    def own(self) -> None:
        """Take the transactional id over: fences older owners, finishes or aborts what they left open."""
        self._try("the transactional id was not taken over", self.client.init_transactions, Outcome.UNKNOWN)

    def begin(self) -> None:
        """Open a transaction, after what the last one left undecided is settled."""
        with self._lock:
            self.settle()
            if self.state is State.OPEN:
                raise ConfigError(
                    "a transaction is already open",
                    because="a producer has one at a time",
                    next_command="leave its `with` block first; if an interrupt did that, close this producer and make "
                    "another, which aborts what is open",
                )
            self.without_offsets.clear()
            self.state = State.LEFT  # an interrupt in the next line leaves something to abort
            try:
                self._try("no transaction was begun", lambda _: self.client.begin_transaction(), Outcome.DID_NOT_HAPPEN)
            except SemelError:
                self.state = State.READY if self._ended is None else State.ENDED
                raise
        self.on_step(ClientStep.BEGUN)

    def enter(self) -> None:
        """The `with` block begins, and it will be left."""
        self.state = State.OPEN

    def leave(self) -> None:
        """The `with` block is over: from here on an interrupt leaves a transaction that the next `settle` aborts."""
        if self.state is State.OPEN:
            self.state = State.LEFT

    def settle(self) -> None:
        """Decide what is undecided, if anything is; waits for a commit that is under way."""
        with self._lock:
            if self._ended is not None:
                raise self._ended
            if self.state is State.COMMIT_UNKNOWN:
                self.commit_or_abort()
            elif self.state in (State.LEFT, State.ABORT_UNKNOWN):
                self.abort()

    def commit_or_abort(self, in_hand: Sequence[Batch] = ()) -> None:
        """Commit; when it is certain that this can never happen, abort and raise why."""
        with self._lock:
            try:
                self._refuse_without(in_hand)
                self.commit()
            except SemelError as error:
                for failed in self.failures.in_transaction[:FAILURES_TOLD_MAX]:
                    error.add_note(f"because of {failed}")
                if error.outcome is Outcome.DID_NOT_HAPPEN:
                    self.abort_because(error)
                raise

    def _refuse_without(self, in_hand: Sequence[Batch]) -> None:
        """Results of a batch are committed with its offsets: a block that was left before them is not done.

        Of several batches in hand a transaction may have the offsets of one.
        """
        if self.without_offsets:
            raise refusal(
                OFFSETS_RULE,
                Guarantee.EXACTLY_ONCE,
                you_wrote="a commit, after tx.commit_offsets(consumer) failed and its error was caught",
                you_want="the error to leave the transaction's block, which undoes it; or commit_offsets again",
            )
        if in_hand and not self.sources:
            raise refusal(
                OFFSETS_RULE,
                Guarantee.EXACTLY_ONCE,
                you_wrote="a transaction without offsets, while a batch is in hand whose results it would keep",
                you_want="tx.commit_offsets(consumer), also before break or return; or an exception, to undo",
            )

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
        for consumer, batch in self.sources:
            consumer.settled(batch) if committed else consumer.rewind(batch)
        self.sources = []  # last: an interrupt in between leaves none that has not heard

    def commit(self) -> None:
        """Commit, asking again as long as the limit allows. Until it is decided no source hands out anything."""
        is_first = self.state is not State.COMMIT_UNKNOWN
        for consumer, batch in self.sources if is_first else ():
            batch.refuse_commit()
            consumer.undecided(batch, self.settle)
        # Before the commit is asked for: a fatal error that shows here means that no commit was sent.
        self.fate.flush(self.client, self.wait_s_max)
        self.on_step(ClientStep.COMMITTING)
        # A producer that is at its end already sends no commit: then the answer is known.
        outcome = Outcome.DID_NOT_HAPPEN if self.fate.is_met and is_first else Outcome.UNKNOWN
        self.state = State.COMMIT_UNKNOWN
        self._try("the transaction was not committed", self.client.commit_transaction, outcome, is_again=not is_first)
        self._end_sources(committed=True)  # first: an interrupt in between is asked about again
        self.state = State.READY
        self.on_step(ClientStep.COMMITTED)

    def abort(self) -> None:
        """Abort, asking again as long as the limit allows."""
        with self._lock:
            self.state = State.ABORT_UNKNOWN
            self._end_sources(committed=False)
            abort, did_not = self.client.abort_transaction, Outcome.DID_NOT_HAPPEN
            self._try("the transaction was not aborted", abort, did_not, is_again=True)
            self.state = State.READY
        self.on_step(ClientStep.ABORTED)

    def send_offsets(self, offsets: list[Any], group: object) -> None:
        """Make a group's offsets part of the transaction."""
        call = self.client.send_offsets_to_transaction
        try:
            self._try(
                "the offsets are not part of the transaction",
                lambda left_s: self._limited.call(left_s + GRACE_S, call, offsets, group, left_s),
                Outcome.DID_NOT_HAPPEN,
            )
        except LimitPassed:
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

    def _try(self, what: str, call: Callable[[float], object], unknown: Outcome, *, is_again: bool = False) -> None:
        """Call until it works, the limit is over, or an error says that it never will.

        A call that may be made again after an interrupt may have worked the first time: then no transaction is open.
        """
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
            # The library says in which state it is. "Ready" means that no transaction
            # is open: the first call has ended it.
            if is_again and cause.code() == WRONG_STATE and cause.str().endswith("Ready"):
                return
            if cause.fatal() or not cause.retriable():
                raise self._refusal(cause, what, unknown)
            if time.monotonic() >= deadline:
                raise self._undecided(cause, what, unknown)
            time.sleep(PAUSE_S)

    def _refusal(self, cause: KafkaFailure, what: str, unknown: Outcome) -> SemelError:
        if cause.fatal():
            self.state = State.ENDED
            # Two errors: what became of this call may be unknown, but whatever is asked later surely does not happen.
            self._ended = failure(cause, "this producer is at its end", outcome=Outcome.DID_NOT_HAPPEN)
            return failure(cause, what, outcome=unknown)
        if cause.txn_requires_abort():
            # Only an abort can follow, so it did not happen and never will.
            self.state = State.OPEN
            is_expelled = cause.code() in FENCED_MEMBER
            again = "go on with the next batch" if is_expelled else "do the work of the transaction again"
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
        self._is_open = False
        self._refuse(ConfigError("the transaction is not open", you_want="with producer.transaction() as tx: …"))

    def __enter__(self) -> Self:
        """Begin."""
        self._coordination.begin()
        # After `begin`, which may have to settle the last transaction and then tells the failures of that one.
        self._coordination.failures.in_transaction.clear()
        self.produce = self._client.produce
        self._is_open = True
        self._coordination.enter()
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
        # Also for whoever catches the error: what follows would be committed without the offsets.
        self._coordination.without_offsets.add(consumer)
        batch, offsets = consumer.offsets_for_transaction(self._coordination)
        # Before the offsets are sent: if that fails, the abort has to give this batch back too.
        if (consumer, batch) not in self._coordination.sources:
            self._coordination.sources.append((consumer, batch))
        self._coordination.send_offsets(offsets, batch.group_metadata)
        self._coordination.without_offsets.discard(consumer)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, or abort when the work failed."""
        self.end(error, batches_in_hand())

    def end(self, error: BaseException | None, in_hand: Sequence[Batch]) -> None:
        """Commit, or abort when the work failed, or when a batch is in hand whose offsets are not here."""
        self._coordination.leave()
        self._is_open = False
        self._refuse(ConfigError("the transaction is over", you_want="producer.transaction() for the next one"))
        if error is None:
            self._coordination.commit_or_abort(in_hand)
        else:
            self._coordination.abort_because(error)

    def give_up(self, error: BaseException) -> None:
        """Abort, if it was begun: its user went away while it was."""
        if self._is_open:
            self.end(error, ())

"""`HandsOut`: the half of a consumer that knows the batch in the user's hands, and hears from everybody how it ended.

The user's loop, a transaction, a store and a commit each say something of it; what they say in the wrong order is
refused here.

Keeps: K4 an unfinished record is neither counted as done nor skipped; K6 under exactly once nothing is handed out while
       the offsets of the last batch are kept nowhere, or nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import ref

from semel.clients.membership import Membership
from semel.clients.progress import Ending, Progress
from semel.clients.records import Batch, Record
from semel.clients.settings import refusal
from semel.clients.settings_rules import OFFSETS_RULE
from semel.errors import SemelError
from semel.guarantee import Guarantee

if TYPE_CHECKING:
    from semel.clients.stores import Store


class HandsOut:
    """What a consumer has handed out last."""

    _member: Membership  # the consumer's to make

    def __init__(self, guarantee: Guarantee, store: Store | None) -> None:
        """Nothing is handed out yet."""
        self.guarantee, self.store = guarantee, store
        self._progress = Progress()
        self._ended: SemelError | None = None  # why nothing is handed out any more
        self._is_close_due = False  # it was asked for in the middle of another call, which does it when it ends
        self._ask_commit: Callable[[], None] = lambda: None

    @property
    def batch_for_transaction(self) -> Batch | None:
        """The batch in the user's hands, if its offsets belong into a producer's transaction."""
        is_wanted = self.guarantee is Guarantee.EXACTLY_ONCE and self.store is None
        return self._progress.batch if is_wanted and self._progress.ending is Ending.OPEN else None

    def finish_batch(self, batch: Batch) -> None:
        """The batch in the user's hands is done, unless a transaction or store has said how it ended.

        Two loops at once would take each batch from one another, without end. The loop that lost its batch
        gets an error.
        """
        if batch.is_taken_over and self.guarantee is Guarantee.AT_LEAST_ONCE:
            raise self._misuse(
                "more, by a loop whose batch another loop over the same consumer has taken over",
                "one loop at a time; threads and tasks that work at once each make a consumer of their own",
            )
        self._progress.end_open(batch, Ending.FINISHED)

    def leave_batch(self, batch: Batch) -> None:
        """The loop is over in the middle of the batch: by `break`, `return` or an exception; which one is not known."""
        self._progress.end_open(batch, Ending.LEFT)

    def leave_last(self) -> None:
        """Mark the last batch as left: no loop has received it."""
        if self._progress.batch is not None:
            self.leave_batch(self._progress.batch)

    def refuse_records(self) -> None:
        """Refuse a loop over records under exactly once, which commits the offsets of whole batches only."""
        if self.guarantee is Guarantee.EXACTLY_ONCE:
            raise self._misuse("for record in consumer", "for batch in consumer.batches()")

    def each_record(self, batch: Batch) -> Iterator[Record]:
        """The records of the batch in hand, each counted as done when the next is asked for."""
        for number, record in enumerate(batch.one_by_one(), start=1):
            batch.records_handed = number
            yield record
            batch.records_done = number

    def _decide(self) -> None:
        """Ask for the commit that the last batch is in, if nobody knows what became of it; raise while that is so."""
        while not self._progress.ask_for_more():
            try:
                self._ask_commit()
            # Decided by now, as not committed: the batch comes again, and the loop's next question passes.
            except SemelError:
                if self._progress.ending is Ending.UNDECIDED:
                    raise
            else:
                assert self._progress.ending is not Ending.UNDECIDED, "asked without an end: nobody decides the commit"

    def _refuse_left(self) -> None:
        """A batch whose loop was left is not done because somebody asks for more."""
        batch = self._progress.batch
        if batch is not None and batch.left_at:
            self._progress.end(batch, Ending.GIVEN_UP)
            raise self._misuse(
                f"the next batch, when the loop over the last one was left at {batch.left_at}",
                "the loop to its end; list(batch) first, to skip some on purpose",
            )

    def _why_not_done(self) -> SemelError | None:
        """Why the batch in hand does not count as finished though a commit was asked for."""
        batch, progress = self._progress.batch, self._progress
        if batch is None:
            return None
        if progress.ending is Ending.LEFT and batch.records_done < batch.records_handed:
            return self._misuse(
                "consumer.commit() after the loop was left: the batch or record that it had is not counted",
                "consumer.commit() inside the loop, before break; after next(batches) keep `batches` in a variable",
            )
        if batch.left_at:
            return self._misuse(
                f"consumer.commit() inside the loop over a batch, at {batch.left_at}",
                "for record in consumer.records(): …, which counts one by one; or commit() behind the batch's loop; or "
                "list(batch) first, to skip some on purpose",
            )
        return None

    def offsets_for_transaction(self, asker: object) -> tuple[Batch, list[Any]]:
        """The last batch and what a transaction commits for it; a late one is refused by the group.

        `asker` has the batch to itself: of two transactions one could be committed and the other undone.
        """
        self._refuse_after_end()
        batch = self._progress.batch
        if self.guarantee is not Guarantee.EXACTLY_ONCE or self.store is not None:
            want = 'Consumer(…, guarantee=EXACTLY_ONCE) without store, beside Producer(…, transactional_id="…")'
            raise self._misuse("tx.commit_offsets(consumer)", want)
        if batch is None:
            raise self._misuse("tx.commit_offsets(consumer) without a batch", "for batch in consumer.batches(): …")
        if self._progress.ending is Ending.SETTLED:
            wrote = "tx.commit_offsets(consumer) for a batch whose offsets a transaction has committed already"
            raise self._misuse(wrote, "one transaction for each batch; this one is done, go on with the next")
        if batch.taken_by not in (None, asker):
            wrote = "tx.commit_offsets(consumer) for a batch that is in another producer's transaction"
            raise self._misuse(wrote, "one transaction for each batch; a producer can send to several topics in it")
        if batch.lost:
            raise batch.fenced("the offsets are not part of the transaction")
        self.confirm_topics()
        batch.taken_by = asker
        return batch, self._member.commits.labelled(batch.offsets)

    def undecided(self, batch: Batch, ask: Callable[[], None]) -> None:
        """The offsets of the batch go into a commit; `ask` decides it, or raises. A batch that comes again is refused.

        A consumer that is closed hands nothing out any more.
        """
        self._ask_commit = ask
        if not self._progress.claim(batch) and self._ended is None:
            raise self._misuse("a commit of a batch that was given up, for more was asked for", self._exact_way())

    def has_in_hand(self, batch: Batch) -> bool:
        """Whether this is the batch that was handed out last and is not taken back."""
        return self._progress.batch is batch

    def confirm_topics(self) -> None:
        """The records of the last batch are of the topics that the offsets are of; BrokerError when they are not."""
        self._refuse_after_end()
        self._member.lives.confirm(any_age=self.store is not None)

    def settled(self, batch: Batch) -> None:
        """The offsets of the batch are kept with its results."""
        self._progress.end(batch, Ending.SETTLED)

    def rewind(self, batch: Batch) -> None:
        """The work on the batch was undone: it is handed out again."""
        batch.begin_again()
        self._progress.end(batch, Ending.GIVEN_UP)

    def _refuse_after_end(self) -> None:
        """Raise why nothing is handed out any more, if that is so."""
        if self._ended is not None:
            raise self._ended

    def _misuse(self, you_wrote: str, you_want: str) -> SemelError:
        return refusal(OFFSETS_RULE, self.guarantee, you_wrote=you_wrote, you_want=you_want)

    def _exact_way(self) -> str:
        if self.store is not None:
            return "with store.transaction(batch) as t: …"
        return "with producer.transaction() as tx: … tx.commit_offsets(consumer)"


_consumers: ContextVar[tuple[ref[HandsOut], ...]] = ContextVar("semel_consumers", default=())


def note(consumer: HandsOut) -> None:
    """Remember that the running thread or task gets batches of this consumer."""
    # Weak references in a context variable: each thread or task knows its own consumers and keeps none of them alive.
    known, own = _consumers.get(), ref(consumer)
    if own not in known:
        _consumers.set((*(one for one in known if one() is not None), own))


def batches_in_hand() -> list[Batch]:
    """Batches of the running thread or task that are not done, and whose offsets belong into a transaction."""
    return list(_in_hand())


def _in_hand() -> Iterator[Batch]:
    for known in _consumers.get():
        consumer = known()
        batch = None if consumer is None else consumer.batch_for_transaction
        if batch is not None:
            yield batch
